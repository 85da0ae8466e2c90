"""A submission to a bank: the holder, and where the money goes. Units as in `providers.types`.

The text beside a field's type is its name in the contract, inside its block. The fields stand in the contract's order.
"""

from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from functools import cached_property
from typing import Annotated

from providers.types.answer import BankOffer
from providers.types.names import named_fields
from providers.types.query import BankQuery, Person


@dataclass(frozen=True)
class Holder:
    """`sex` is M or F; `marital_status` one of the contract's six words; `father_name` has two words or is None."""

    name: Annotated[str, "nome"]
    cpf: Annotated[str, "cpf"]
    birth_date: Annotated[date, "data_nascimento"]
    sex: Annotated[str, "sexo"]
    mother_name: Annotated[str, "nome_mae"]
    father_name: Annotated[str | None, "nome_pai"] = None
    nationality: Annotated[str | None, "nacionalidade"] = None
    marital_status: Annotated[str | None, "estado_civil"] = None
    birth_city: Annotated[str | None, "naturalidade_cidade"] = None
    birth_state: Annotated[str | None, "naturalidade_uf"] = None
    politically_exposed: Annotated[bool | None, "exposicao_politica"] = None


@dataclass(frozen=True)
class IdentityDocument:
    """The document as the partner declared it. Fields that were not declared are None."""

    number: Annotated[str | None, "numero"] = None
    issuer: Annotated[str | None, "orgao_emissor"] = None
    issuer_state: Annotated[str | None, "uf_emissor"] = None
    issued_on: Annotated[date | None, "data_emissao"] = None


@dataclass(frozen=True)
class Address:
    """`postal_code` is 8 digits, without a mask."""

    postal_code: Annotated[str, "cep"]
    street: Annotated[str, "logradouro"]
    number: Annotated[str, "numero"]
    complement: Annotated[str | None, "complemento"] = field(default=None, kw_only=True)
    district: Annotated[str, "bairro"]
    city: Annotated[str, "cidade"]
    state: Annotated[str, "uf"]


@dataclass(frozen=True)
class DeclaredEmployment:
    """The employment as the partner declared it. Fields that were not declared are None."""

    employer_cnpj: Annotated[str | None, "cnpj_empregador"] = None
    employer_name: Annotated[str | None, "nome_empregador"] = None
    job_title: Annotated[str | None, "cargo"] = None
    salary: Annotated[Decimal | None, "salario"] = None
    margin: Annotated[Decimal | None, "margem"] = None
    admission_date: Annotated[date | None, "data_admissao"] = None
    registration: Annotated[str | None, "matricula"] = None


@dataclass(frozen=True)
class BankAccount:
    """`bank` is a COMPE code. `kind` is corrente, poupanca or salario. Numbers have no mask."""

    bank: Annotated[str, "banco"]
    branch: Annotated[str, "agencia"]
    branch_digit: Annotated[str | None, "digito_agencia"] = field(default=None, kw_only=True)
    number: Annotated[str, "conta"]
    digit: Annotated[str, "digito_conta"]
    kind: Annotated[str, "tipo_conta"]


@dataclass(frozen=True)
class PixKey:
    """`kind` is cpf, telefone, email or aleatoria. A phone key is 10-11 digits without the country code."""

    kind: Annotated[str, "tipo_chave"]
    key: Annotated[str, "chave"]


@dataclass(frozen=True)
class Disbursement:
    """Where a bank pays the money of a submission: exactly one of `account` and `pix` is set.

    `remark` is Portuguese, for the partner: how the bank deviates from the submission.
    """

    account: BankAccount | None = None
    pix: PixKey | None = None
    remark: str | None = None


@dataclass(frozen=True)
class PersonalReference:
    """`degree`: 0 spouse, 1 relative, 2 friend."""

    name: Annotated[str, "nome"]
    phone: Annotated[str, "telefone"]
    degree: Annotated[int, "grau"] = 1


@dataclass(frozen=True, kw_only=True)
class BankSubmission:
    """A proposal to be created at a bank. `reference` is the service's own and the same at every attempt.

    `offer` is the chosen offer with the bank's newest identifiers. Exactly one of `account` and `pix` is set. `channel`
    (sms, whatsapp or None) is how the bank must deliver the signature URL.
    """

    reference: str
    offer: BankOffer
    holder: Annotated[Holder, "titular"]
    document: Annotated[IdentityDocument, "documento"] = IdentityDocument()
    phone: Annotated[str, "contato.telefone"]
    email: Annotated[str, "contato.email"]
    address: Annotated[Address, "endereco"]
    employment: Annotated[DeclaredEmployment, "vinculo"] = DeclaredEmployment()
    account: Annotated[BankAccount | None, "recebimento.conta_bancaria"] = None
    pix: Annotated[PixKey | None, "recebimento.pix"] = None
    ip: Annotated[str, "evidencia.ip"]
    channel: Annotated[str | None, "evidencia.tipo_envio"] = None
    references: Annotated[tuple[PersonalReference, ...], "referencias"] = ()
    portfolio: str | None = None
    query: BankQuery | None = None

    @cached_property
    def person(self) -> Person:
        return Person(self.holder.name, self.holder.cpf, self.holder.birth_date, self.phone, self.email)


def _contract_names() -> dict[str, str]:
    fields = named_fields(BankSubmission)
    names = {name: each.path for name, each in fields.items()}
    for name, each in fields.items():
        inner = named_fields(each.block) if each.block else {}
        names |= {f"{name}.{part}": f"{each.path}.{told.path}" for part, told in inner.items()}
    names |= {f"person.{part}": names[f"holder.{part}"] for part in ("name", "cpf", "birth_date")}
    names |= {f"person.{part}": names["phone"] for part in ("phone", "area_code", "local_number")}
    return names | {"person.email": names["email"]}


#: The contract's dotted name of each attribute of a submission, by its path.
CONTRACT_NAMES = _contract_names()
