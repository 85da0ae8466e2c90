"""sucupira: signed requests, kebab-case, cents as text, milliseconds since the epoch.

The manual is docs/banks/sucupira.md. The bank does not deduplicate submissions, so the adapter repeats one only if the
bank said that the first created nothing.
"""

from __future__ import annotations

import hashlib
import time
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import jwt
from msgspec import Struct

from foundation.errors import ApiError
from foundation.formats import from_cents, path_to, to_cents
from providers.bank import Bank, Limits, Tokens
from providers.errors import Repairable, refusal_by_status
from providers.http import Reply
from providers.tokens import Token
from providers.types import given
from providers.types.answer import BankOffer, BankResult, Employment
from providers.types.proposal import BankProposal
from providers.types.query import AppAuthorization, BankQuery, Geolocation, Person
from providers.types.submission import BankSubmission, IdentityDocument

OPERATIONS = "/credito/operacoes"
WITHOUT_PIX = "CLT-ESPECIAL"
DUE_DATE = "data-vencimento-inicial"
SENTENCES = ("politica", "situacao")  # keys for a subject, not field names
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Vinculo(Struct, rename="kebab"):
    matricula: str
    cnpj: str
    empregador: str
    cargo: str | None
    admissao: int | None


class Simulacao(Struct, rename="kebab"):
    id_simulacao: str
    matricula: str
    carteira: str
    tabela: str
    valor_centavos: str
    parcela_centavos: str
    parcelas: int
    total_centavos: str
    taxa_mes: str
    cet_mes: str
    com_seguro: bool
    vencimento_inicial: int


class Simulacoes(Struct, rename="kebab"):
    vinculos: list[Vinculo]
    simulacoes: list[Simulacao]
    motivos: list[str]


class Assinatura(Struct, rename="kebab"):
    link: str
    valida_ate: int | None


class Liquidacao(Struct, rename="kebab"):
    em: int
    valor_centavos: str


class Operacao(Struct, rename="kebab"):
    id_operacao: str
    situacao: str
    carteira: str
    assinatura: Assinatura | None
    numero_contrato: str | None = None
    liquidacao: Liquidacao | None = None
    motivo_indeferimento: str | None = None


class Operacoes(Struct, rename="kebab"):
    operacoes: list[Operacao]


class Errors(Struct, rename="kebab"):
    errors: dict[str, list[str]]


class DueDateMissing(Repairable):
    """The bank lost the first due date of the simulation and created nothing. Saving the simulation again restores
    it."""


