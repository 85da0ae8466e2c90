"""imbuia's peculiarities: liveness at a link, a media type per route, a raw token, signed callbacks."""

from __future__ import annotations

import hashlib
import hmac
import time
from datetime import UTC, datetime, timedelta

import pytest

from providers.operation import BankClient
from providers.types.answer import QueryStatus
from providers.types.proposal import ProposalStatus
from tests.processes import Simulator
from tests.providers.conftest import Connect
from tests.providers.samples import (
    CALLBACK_SECRETS,
    HOLDERS,
    a_query,
    a_submission,
    reference_of,
)

BIOMETRIC = HOLDERS["biometric"]
LIVENESS_REFUSED = HOLDERS["liveness_refused"]


@pytest.fixture
def imbuia(connect: Connect) -> BankClient:
    return connect("imbuia")


# --- authentication


# --- the liveness proof


def test_the_proof_of_the_sandbox_counts_as_done_after_15_seconds(imbuia: BankClient, simulator: Simulator) -> None:
    reference = reference_of(imbuia, BIOMETRIC)
    simulator.advance(16)
    assert len(imbuia.check(a_query(BIOMETRIC), reference).offers) == 2
    assert imbuia.query(a_query(BIOMETRIC)).status is QueryStatus.OK


# --- callbacks


SECRET = CALLBACK_SECRETS["imbuia"]
ENDED = b'{"tipo": "biometria.encerrada", "biometria": {"id_biometria": "b1"}}'


def callback(body: bytes = ENDED, *, age_s: float = 0, secret: str = SECRET) -> tuple[dict[str, str], bytes]:
    """A callback as the manual shows it, signed so many seconds ago."""
    moment = str(int(time.time() - age_s))
    signature = hmac.new(secret.encode(), f"{moment}.evt_1.".encode() + body, hashlib.sha256).hexdigest()
    return {"X-Imbuia-Evento": "evt_1", "X-Imbuia-Momento": moment, "X-Imbuia-Assinatura": signature}, body


def altered_callbacks() -> list[tuple[dict[str, str], bytes]]:
    """Those that tests/providers/contract/test_callbacks.py does not know."""
    headers, body = callback()
    return [
        ({**headers, "X-Imbuia-Evento": "evt_2"}, body),
        ({**headers, "X-Imbuia-Momento": str(int(time.time()) + 1)}, body),
        ({**headers, "X-Imbuia-Assinatura": "ç"}, body),
    ]


# --- proposal


def test_a_status_read_shows_the_link_without_formalize(imbuia: BankClient, simulator: Simulator) -> None:
    submitted = imbuia.submit(a_submission(imbuia.query(a_query()).offers[0]))
    simulator.advance(2)
    proposal = imbuia.status(submitted.native_id)
    assert (proposal.status, proposal.native_status) == (ProposalStatus.AWAITING_SIGNATURE, "AGUARDANDO_FORMALIZACAO")
    assert str(proposal.signature_url).startswith(f"{simulator.url}/links/")
    assert proposal.signature_expires_at is not None
    assert proposal.signature_expires_at > datetime.now(UTC) + timedelta(days=29)
