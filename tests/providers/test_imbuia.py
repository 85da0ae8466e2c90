"""imbuia's peculiarities: liveness at a link, a media type per route, a raw token, signed callbacks."""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from datetime import UTC, datetime, timedelta

import pytest
from requests.structures import CaseInsensitiveDict
from structlog.testing import capture_logs

from providers.banks.imbuia import Imbuia
from providers.errors import ProviderError
from providers.operation import BankClient
from providers.types.answer import QueryStatus
from providers.types.proposal import ProposalStatus
from providers.types.steps import ActionType, StepOutcome
from tests.processes import Simulator
from tests.providers.callbacks import simulator_calling
from tests.providers.conftest import Connect, at
from tests.providers.manuals import RANDOM_KEY, StepFacts, Words
from tests.providers.samples import (
    CALLBACK_SECRETS,
    FULL_FLOW,
    HOLDERS,
    a_query,
    a_submission,
    reference_of,
)
from tests.receiver import Received, Receiver, Reply

BIOMETRIC = HOLDERS["biometric"]
LIVENESS_REFUSED = HOLDERS["liveness_refused"]


WORDS = Words(
    sex=("titular.sexo", {"M": "MASC", "F": "FEM"}),
    sex_of_query=("trabalhador.sexo", [None, "MASC", "FEM"]),
    marital_status=(
        "titular.estado_civil",
        {
            "solteiro": "SOL",
            "casado": "CAS",
            "divorciado": "DIV",
            "viuvo": "VIU",
            "separado": "SEP",
            "uniao_estavel": "UNE",
            None: None,
        },
    ),
    account_kind=(
        "dados_bancarios.tipo_conta",
        {"corrente": "ContaCorrenteIndividual", "poupanca": "ContaPoupancaIndividual", "salario": "ContaSalario"},
    ),
    pix=(
        "chave_pix",
        {
            "cpf": {"tipo": "CPF", "chave": FULL_FLOW},
            "telefone": {"tipo": "CELULAR", "chave": "11987654321"},
            "email": {"tipo": "EMAIL", "chave": "maria@example.com"},
            "aleatoria": {"tipo": "EVP", "chave": RANDOM_KEY},
        },
    ),
    whole={
        "titular.nome_pai": "João da Silva",
        "titular.estado_civil": "UNE",
        "titular.naturalidade.cidade": "São Paulo",
        "endereco.complemento": "Sala 1",
        "dados_bancarios.tipo_conta": "ContaPoupancaIndividual",
        "dados_bancarios.digito_agencia": "5",
        "dados_bancarios.digito_conta": "X",
        "envio_link": "WHATSAPP",
        "codigo_origem": "CARTEIRA-1",
    },
)


STEP = StepFacts(
    kind="liveness",
    status=QueryStatus.REQUIRES_ACTION,
    action=ActionType.BIOMETRICS,
    hours=24,
    messages=0,
    refused="A prova de vida do titular não foi aprovada pelo banco.",
    expired=None,
)


@pytest.fixture
def imbuia(connect: Connect) -> BankClient:
    return connect("imbuia")


# --- authentication


def test_each_route_names_its_version_and_bears_the_raw_token() -> None:
    def reply(request: Received) -> Reply:
        if request.path == "/auth/token":
            return Reply(200, b'{"access_token": "token-1", "expires_in_seconds": 1199}')
        return Reply(200, b"[]")

    with Receiver(reply) as bank:
        assert at("imbuia", bank.root).find("reference-1") is None
        _, find = bank.received
    assert find.headers["authorization"] == "token-1"
    assert find.headers["accept"] == "application/vnd.imbuia.proposta_v2+json"


def test_a_version_that_the_bank_retired_is_an_error_and_no_refusal_of_the_holder() -> None:
    retired = b'{"message": "Versao nao suportada", "details": [{"code": "VER-001", "message": "Accept"}]}'

    def reply(request: Received) -> Reply:
        if request.path == "/auth/token":
            return Reply(200, b'{"access_token": "token-1", "expires_in_seconds": 1199}')
        return Reply(406, retired)

    with Receiver(reply) as bank, pytest.raises(ProviderError):
        at("imbuia", bank.root).query(a_query())


# --- query


# --- the liveness proof


def test_the_proof_of_the_sandbox_counts_as_done_after_15_seconds(imbuia: BankClient, simulator: Simulator) -> None:
    reference = reference_of(imbuia, BIOMETRIC)
    simulator.advance(16)
    assert len(imbuia.check(a_query(BIOMETRIC), reference).offers) == 2
    assert imbuia.query(a_query(BIOMETRIC)).status is QueryStatus.OK


@pytest.mark.parametrize(
    ("word", "status", "step", "logged"),
    [
        ("EXPIRADA", QueryStatus.NO_OFFERS, StepOutcome.EXPIRED, []),
        ("EM_ORBITA", QueryStatus.REQUIRES_ACTION, StepOutcome.OPEN, ["EM_ORBITA"]),
    ],
)
def test_words_of_a_proof_that_the_sandbox_never_says(
    word: str, status: QueryStatus, step: StepOutcome, logged: list[str]
) -> None:
    proof = {"id_biometria": "b1", "situacao": word, "link": None, "data_expiracao": "2026-11-22T12:00:00Z"}

    def reply(request: Received) -> Reply:
        if request.path == "/auth/token":
            return Reply(200, b'{"access_token": "token-1", "expires_in_seconds": 1199}')
        return Reply(200, json.dumps(proof).encode())

    with capture_logs() as logs, Receiver(reply) as bank:
        result = at("imbuia", bank.root).check(a_query(BIOMETRIC), "b1")
    assert (result.status, result.step) == (status, step)
    assert [line["word"] for line in logs if line["event"] == "bank_step_unknown"] == logged


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


def test_the_simulated_banks_own_callback_names_the_proof() -> None:
    with Receiver() as service, simulator_calling(service) as simulator:
        bank = at("imbuia", f"{simulator.url}/imbuia")
        reference = reference_of(bank, BIOMETRIC)
        simulator.complete(BIOMETRIC, "imbuia", "liveness")
        [request] = service.wait_for(1)
        assert request.path == "/partners/v1/bank-callbacks/imbuia"
        assert Imbuia.verify_callback(SECRET, CaseInsensitiveDict(request.headers), request.body) == reference
        assert bank.check(a_query(BIOMETRIC), reference).step is StepOutcome.APPROVED


# --- proposal


def test_a_status_read_shows_the_link_without_formalize(imbuia: BankClient, simulator: Simulator) -> None:
    submitted = imbuia.submit(a_submission(imbuia.query(a_query()).offers[0]))
    simulator.advance(2)
    proposal = imbuia.status(submitted.native_id)
    assert (proposal.status, proposal.native_status) == (ProposalStatus.AWAITING_SIGNATURE, "AGUARDANDO_FORMALIZACAO")
    assert str(proposal.signature_url).startswith(f"{simulator.url}/links/")
    assert proposal.signature_expires_at is not None
    assert proposal.signature_expires_at > datetime.now(UTC) + timedelta(days=29)
