"""What each bank's refusals are to the service: the error, the words that partners read, and the field."""

import json
from typing import Any

import pytest

from foundation.errors import ApiError, NotFound, error_from_dict
from providers import registry
from providers.errors import (
    BankClosed,
    Conflict,
    OfferExpired,
    ProviderError,
    ProviderRejected,
    ProviderUnavailable,
    Repairable,
    StepOwed,
    as_submission_error,
    native_code,
    refusal_by_status,
)
from providers.http import Reply
from providers.types import given


def aroeira(words: str) -> dict[str, Any]:
    return {"erro": True, "mensagem": words}


def jatoba(code: str) -> dict[str, Any]:
    return {"sucesso": False, "codigo": code, "mensagem": "Não.", "dados": None}


def imbuia(code: str, words: str) -> dict[str, Any]:
    return {"message": "Requisição inválida", "details": [{"code": code, "message": words}]}


CEDRO_FIELD = {"detail": [{"loc": ["body", "borrower", "address", "postal_code"], "msg": "Não."}]}
CANELA_FIELD = {"mensagem": "Pendências", "pendencias": [{"campo": "tomador.nomeMae", "mensagem": "Não."}]}
LOST_DATE = {"errors": {"data-vencimento-inicial": ["data de vencimento inicial ausente"]}}


REFUSALS: list[tuple[Any, ...]] = [
    ("aroeira", 200, aroeira("Sistema em VIRADA DE FOLHA, tente mais tarde"), BankClosed, ""),
    ("aroeira", 200, aroeira("Nenhuma proposta localizada"), NotFound, ""),
    ("aroeira", 200, aroeira("Situacao da proposta nao permite a operacao"), Conflict, ""),
    ("aroeira", 200, aroeira("Simulacao vencida"), OfferExpired, ""),
    ("aroeira", 200, aroeira("Cliente com restricao interna"), ProviderRejected, "Cliente com restricao interna"),
    ("canela", 400, {"mensagem": "Não.", "motivo": "POLITICA"}, ProviderRejected, "Não."),
    ("canela", 403, {"mensagem": "acesso negado"}, StepOwed, ""),
    ("cedro", 422, CEDRO_FIELD, ProviderRejected, "borrower.address.postal_code: Não."),
    ("cedro", 403, {"detail": "consent"}, StepOwed, ""),
    ("cedro", 409, {"detail": "Não."}, Conflict, ""),
    ("imbuia", 403, imbuia("BIO-003", "Prova de vida"), StepOwed, ""),
    ("imbuia", 404, imbuia("SIM-004", "simulacao nao encontrada"), OfferExpired, ""),
    ("imbuia", 422, imbuia("CRE-001", "Não."), ProviderRejected, "Não."),
    ("imbuia", 406, imbuia("VER-001", "Accept"), None, ""),  # a version that the bank retired, no refusal
    ("ipe", 400, {"code": "IPE1", "title": "English", "translation": "Não."}, ProviderRejected, "Não."),
    ("ipe", 403, {"code": "IPE1", "title": "English", "translation": "Não."}, ProviderRejected, "Não."),
    ("ipe", 503, {"code": "IPE2", "title": "English", "translation": "Falha na API externa."}, None, ""),
    ("jatoba", 200, jatoba("99"), ProviderUnavailable, ""),
    ("jatoba", 200, jatoba("42"), OfferExpired, ""),
    ("jatoba", 200, jatoba("41"), Conflict, ""),
    ("jatoba", 200, jatoba("30"), ProviderRejected, "Não."),
    ("jatoba", 200, jatoba("12"), ProviderRejected, "Não."),
    ("jatoba", 200, jatoba("77"), ProviderError, ""),
    ("jatoba", 200, jatoba("20"), None, ""),
    ("peroba", 404, {"Mensagem": "Não."}, NotFound, ""),
    ("peroba", 400, {"Mensagem": "Não."}, ProviderRejected, "Não."),
    ("sucupira", 422, {"errors": {"politica": ["Não."]}}, ProviderRejected, "Não."),
    ("sucupira", 422, {"errors": {"cliente.e-mail": ["Não."]}}, ProviderRejected, "cliente.e-mail: Não."),
    ("sucupira", 422, LOST_DATE, Repairable, "data-vencimento-inicial: data de vencimento inicial ausente"),
]


def test_a_refusal_is_the_error_that_the_bank_means() -> None:
    for bank, status, body, kind, words in REFUSALS:
        adapter = given(registry.get(bank))
        refusal = adapter.refusal(Reply(status, {}, json.dumps(body).encode()))
        assert refusal is None if kind is None else isinstance(refusal, kind)
        if words:
            assert refusal is not None
            assert refusal.message == words


@pytest.mark.parametrize(
    ("bank", "status", "body", "field"),
    [
        ("canela", 422, CANELA_FIELD, "titular.nome_mae"),
        ("cedro", 422, CEDRO_FIELD, "endereco.cep"),
        ("imbuia", 400, imbuia("REQ-1", "titular.nome_pai: x"), "titular.nome_pai"),
        ("sucupira", 422, {"errors": {"cliente.e-mail": ["x"]}}, "contato.email"),
        ("sucupira", 422, {"errors": {"cliente.telefone": ["x"]}}, "contato.telefone"),
        ("sucupira", 422, {"errors": {"politica": ["x"]}}, None),
    ],
)
def test_the_field_that_a_bank_refuses_has_a_name_of_the_contract(
    bank: str, status: int, body: dict[str, Any], field: str | None
) -> None:
    adapter = given(registry.get(bank))
    refusal = given(adapter.refusal(Reply(status, {}, json.dumps(body).encode())))
    assert adapter.bodies.contract_names.get(refusal.field or "") == field


def test_a_page_in_place_of_any_answer_of_aroeira_is_an_outage() -> None:
    adapter = given(registry.get("aroeira"))
    refusal = adapter.refusal(Reply(200, {"Content-Type": "text/html"}, b"<!DOCTYPE html><p>Virada de folha</p>"))
    assert isinstance(refusal, ProviderUnavailable)
    assert refusal.message == ProviderUnavailable.default_message


def test_a_submissions_conflict_keeps_the_banks_code() -> None:
    """Before the fix, a submission that a bank refused with 409 lost its code and its field."""
    refused = as_submission_error(refusal_by_status(409, "Oferta em uso.", code="X-17", field="valor"))
    assert isinstance(refused, ProviderRejected)
    assert (refused.message, native_code(refused), refused.field) == ("Oferta em uso.", "X-17", "valor")


@pytest.mark.parametrize("kind", [NotFound, OfferExpired, ProviderError, ProviderRejected, ProviderUnavailable])
def test_a_banks_error_is_the_same_behind_the_way_from_a_worker(kind: type[ApiError]) -> None:
    error = kind("Não.", field="valor")
    again = error_from_dict(error.as_dict())
    assert (type(again), again.as_dict()) == (kind, error.as_dict())