class Sucupira(Bank):
    name = "sucupira"
    label = "Sucupira"
    credentials = {
        "client_id": "Identificador de cliente",
        "key_id": "Identificador da chave",
        "signing_key": "Chave de assinatura",
    }
    tokens = Tokens(are_used=False)
    required = ("documento.numero", "titular.nacionalidade")
    limits = Limits(
        texts={"documento.numero": 20, "documento.orgao_emissor": 20, "titular.nacionalidade": 60},
        portfolios_without_pix=("CLT-ESPECIAL",),
    )

    # --- authentication and errors

    def authorize(self, token: Token | None, method: str, path: str, body: bytes) -> dict[str, str]:
        user = self.connection.credentials
        claims = {
            "iss": user["client_id"],
            "metodo": method,
            "caminho": path,
            "resumo-corpo": hashlib.sha256(body).hexdigest(),
            "emitido-em": time.time_ns() // 1_000_000,
        }
        signed = jwt.encode(claims, user["signing_key"], "HS256", headers={"kid": user["key_id"]})
        return {"X-Assinatura": signed}

    @classmethod
    def refusal(cls, reply: Reply) -> ApiError | None:
        if reply.status not in (404, 409, 422):
            return None
        errors = reply.read(Errors).errors  # raises if a gateway sent an error page instead
        sentence = "; ".join(
            text if field in SENTENCES else f"{field}: {text}" for field, texts in errors.items() for text in texts
        )
        if reply.status == 422 and list(errors) == [DUE_DATE] and "ausente" in " ".join(errors[DUE_DATE]):
            return DueDateMissing(sentence)
        return refusal_by_status(reply.status, sentence, field=next(iter(errors), None))

    # --- query

    def query(self, query: BankQuery) -> BankResult:
        # A query has no side effect at this bank, so it may be sent again after a broken connection.
        body = {**_holder(query), "carteira": self.portfolio_of(query)}
        answer = self.call("POST", "/credito/simulacoes", json=body, safe=True).read(Simulacoes)
        return BankResult.answer(map(_offer, answer.simulacoes), map(_employment, answer.vinculos), answer.motivos)

    # --- proposal

    def submit(self, submission: BankSubmission) -> BankProposal:
        body = _submission_body(submission)
        try:
            return self._submit(body)
        except DueDateMissing:
            # The bank refused, so nothing was created and a second submission is safe. A lost answer raises another
            # exception and is not repeated.
            self._save_simulation(submission.offer)
        return self._submit(body)

    def _submit(self, body: dict[str, Any]) -> BankProposal:
        return self._proposal(self.call("POST", OPERATIONS, json=body).read(Operacao))

    def _save_simulation(self, offer: BankOffer) -> None:
        """Store the offer's terms and first due date at the bank."""
        body = {
            "valor-centavos": str(to_cents(offer.loan_value)),
            "parcelas": offer.installments,
            DUE_DATE: _midnight(offer.first_due_date) if offer.first_due_date else None,
        }
        path = path_to("/credito/simulacoes", offer.native_offer_id, "gravacao")
        self.call("PUT", path, json=body, safe=True)

    def find(self, reference: str) -> BankProposal | None:
        path = path_to(OPERATIONS, **{"referencia-externa": reference})
        return self.first_of(
            map(self._proposal, self.call("GET", path, safe=True).read(Operacoes).operacoes), reference
        )

    def formalize(self, native_id: str, channel: str | None) -> BankProposal:
        body = {"aviso-assinatura": channel} if channel else {}
        path = path_to(OPERATIONS, native_id, "formalizacao")
        return self._proposal(self.call("POST", path, json=body, safe=True).read(Operacao))

    def status(self, native_id: str) -> BankProposal:
        return self._proposal(self.call("GET", path_to(OPERATIONS, native_id), safe=True).read(Operacao))

    def _proposal(self, operation: Operacao) -> BankProposal:
        signature, paid = operation.assinatura, operation.liquidacao
        return self.proposal(
            operation.id_operacao,
            operation.situacao,
            link=signature.link if signature else None,
            link_ends_at=_moment(signature.valida_ate) if signature and signature.valida_ate else None,
            contract_number=operation.numero_contrato,
            disbursed_at=_moment(paid.em) if paid else None,
            disbursed_amount=from_cents(int(paid.valor_centavos)) if paid else None,
            reason=operation.motivo_indeferimento,
            data={"portfolio": operation.carteira},
        )


def _holder(query: BankQuery) -> dict[str, Any]:
    """The holder, the evidence of the signature (null if it was not collected), and the requested loan."""
    return {
        "cliente": {**_person(query.person), "genero": query.sex},
        "evidencia": {
            "ip": query.client_ip,
            "aceito-em": _ms(given(query.accepted_at)),
            "sessao": query.authorization_reference,
            "navegador": query.user_agent,
            "aparelho": query.device_model,
            "plataforma": query.platform,
            "localizacao": _place(query.geolocation),
            "aplicativo": _app(query.app_authorization) if query.app_authorization else None,
        },
        "pedido": {
            "valor-centavos": _cents(query.loan_value),
            "parcela-centavos": _cents(query.installment_value),
            "parcelas": query.installments,
            "com-seguro": query.with_insurance,
        },
    }


