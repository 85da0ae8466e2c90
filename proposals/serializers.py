"""The request bodies of the proposal routes: a submission's dataset, block by block, and the list's filters."""

from collections.abc import Callable
from typing import Any, NamedTuple

from rest_framework.exceptions import ValidationError
from rest_framework.serializers import Field
from rest_framework.settings import api_settings

from foundation.fields import Block, BooleanField, ChoiceField, DateField, DecimalField, IntegerField, TextField
from foundation.format_fields import (
    CEPField,
    CNPJField,
    CPFField,
    DigitsField,
    EmailField,
    IPField,
    MomentField,
    PhoneField,
    ReferenceField,
    UFField,
)
from foundation.formats import local_phone, only_digits, to_uuid
from foundation.listing import PAGE, Filters
from proposals import compe
from proposals.dataset import ACCOUNT_KINDS, CHANNELS, PIX_KINDS
from proposals.models import Proposal
from proposals.statuses import UNKNOWN

MARITAL_STATUSES = ("solteiro", "casado", "divorciado", "viuvo", "separado", "uniao_estavel")
_PIX_EMAIL_LENGTH = 77


def may_lack(field: type[Field], **options: Any) -> Field:
    """A field that may be missing or null. The bank's adapter says whether the bank needs it."""
    return field(required=False, allow_null=True, **options)


class OfferRefBlock(Block):
    provider = TextField(help_text="Identificador do banco.")
    offer_id = TextField(max_length=200, help_text="`offerId` da consulta, ou `providerData.nativeOfferId`.")


class HolderBlock(Block):
    nome = TextField(help_text="Nome completo.")
    cpf = CPFField(help_text="CPF, 11 dígitos sem máscara, com dígitos verificadores válidos: o da oferta.")
    data_nascimento = DateField(not_future=True, help_text="Uma data real, de 1900 até hoje.")
    sexo = ChoiceField(["M", "F"], help_text="`M` masculino, `F` feminino.")
    nome_mae = TextField(help_text="Nome completo da mãe.")
    nome_pai = may_lack(TextField, allow_blank=True, help_text="Um nome de uma só palavra não é enviado.")
    nacionalidade = may_lack(TextField, help_text="Nacionalidade, por extenso.")
    estado_civil = may_lack(ChoiceField, choices=MARITAL_STATUSES, help_text="Estado civil.")
    naturalidade_cidade = may_lack(TextField, help_text="Cidade de nascimento.")
    naturalidade_uf = may_lack(UFField, help_text="UF de nascimento.")
    exposicao_politica = may_lack(BooleanField, help_text="Se o titular é pessoa politicamente exposta.")


class DocumentBlock(Block):
    numero = may_lack(TextField, help_text="Número do documento de identidade.")
    orgao_emissor = may_lack(TextField, help_text="Órgão emissor, como `SSP`.")
    uf_emissor = may_lack(UFField, help_text="UF do órgão emissor.")
    data_emissao = may_lack(DateField, not_future=True, help_text="Data de emissão, de 1900 até hoje.")


class ContactBlock(Block):
    telefone = PhoneField(help_text="DDD e número; um 55 inicial é removido.")
    email = EmailField(help_text="E-mail do titular.")


class AddressBlock(Block):
    cep = CEPField(help_text="CEP, 8 dígitos, com ou sem máscara.")
    logradouro = TextField(help_text="Rua, avenida ou outro logradouro.")
    numero = TextField(help_text="Número, ou `s/n`.")
    complemento = may_lack(TextField, allow_blank=True, help_text="Complemento.")
    bairro = TextField(help_text="Bairro.")
    cidade = TextField(help_text="Cidade.")
    uf = UFField(help_text="UF.")


class EmploymentBlock(Block):
    cnpj_empregador = may_lack(
        CNPJField, help_text="CNPJ do empregador, com ou sem máscara; desde 2026 pode ter letras."
    )
    nome_empregador = may_lack(TextField, help_text="Nome do empregador.")
    cargo = may_lack(TextField, help_text="Cargo.")
    salario = may_lack(DecimalField, min_value=0, help_text="Salário em reais.")
    margem = may_lack(DecimalField, min_value=0, help_text="Margem consignável em reais.")
    data_admissao = may_lack(DateField, not_future=True, help_text="Data de admissão, de 1900 até hoje.")
    matricula = may_lack(TextField, help_text="Matrícula no empregador.")


