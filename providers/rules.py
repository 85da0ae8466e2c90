"""Rules that hold for every bank and depend on the bank's facts: words without a code at the bank, texts that are too
long for it, and offers that the holder did not ask for."""

from collections.abc import Iterator
from dataclasses import replace

from foundation.errors import Detail
from foundation.formats import unaccented
from providers.bank import Bank
from providers.types.proposal import BankSubmission
from providers.types.query import BankQuery, BankResult, QueryStatus

ONLY_INSURED = "Este banco só fez ofertas com seguro."
ONLY_ACCOUNT = "Este banco paga somente em conta bancária, não por PIX."
UNKNOWN_CITY = "Este banco não reconhece a cidade de nascimento informada para a UF."
ONLY_PIX = "Este banco paga somente por PIX."


def submission_faults(bank: type[Bank], submission: BankSubmission) -> list[Detail]:
    """Every fault of `submission` under the rules of `bank`, with the contract's field names."""
    return [
        *_missing_words(bank, submission),
        *_long_texts(bank, submission),
        *_own_lists(bank, submission),
        *bank.faults(submission),
    ]


def channel_faults(bank: type[Bank], channel: str | None, field: str) -> list[Detail]:
    """The fault of a signature channel that the bank does not offer. Empty if there is none."""
    if channel is None or channel in bank.words.channels:
        return []
    return [Detail(field, "Este banco não entrega o link de assinatura por este canal.")]


def _missing_words(bank: type[Bank], submission: BankSubmission) -> Iterator[Detail]:
    paid, status = bank.disbursement(submission), submission.titular.get("estado_civil")
    account, pix = paid.account, paid.pix
    if account is not None and not bank.words.account_types:
        yield Detail("recebimento.conta_bancaria", ONLY_PIX)
    elif account is not None and account.get("tipo_conta") not in bank.words.account_types:
        yield Detail("recebimento.conta_bancaria.tipo_conta", "Este banco não paga neste tipo de conta.")
    if pix is not None and not bank.words.pix_keys:
        yield Detail("recebimento.pix", ONLY_ACCOUNT)
    elif pix is not None and pix.get("tipo_chave") not in bank.words.pix_keys:
        yield Detail("recebimento.pix.tipo_chave", "Este banco não paga neste tipo de chave PIX.")
    if status and bank.words.marital_statuses and status not in bank.words.marital_statuses:
        yield Detail("titular.estado_civil", "Este banco não tem este estado civil.")
    yield from channel_faults(bank, submission.evidencia.get("tipo_envio"), "evidencia.tipo_envio")


def _own_lists(bank: type[Bank], submission: BankSubmission) -> Iterator[Detail]:
    city, state = (submission.titular.get(f"naturalidade_{each}") for each in ("cidade", "uf"))
    if bank.limits.birth_cities and city and state and unaccented(city) not in bank.limits.birth_cities.get(state, {}):
        yield Detail("titular.naturalidade_cidade", UNKNOWN_CITY)
    if bank.limits.references is not None and len(submission.referencias) != bank.limits.references:
        yield Detail("referencias", f"Este banco exige exatamente {bank.limits.references} referências pessoais.")
    portfolio = submission.offer.native.get("portfolio")
    if submission.paid.pix is not None and portfolio in bank.limits.portfolios_without_pix:
        yield Detail("recebimento.pix", f"A carteira {portfolio} não aceita PIX: informe uma conta bancária.")


def _long_texts(bank: type[Bank], submission: BankSubmission) -> Iterator[Detail]:
    for field, longest in bank.limits.texts.items():
        block, _, name = field.partition(".")
        if len(getattr(submission, block).get(name, "")) > longest:
            yield Detail(field, f"Este banco aceita no máximo {longest} caracteres neste campo.")


def without_declined_insurance(query: BankQuery, result: BankResult) -> BankResult:
    """`result` without insured offers if the holder declined insurance, which some banks cannot be told."""
    if query.with_insurance or not any(offer.with_insurance for offer in result.offers):
        return result
    offers = tuple(offer for offer in result.offers if not offer.with_insurance)
    if offers:
        return replace(result, offers=offers)
    return replace(result, status=QueryStatus.NO_OFFERS, offers=(), reasons=(ONLY_INSURED,))
