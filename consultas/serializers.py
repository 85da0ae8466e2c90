"""The request bodies of the query routes."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from django.conf import settings

from authorizations.serializers import GeolocationBlock
from foundation.fields import (
    OPTIONAL,
    USER_AGENT_LENGTH,
    Block,
    BooleanField,
    ChoiceField,
    DateField,
    DecimalField,
    IntegerField,
    ListField,
    TextField,
)
from foundation.format_fields import CPFField, EmailField, IPField, PhoneField, ReferenceField

CENT = Decimal("0.01")


class AppEvidenceBlock(Block):
    userAgent = TextField(
        source="user_agent", max_length=USER_AGENT_LENGTH, **OPTIONAL, help_text="`User-Agent` do aparelho do titular."
    )
    operationalSystem = TextField(source="operational_system", **OPTIONAL, help_text="Sistema operacional.")
    deviceModel = TextField(source="device_model", **OPTIONAL, help_text="Modelo do aparelho.")
    deviceName = TextField(source="device_name", **OPTIONAL, help_text="Nome do aparelho.")
    deviceType = TextField(source="device_type", **OPTIONAL, help_text="Tipo do aparelho, como `mobile`.")
    geoLocation = GeolocationBlock(source="geolocation", **OPTIONAL, help_text="Onde o titular estava.")


class AppAuthorizationBlock(Block):
    authorizationId = TextField(
        source="authorization_id", **OPTIONAL, help_text="Identificador da autorização no seu aplicativo."
    )
    signatureDate = TextField(
        source="signature_date", **OPTIONAL, help_text="Quando o titular autorizou, como o seu aplicativo registrou."
    )
    evidence = AppEvidenceBlock(**OPTIONAL, help_text="O que o seu aplicativo viu do aparelho.")


class QueryRequest(Block):
    """The body of the three query routes. The validated data are the fields of `BankQuery`, `authorization_id`, and
    `providers` (None: all)."""

    _DEFAULTED = frozenset({"sex", "with_insurance"})

    cpf = CPFField(help_text="CPF do titular, 11 dígitos sem máscara, com dígitos verificadores válidos.")
    nome = TextField(source="name", help_text="Nome completo do titular.")
    data_nascimento = DateField(
        source="birth_date", not_future=True, help_text="Nascimento do titular: uma data real, de 1900 até hoje."
    )
    telefone = PhoneField(source="phone", help_text="DDD e número; um 55 inicial é removido.")
    email = EmailField(help_text="E-mail do titular.")
    client_ip = IPField(
        **OPTIONAL, help_text="IP do titular no aceite, IPv4 ou IPv6. Obrigatório, a não ser com `authorization_id`."
    )
    authorization_id = TextField(
        **OPTIONAL,
        help_text="Sessão de autorização aceita, no lugar de `client_ip` e `geolocation`, que então são ignorados.",
    )
    geolocation = GeolocationBlock(
        **OPTIONAL, help_text="Onde o titular estava no aceite. Há bancos que não fazem oferta sem ela."
    )
    providers = ListField(
        child=TextField(allow_blank=True),
        **OPTIONAL,
        max_length=64,
        help_text="Só estes bancos do contrato. Nomes de fora do contrato são ignorados; se não sobra nenhum, 422.",
    )
    sexo = ChoiceField(
        [0, 1, 2], source="sex", **OPTIONAL, help_text="0 não informado (padrão), 1 masculino, 2 feminino."
    )
    app_authorization = AppAuthorizationBlock(
        **OPTIONAL, help_text="Evidência de um aceite no seu aplicativo; há bancos que oferecem mais com ela."
    )
    originador = TextField(
        source="portfolio",
        **OPTIONAL,
        help_text="Carteira de originação. Chega só aos bancos para os quais o seu contrato lista esta mesma carteira; "
        "nos demais é ignorada e vale a carteira padrão do banco.",
    )
    loan_value = DecimalField(
        min_value=CENT,
        **OPTIONAL,
        help_text="Valor desejado, em reais. Sem ele e sem `valor_parcela` vem o teto. Prevalece sobre "
        "`valor_parcela`.",
    )
    prazo = IntegerField(
        source="installments",
        min_value=1,
        max_value=420,
        **OPTIONAL,
        help_text="Meses desejados. Se há valor ou parcela e falta o prazo, 48.",
    )
    valor_parcela = DecimalField(
        source="installment_value", min_value=CENT, **OPTIONAL, help_text="Parcela desejada, em reais, com o seguro."
    )
    with_insurance = BooleanField(**OPTIONAL, help_text="`false` deixa de fora as ofertas com seguro. Padrão: `true`.")
    partner_reference = ReferenceField(
        **OPTIONAL,
        help_text="A sua referência para a consulta, sem dados pessoais. Volta nas respostas e nos webhooks sobre ela.",
    )

    #: `client_ip` is required without an `authorization_id`. Null counts as absent.
    keywords = {
        "properties": {"sexo": {"default": 0}, "with_insurance": {"default": True}},
        "if": {"required": ["authorization_id"], "properties": {"authorization_id": {"type": "string"}}},
        "else": {"required": ["client_ip"], "properties": {"client_ip": {"type": "string"}}},
    }

    def to_internal_value(self, data: Any) -> Any:
        """Treats null like absence for fields whose absence has a meaning of its own."""
        values = super().to_internal_value(data)
        return {name: value for name, value in values.items() if value is not None or name not in self._DEFAULTED}

    def get_fields(self) -> dict[str, Any]:
        """With an `authorization_id` the session's evidence counts, and the body's own is not validated."""
        fields = super().get_fields()
        if self.variant == "own evidence":
            fields["client_ip"].required, fields["client_ip"].allow_null = True, False
        elif self.variant == "session":
            del fields["client_ip"], fields["geolocation"]
        return fields

    @classmethod
    def variant_for(cls, data: Mapping[str, Any]) -> str:
        return "own evidence" if data.get("authorization_id") is None else "session"


class AggregatedQueryRequest(QueryRequest):
    """The query's body with the maximum time to wait, in milliseconds."""

    max_wait_ms = IntegerField(
        min_value=500,
        max_value=settings.QUERY_DEADLINE_S * 1000,
        **OPTIONAL,
        help_text=(
            "Milissegundos após os quais a resposta vem com o que houver; os bancos que ainda não responderam vêm com "
            "`status` `processing`, e as suas chamadas continuam. Sem ele, a resposta espera por todos os bancos."
        ),
    )


class IndividualQueryRequest(QueryRequest):
    """The query's body for the bank named in the path. `providers` is ignored."""

    providers = None  # type: ignore[assignment]  # removes the field, as DRF defines