class CheckDigitField(TextField):
    """The check digit of a branch or an account: at most `max_length` of 0-9 or X. Masks are removed."""

    default_error_messages = {"form": "Informe o dígito: 0 a 9 ou X."}

    def json_schema(self) -> dict[str, Any]:
        fewest = 0 if self.allow_blank else 1
        return {"minLength": fewest, "pattern": f"^[-. ]*[0-9Xx]{{{fewest},{self.max_length}}}[-. ]*$"}

    def to_internal_value(self, data: str) -> str:
        digit: str = super().to_internal_value(data).strip("-. ").upper()
        if digit and not all(sign in "0123456789X" for sign in digit):
            self.fail("form")
        if not digit and not self.allow_blank:
            self.fail("form")
        return digit


class AccountBlock(Block):
    banco = TextField(max_length=10, help_text="Código COMPE de `GET /banks`.")
    agencia = DigitsField(longest=5, help_text="Agência sem o dígito, de 1 a 5 dígitos.")
    digito_agencia = may_lack(
        CheckDigitField, max_length=1, allow_blank=True, help_text="Dígito da agência: 0 a 9 ou X."
    )
    conta = DigitsField(longest=15, help_text="Conta sem o dígito, de 1 a 15 dígitos.")
    digito_conta = CheckDigitField(max_length=2, help_text="Dígito da conta: 0 a 9 ou X.")
    tipo_conta = ChoiceField(ACCOUNT_KINDS, help_text="Tipo da conta.")

    def validate_banco(self, value: str) -> str:
        if value not in compe.banks():
            raise ValidationError("Código de banco desconhecido. Use um código de GET /banks.")
        return value


class PixForm(NamedTuple):
    """The form of a PIX key: what is wrong with another text, the JSON Schema, and what reads the key from its text."""

    fault: str
    schema: dict[str, Any]
    parse: Callable[[str], Any]


PIX_FORMS = {
    "cpf": PixForm(
        "Informe o CPF da chave: 11 dígitos.",
        {"pattern": r"^\D*([0-9]\D*){11}$"},
        lambda text: CPFField().parse(only_digits(text)),
    ),
    "telefone": PixForm(
        "Informe o celular da chave: DDD e número.",
        {"pattern": r"^\D*(([0-9]\D*){10,11}|5\D*5\D*([0-9]\D*){10,11})$"},
        lambda text: local_phone(only_digits(text)),
    ),
    "email": PixForm(
        f"Informe o e-mail da chave, de no máximo {_PIX_EMAIL_LENGTH} caracteres.",
        {"format": "email", "maxLength": _PIX_EMAIL_LENGTH},
        lambda text: EmailField().parse(text) if len(text) <= _PIX_EMAIL_LENGTH else None,
    ),
    "aleatoria": PixForm(
        "Informe a chave aleatória: um UUID de 36 caracteres.",
        {"pattern": "^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$"},
        to_uuid,
    ),
}


