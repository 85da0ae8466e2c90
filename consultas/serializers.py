"""The JSON of the query routes: what is taken in, and every shape that goes out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from operator import attrgetter
from typing import Any
from uuid import UUID

from django.utils import timezone

from consultas.fan_out import Answer
from consultas.models import Query
from consultas.offer_json import offer, snake_offer, sort_offers
from foundation.fields import (
    USER_AGENT_LENGTH,
    Block,
    BooleanField,
    ChoiceField,
    DateField,
    DecimalField,
    IntegerField,
    ListField,
    NumberField,
    TextField,
)
from foundation.format_fields import CPFField, EmailField, IPField, PhoneField
from foundation.formats import iso_utc
from providers.reasons import Reason
from providers.types import (
    AppAuthorization,
    AppEvidence,
    BankAction,
    BankOffer,
    BankQuery,
    Employment,
    Geolocation,
    QueryStatus,
    StepOutcome,
)

#: Rendered offers by bank.
RenderedOffers = dict[str, list[dict[str, Any]]]
CENT = Decimal("0.01")


# --- In ---------------------------------------------------------------------------------------------------------


class GeolocationBlock(Block):
    """WGS 84 degrees."""

    lat = NumberField(min_value=-90, max_value=90, help_text="Latitude em graus, WGS 84.")
    lng = NumberField(min_value=-180, max_value=180, help_text="Longitude em graus, WGS 84.")

    def to_internal_value(self, data: Any) -> Geolocation:
        return Geolocation(**super().to_internal_value(data))


class AppEvidenceBlock(Block):
    userAgent = TextField(
        max_length=USER_AGENT_LENGTH, required=False, allow_null=True, help_text="`User-Agent` do aparelho do titular."
    )
    operationalSystem = TextField(required=False, allow_null=True, help_text="Sistema operacional.")
    deviceModel = TextField(required=False, allow_null=True, help_text="Modelo do aparelho.")
    deviceName = TextField(required=False, allow_null=True, help_text="Nome do aparelho.")
    deviceType = TextField(required=False, allow_null=True, help_text="Tipo do aparelho, como `mobile`.")
    geoLocation = GeolocationBlock(required=False, allow_null=True, help_text="Onde o titular estava.")

    def to_internal_value(self, data: Any) -> AppEvidence:
        told = super().to_internal_value(data)
        return AppEvidence(
            user_agent=told.get("userAgent"),
            operational_system=told.get("operationalSystem"),
            device_model=told.get("deviceModel"),
            device_name=told.get("deviceName"),
            device_type=told.get("deviceType"),
            geolocation=told.get("geoLocation"),
        )


class AppAuthorizationBlock(Block):
    authorizationId = TextField(
        required=False, allow_null=True, help_text="Identificador da autorização no seu aplicativo."
    )
    signatureDate = TextField(
        required=False, allow_null=True, help_text="Quando o titular autorizou, como o seu aplicativo registrou."
    )
    evidence = AppEvidenceBlock(required=False, allow_null=True, help_text="O que o seu aplicativo viu do aparelho.")

    def to_internal_value(self, data: Any) -> AppAuthorization:
        told = super().to_internal_value(data)
        return AppAuthorization(
            authorization_id=told.get("authorizationId"),
            signature_date=told.get("signatureDate"),
            evidence=told.get("evidence"),
        )


class QueryRequest(Block):
    """The body of the three query routes. `validated_data` holds `BankQuery`'s fields, `authorization_id` and
    `providers` (None: not narrowed)."""

    _DEFAULTED = frozenset({"sex", "with_insurance"})

    cpf = CPFField(help_text="CPF do titular, 11 dígitos sem máscara, com dígitos verificadores válidos.")
    nome = TextField(source="name", help_text="Nome completo do titular.")
    data_nascimento = DateField(
        source="birth_date", not_future=True, help_text="Nascimento do titular: uma data real, de 1900 até hoje."
    )
    telefone = PhoneField(source="phone", help_text="DDD e número; um 55 inicial é removido.")
    email = EmailField(help_text="E-mail do titular.")
    client_ip = IPField(
        required=False,
        allow_null=True,
        help_text="IP do titular no aceite, IPv4 ou IPv6. Obrigatório, a não ser com `authorization_id`.",
    )
    authorization_id = TextField(
        required=False,
        allow_null=True,
        help_text="Sessão de autorização aceita, no lugar de `client_ip` e `geolocation`, que então são ignorados.",
    )
    geolocation = GeolocationBlock(
        required=False,
        allow_null=True,
        help_text="Onde o titular estava no aceite. Há bancos que não fazem oferta sem ela.",
    )
    providers = ListField(
        child=TextField(allow_blank=True),
        required=False,
        allow_null=True,
        max_length=64,
        help_text=("Só estes bancos do contrato. Nomes de fora do contrato são ignorados; se não sobra nenhum, 422."),
    )
    sexo = ChoiceField(
        [0, 1, 2],
        source="sex",
        required=False,
        allow_null=True,
        help_text="0 não informado (padrão), 1 masculino, 2 feminino.",
    )
    app_authorization = AppAuthorizationBlock(
        required=False,
        allow_null=True,
        help_text="Evidência de um aceite no seu aplicativo; há bancos que oferecem mais com ela.",
    )
    originador = TextField(
        source="portfolio",
        required=False,
        allow_null=True,
        help_text="Carteira de originação. Chega só aos bancos para os quais o seu contrato lista esta mesma carteira; "
        "nos demais é ignorada e vale a carteira padrão do banco.",
    )
    loan_value = DecimalField(
        min_value=CENT,
        required=False,
        allow_null=True,
        help_text=(
            "Valor desejado, em reais. Sem ele e sem `valor_parcela` vem o teto. Prevalece sobre `valor_parcela`."
        ),
    )
    prazo = IntegerField(
        source="installments",
        min_value=1,
        max_value=420,
        required=False,
        allow_null=True,
        help_text="Meses desejados. Se há valor ou parcela e falta o prazo, 48.",
    )
    valor_parcela = DecimalField(
        source="installment_value",
        min_value=CENT,
        required=False,
        allow_null=True,
        help_text="Parcela desejada, em reais, com o seguro.",
    )
    with_insurance = BooleanField(
        required=False, allow_null=True, help_text="`false` deixa de fora as ofertas com seguro. Padrão: `true`."
    )

    def json_schema(self) -> dict[str, Any]:
        """`client_ip` is required unless there is an `authorization_id`; null counts as absent."""
        return {
            "properties": {"sexo": {"default": 0}, "with_insurance": {"default": True}},
            "if": {"required": ["authorization_id"], "properties": {"authorization_id": {"type": "string"}}},
            "else": {"required": ["client_ip"], "properties": {"client_ip": {"type": "string"}}},
        }

    def to_internal_value(self, data: Any) -> Any:
        """Where absence has a meaning of its own, null is absence."""
        found = super().to_internal_value(data)
        return {name: value for name, value in found.items() if value is not None or name not in self._DEFAULTED}

    def get_fields(self) -> dict[str, Any]:
        """With an `authorization_id` the session's evidence counts: the body's own is not even looked at."""
        fields = super().get_fields()
        if self.variant == "own evidence":
            fields["client_ip"].required, fields["client_ip"].allow_null = True, False
        elif self.variant == "session":
            del fields["client_ip"], fields["geolocation"]
        return fields

    @classmethod
    def variant_for(cls, data: Mapping[str, Any]) -> str:
        return "own evidence" if data.get("authorization_id") is None else "session"


class IndividualQueryRequest(QueryRequest):
    """The same for one bank, which the path names: `providers` is ignored."""

    providers = None  # type: ignore[assignment]  # drops the field, as Django REST framework has it


# --- Out --------------------------------------------------------------------------------------------------------


def provider_result(answer: Answer, shown: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """A bank's part of the aggregated response; `shown` are its offers as `offer` renders them."""
    waiting = answer.status in (QueryStatus.REQUIRES_ACTION, QueryStatus.PENDING)
    return {
        "provider": answer.provider,
        "status": answer.status,
        "success": answer.status is not QueryStatus.ERROR,
        "proposals": list(shown),
        "vinculos": [_employment(each) for each in answer.links],
        "error": answer.error,
        "elapsedMs": answer.elapsed_ms,
        "noProposalReasons": list(answer.reasons),
        "reasons": [reason.as_dict() for reason in answer.coded],
        "requiresSignature": waiting,
        "signatureUrl": answer.action.url if answer.action else None,
        "action": _action(answer.action),
        "termAutoAuthorized": answer.term_auto_authorized,
    }


