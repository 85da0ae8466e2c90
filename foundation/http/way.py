"""The way to a receiver: which addresses may be called, and by which certificate, authorities and proxy."""

import os
import ssl
from dataclasses import dataclass, field
from functools import lru_cache

from foundation.http.addresses import Rules


@dataclass(frozen=True)
class Way:
    """How requests reach a receiver. Requests of different ways never share a connection.

    At most `most_idle` idle connections to an origin are kept. `identity` is our client certificate, with those of its
    issuers, and its private key (PEM). `authorities` are the certificates of the authorities that may issue the
    receiver's (PEM); if empty, those that the machine trusts. `proxy` is the URL of a proxy that opens tunnels
    (CONNECT), with user and password if it wants them; it may be private, and it resolves the receiver's name.
    """

    rules: Rules
    most_idle: int = 8
    identity: str = field(default="", repr=False)
    authorities: str = field(default="", repr=False)
    proxy: str = field(default="", repr=False)

    def tls(self) -> ssl.SSLContext:
        """The TLS context of this way: TLS 1.2 at least; certificates and host names are verified."""
        return _context(self.identity, self.authorities)


@lru_cache(maxsize=64)
def _context(identity: str, authorities: str) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=authorities or None)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if identity:
        load_identity(context, identity)
    return context


def load_identity(context: ssl.SSLContext, identity: str) -> None:
    """Have `context` show the certificate in `identity`. Raises ssl.SSLError if the key is not the certificate's.

    Python loads keys from files only. This one is in memory, so that the key never reaches a disk.
    """
    file = os.memfd_create("identity", os.MFD_CLOEXEC)
    try:
        os.write(file, identity.encode())
        context.load_cert_chain(f"/proc/self/fd/{file}", password="")
    finally:
        os.close(file)