class PixBlock(Block):
    """A PIX key in normal form: digits without country code, lower case."""

    tipo_chave = ChoiceField(PIX_KINDS, help_text="Tipo da chave. `cpf` tem de ser o do próprio titular.")
    chave = TextField(
        help_text="A chave, na forma do seu tipo: CPF, celular com DDD, e-mail de até 77 caracteres, ou UUID."
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        form = PIX_FORMS[attrs["tipo_chave"]]
        key = form.parse(attrs["chave"])
        if key is None:
            raise ValidationError({"chave": form.fault})
        return {**attrs, "chave": str(key).lower()}


class DisbursementBlock(Block):
    conta_bancaria = may_lack(
        AccountBlock, help_text="Crédito em conta. Exatamente um dos dois: `conta_bancaria` ou `pix`."
    )
    pix = may_lack(PixBlock, help_text="Crédito por PIX. Exatamente um dos dois: `conta_bancaria` ou `pix`.")

    #: Exactly one of the two. Null counts as missing.
    keywords = {
        "if": {"required": ["conta_bancaria"], "properties": {"conta_bancaria": {"type": "object"}}},
        "then": {"properties": {"pix": {"type": "null"}}},
        "else": {"required": ["pix"], "properties": {"pix": {"type": "object"}}},
    }

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        """Checks "exactly one of the two" together with the other rules, so that all faults are reported."""
        if isinstance(data, dict) and sum(data.get(name) is not None for name in ("conta_bancaria", "pix")) != 1:
            faults = {api_settings.NON_FIELD_ERRORS_KEY: ["Informe exatamente um: conta_bancaria ou pix."]}
            try:
                super().to_internal_value(data)
            except ValidationError as error:
                faults |= error.detail  # type: ignore[arg-type]  # a block's is a mapping
            raise ValidationError(faults)
        values: dict[str, Any] = super().to_internal_value(data)
        return values


class EvidenceBlock(Block):
    ip = IPField(help_text="IP do titular no aceite, IPv4 ou IPv6.")
    tipo_envio = may_lack(ChoiceField, choices=CHANNELS, help_text="Como o banco entrega o link de assinatura.")


class ReferenceBlock(Block):
    nome = TextField(help_text="Nome da pessoa de referência.")
    telefone = PhoneField(help_text="DDD e número; um 55 inicial é removido.")
    grau = may_lack(ChoiceField, choices=[0, 1, 2], help_text="0 cônjuge, 1 parente (padrão), 2 amigo.")
    keywords = {"properties": {"grau": {"default": 1}}}


class SubmissionRequest(Block):
    """The dataset: one form for all banks. Additional needs of a bank are in its adapter."""

    offer_ref = OfferRefBlock(help_text="A oferta escolhida.")
    titular = HolderBlock(help_text="O titular.")
    documento = may_lack(DocumentBlock, help_text="Documento de identidade; há bancos que o exigem.")
    contato = ContactBlock(help_text="Telefone e e-mail do titular.")
    endereco = AddressBlock(help_text="Endereço do titular.")
    vinculo = may_lack(EmploymentBlock, help_text="O vínculo de emprego; há bancos que exigem partes dele.")
    recebimento = DisbursementBlock(help_text="Para onde vai o dinheiro.")
    evidencia = EvidenceBlock(help_text="O aceite do titular.")
    referencias = may_lack(
        ReferenceBlock,
        many=True,
        max_length=10,
        help_text="Pessoas de referência, no máximo 10; há bancos que exigem duas.",
    )
    partner_reference = may_lack(
        ReferenceField,
        help_text="O seu próprio nome para a proposta: 1 a 64 de `A-Z a-z 0-9 . _ : -`, sem dados pessoais. Não vai ao "
        "banco; volta nas respostas e nos eventos, e o mais novo vale.",
    )


class FormalizeRequest(Block):
    tipo_envio = may_lack(
        ChoiceField,
        choices=CHANNELS,
        help_text="Como o banco entrega o link ao titular. Sem ele o link só vem na resposta.",
    )


class CancelRequest(Block):
    motivo = may_lack(TextField, allow_blank=True, help_text="Por que se cancela, para o banco.")


class SearchRequest(Block):
    """The list's filters, in a body. A filter that is null or missing is ignored. `source` is the look-up of a filter
    that compares a column under another name (`proposals.actions.page`)."""

    status = may_lack(
        ChoiceField,
        choices=[*(value for value, _ in Proposal._meta.get_field("status").choices or ()), UNKNOWN],
        help_text="Só com esta situação.",
    )
    provider = may_lack(TextField, help_text="Só deste banco.")
    cpf = may_lack(CPFField, help_text="Só deste titular, 11 dígitos.")
    partner_reference = may_lack(ReferenceField, help_text="Só com este nome seu.")
    created_from = may_lack(
        MomentField, source="created_at__gte", help_text="Só as enviadas desde esta hora, com fuso."
    )
    created_to = may_lack(MomentField, source="created_at__lt", help_text="Só as enviadas antes desta hora, com fuso.")
    updated_from = may_lack(
        MomentField, source="updated_at__gte", help_text="Só as que mudaram pela última vez desde esta hora, com fuso."
    )
    updated_to = may_lack(
        MomentField, source="updated_at__lt", help_text="Só as que mudaram pela última vez antes desta hora, com fuso."
    )
    limit = may_lack(IntegerField, min_value=1, max_value=PAGE, default=PAGE, help_text="Quantas por página.")
    cursor = may_lack(TextField, max_length=200, help_text="O `next_cursor` da página anterior, com os mesmos filtros.")


class ListRequest(Filters, SearchRequest):
    """The list's filters, from the query string."""


class CitiesRequest(Filters):
    uf = UFField(help_text="A UF das cidades.")
