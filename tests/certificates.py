"""Certificates for servers and clients under TLS that tests start."""

import datetime
import ipaddress

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_PEM = serialization.Encoding.PEM
_DAY = datetime.timedelta(days=1)


class Authority:
    """A certificate authority. `pem` is its certificate."""

    def __init__(self, name: str = "test authority") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        self.pem = self._signed(self._name, self._key, None, days=1)

    def issue(self, host: str, *, days: float = 1) -> str:
        """A certificate for a host name, an IP address or, without a dot, a client, and its key (PEM). It is valid for
        `days`; if that is negative, it ended that many days ago."""
        key = ec.generate_private_key(ec.SECP256R1())
        pem = self._signed(_name(host), key, _named(host), days=days)
        private = key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        return pem + private.decode()

    def revoking(self, certificate: str) -> str:
        """The list of revoked certificates with this one in it (PEM)."""
        now = datetime.datetime.now(datetime.UTC)
        serial = x509.load_pem_x509_certificate(certificate.encode()).serial_number
        revoked = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(now - _DAY).build()
        crl = x509.CertificateRevocationListBuilder().issuer_name(self._name).last_update(now - _DAY)
        crl = crl.next_update(now + _DAY).add_revoked_certificate(revoked)
        return crl.sign(self._key, hashes.SHA256()).public_bytes(_PEM).decode()

    def _signed(
        self, name: x509.Name, key: ec.EllipticCurvePrivateKey, host: x509.GeneralName | None, *, days: float
    ) -> str:
        end = datetime.datetime.now(datetime.UTC) + _DAY * days
        builder = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(end - _DAY * (1 + abs(days)))
            .not_valid_after(end)
            .add_extension(x509.BasicConstraints(ca=host is None, path_length=None), critical=True)
        )
        if host is not None:
            builder = builder.add_extension(x509.SubjectAlternativeName([host]), critical=False)
        return builder.sign(self._key, hashes.SHA256()).public_bytes(_PEM).decode()


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _named(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