def shown_offers(query: Query, answers: Iterable[Answer], ids: Mapping[str, Sequence[UUID]]) -> RenderedOffers:
    """Each bank's offers, rendered and sorted; `ids` are their `offerId`s in the answers' order."""
    request = query.holder()
    return {
        answer.provider: sort_offers(
            offer(answer.provider, item, request, offer_id)
            for item, offer_id in zip(answer.offers, ids[answer.provider], strict=True)
        )
        for answer in answers
    }


def aggregate(query: Query, answers: Sequence[Answer], shown: RenderedOffers, elapsed_ms: int) -> dict[str, Any]:
    """The aggregated response."""
    return {
        "proposals": sort_offers(item for items in shown.values() for item in items),
        "providerResults": {answer.provider: provider_result(answer, shown[answer.provider]) for answer in answers},
        "employers": employers(answers),
        "elapsedMs": elapsed_ms,
        "timestamp": iso_utc(timezone.now()),
        "simulationGroupId": str(query.simulation_group) if query.simulation_group else None,
    }


def employers(answers: Iterable[Answer]) -> list[dict[str, Any]]:
    """Unique employers by CNPJ: of the first bank by name that reports a margin, else of the first by name."""
    found: dict[str, dict[str, Any]] = {}
    for answer in sorted(answers, key=attrgetter("provider")):
        for each in answer.links:
            known = found.get(each.employer_cnpj)
            if known is None or (known["margin"] is None and each.margin is not None):
                found[each.employer_cnpj] = {
                    "cnpj": each.employer_cnpj,
                    "name": each.employer_name,
                    "matricula": each.registration,
                    "provider": answer.provider,
                    "margin": _number(each.margin),
                }
    return list(found.values())