def _app(app: AppAuthorization) -> dict[str, Any]:
    evidence = app.collected
    return {
        "autorizacao": app.authorization_id,
        "assinado-em": app.signature_date,
        "navegador": evidence.user_agent,
        "sistema": evidence.operational_system,
        "modelo": evidence.device_model,
        "nome-aparelho": evidence.device_name,
        "tipo-aparelho": evidence.device_type,
        "localizacao": _place(evidence.geolocation),
    }


def _place(place: Geolocation | None) -> dict[str, Any] | None:
    if place is None:
        return None
    return {
        "latitude": f"{place.lat:f}",
        "longitude": f"{place.lng:f}",
        "precisao-metros": f"{place.accuracy:f}" if place.accuracy is not None else None,
    }


def _person(person: Person) -> dict[str, Any]:
    return {
        "cpf": person.cpf,
        "nome": person.name,
        "data-nascimento": _midnight(person.birth_date),
        "e-mail": person.email,
        "telefone": f"+55{person.phone}",
    }


def _submission_body(submission: BankSubmission) -> dict[str, Any]:
    """The body of a submission. The bank takes the first due date from the simulation and refuses it as a field."""
    holder, document, address = submission.holder, submission.document, submission.address
    return {
        "referencia-externa": submission.reference,
        "id-simulacao": submission.offer.native_offer_id,
        "cliente": {
            **_person(submission.person),
            "genero": Sucupira.words.sex(holder.sex),
            "nome-mae": holder.mother_name,
            "nome-pai": holder.father_name,
            "nacionalidade": holder.nationality,
            "estado-civil": Sucupira.words.marital_status(holder.marital_status),
            "documento": {
                "numero": document.number,
                "orgao-emissor": document.issuer,
                "uf-emissor": document.issuer_state,
                "data-emissao": _midnight(document.issued_on) if document.issued_on else None,
            }
            if document != IdentityDocument()
            else None,
            "endereco": {
                "cep": address.postal_code,
                "logradouro": address.street,
                "numero": address.number,
                "complemento": address.complement,
                "bairro": address.district,
                "cidade": address.city,
                "uf": address.state,
            },
        },
        "liquidacao": _settlement(submission),
        "aceite": {"ip": submission.ip},
        "aviso-assinatura": submission.channel,
    }


def _settlement(submission: BankSubmission) -> dict[str, Any]:
    pix = submission.pix
    if pix is not None:
        return {"forma": "pix", "pix": {"tipo-chave": Sucupira.words.pix_keys[pix.kind], "chave": pix.international}}
    account = given(submission.account)
    return {
        "forma": "conta",
        "conta": {
            "compe": account.bank,
            "agencia": account.branch,
            "digito-agencia": account.branch_digit,
            "numero": account.number,
            "digito": account.digit,
            "tipo": Sucupira.words.account_types[account.kind],
        },
    }


def _employment(each: Vinculo) -> Employment:
    return Employment(
        registration=each.matricula,
        employer_cnpj=each.cnpj,
        employer_name=each.empregador,
        job_title=each.cargo,
        admission_date=_moment(each.admissao).date() if each.admissao is not None else None,
    )


def _offer(each: Simulacao) -> BankOffer:
    return BankOffer(
        native_offer_id=each.id_simulacao,
        loan_value=from_cents(int(each.valor_centavos)),
        installment_value=from_cents(int(each.parcela_centavos)),
        installments=each.parcelas,
        interest_rate=Decimal(int(each.taxa_mes)) / 100,  # hundredths of a percent
        total_amount=from_cents(int(each.total_centavos)),
        table_code=each.tabela,
        with_insurance=each.com_seguro,
        first_due_date=_moment(each.vencimento_inicial).date(),
        registration=each.matricula,
        native={"portfolio": each.carteira},
        cet_monthly=from_cents(int(each.cet_mes)),
    )


def _cents(value: Decimal | None) -> str | None:
    return None if value is None else str(to_cents(value))


def _ms(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(milliseconds=1)


def _midnight(day: date) -> int:
    return _ms(datetime(day.year, day.month, day.day, tzinfo=UTC))


def _moment(ms: int) -> datetime:
    return EPOCH + timedelta(milliseconds=ms)