def envelope(answer: Answer, proposal_id: str | None) -> dict[str, Any]:
    """The individual route's answer, in snake_case."""
    return {
        "provider": answer.provider,
        "status": answer.status,
        "offers": [snake_offer(answer.provider, item) for item in answer.offers],
        "vinculos": [_snake_employment(each) for each in answer.links],
        "proposal_id": proposal_id,
        "action": _action(answer.action),
        "error": answer.error,
        "elapsed_ms": answer.elapsed_ms,
        "no_proposal_reasons": list(answer.reasons),
        "reasons": [reason.as_dict() for reason in answer.coded],
        "term_auto_authorized": answer.term_auto_authorized,
        "provider_data": answer.data,
    }


def stream_event(answer: Answer, request: BankQuery) -> dict[str, Any]:
    """`provider_result` for a bank that answered, a refusal too; `provider_error` for an infrastructure failure.
    Streamed offers are not kept, so their `offerId` is null."""
    if not answer.reached:
        return {
            "event": "provider_error",
            "provider": answer.provider,
            "error": answer.error,
            "reasons": [reason.as_dict() for reason in answer.coded],
            "elapsedMs": answer.elapsed_ms,
        }
    shown = sort_offers(offer(answer.provider, item, request, None) for item in answer.offers)
    return {"event": "provider_result", **provider_result(answer, shown)}


def lead(query: Query, answers: Sequence[Answer], shown: RenderedOffers) -> dict[str, Any]:
    """The own fields of the `lead` webhook."""
    best = sort_offers(item for items in shown.values() for item in items)[:1]
    return {
        "cpf": query.request["cpf"],
        "simulation_group_id": str(query.simulation_group),
        "providers": [
            {"provider": answer.provider, "status": answer.status, "offers": len(answer.offers)} for answer in answers
        ],
        "best_offer": best[0] if best else None,
    }


def authorization_result(
    query: Query,
    provider: str,
    outcome: StepOutcome,
    reason: Reason | None,
    found: Sequence[BankOffer],
    ids: Sequence[UUID],
) -> dict[str, Any]:
    """The own fields of the `authorization_result` webhook. `found` is empty unless the step was approved, `reason`
    tells why it is empty."""
    request = query.for_bank(provider)
    shown = (offer(provider, item, request, offer_id) for item, offer_id in zip(found, ids, strict=True))
    told = reason.as_dict() if reason else None
    return {"provider": provider, "status": outcome, "reason": told, "offers": sort_offers(shown)}


def _action(action: BankAction | None) -> dict[str, Any] | None:
    return {"type": action.type, "url": action.url, "detail": action.detail} if action else None


def _employment(each: Employment) -> dict[str, Any]:
    return {
        "matricula": each.registration,
        "employerCnpj": each.employer_cnpj,
        "employerName": each.employer_name,
        "jobTitle": each.job_title,
        "admissionDate": each.admission_date.isoformat() if each.admission_date else None,
        "margin": _number(each.margin),
    }


def _snake_employment(each: Employment) -> dict[str, Any]:
    return {
        "matricula": each.registration,
        "employer_cnpj": each.employer_cnpj,
        "employer_name": each.employer_name,
        "job_title": each.job_title,
        "admission_date": each.admission_date.isoformat() if each.admission_date else None,
        "margin": _number(each.margin),
    }


def _number(value: Decimal | None) -> float | None:
    return None if value is None else float(value)
