"""What is wrong with banks, or planned for them."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from django.db.models import OuterRef, Subquery
from django.urls import reverse
from django.utils import timezone

from backoffice.problems.problem import Link, Problem, changed_by
from backoffice.problems.work import redis_away
from consultas.models import Query
from foundation.backoffice.pages import list_of, page_of, trail_of
from foundation.formats import LISTED, counted
from foundation.models import Action, AuditEntry
from partners.models import Allowance
from providers import registry
from providers.health import Health, Kind, named
from providers.judging import health_of
from providers.maintenance import Maintenance
from providers.models import ClientCertificate, Provider, client_certificates

#: What leads to a bank besides its address, as the form and the command name it in the trail.
_WAY = {
    **dict.fromkeys(("new_certificate", "certificate"), "certificado de cliente"),
    **dict.fromkeys(("new_authorities", "authorities"), "autoridades"),
    "new_proxy": "proxy",
    "way_secrets": "proxy ou chave",
    **{f"credential_{name}": "credenciais" for bank in registry.BANKS for name in bank.credentials},
    "credentials": "credenciais",
}
#: A window that begins sooner is on the page.
TO_COME = timedelta(days=1)
#: For how long a change of a bank's account stays on the page.
MOVED_SHOWN = timedelta(days=1)
#: A bank's certificate that ends sooner has to be renewed.
CERTIFICATE_ENDS = timedelta(days=30)


def _of_bank(name: str, words: str, *told: Any, **more: Any) -> Problem:
    """A line about the bank, with a link to its page. `told` are cause, advice and since when."""
    return Problem(f"{registry.label(name)}: {words}", page_of(Provider, name), "Página do banco", *told, **more)


def failing() -> Iterator[Problem]:
    """The banks that fail, are kept out, or have recovered within the hour."""
    banks = named(health_of())
    if any(bank.kind is Kind.UNREAD for bank in banks.values()):
        yield redis_away()
    for name, bank in sorted(banks.items()):
        if bank.kind in (Kind.FINE, Kind.UNGUARDED, Kind.UNREAD):
            continue
        yield _of_bank(
            name,
            bank.words(),
            "; ".join(filter(None, (bank.detail(), _credentials_changed(name, bank)))),
            bank.advice,
            None if bank.kind is Kind.RECOVERED else bank.since,
            is_neutral=not bank.kind.is_problem,
            more=[
                Link(reverse("figures:bank", args=[name]), "Desempenho: tempos e motivos", "figures.view_bankhour"),
                *(Link(*each, "consultas.view_query") for each in queries_of_concerned(name, bank)),
                *([_trail(name)] if bank.kind is Kind.CREDENTIALS else []),
            ],
        )


def _trail(name: str) -> Link:
    return Link(trail_of(Provider, name), "Auditoria", "foundation.view_auditentry")


def _credentials_changed(name: str, bank: Health) -> str:
    """Who changed the bank's credentials last, and when, if it refuses them. Empty otherwise, or if nobody knows. One
    statement."""
    adapter = registry.get(name)
    if bank.kind is not Kind.CREDENTIALS or adapter is None:
        return ""
    changed = changed_by(Provider, name, "credentials", *(f"credential_{each}" for each in adapter.credentials))
    return changed and f"credenciais mudadas {changed}"


def queries_of_concerned(name: str, bank: Health) -> list[tuple[str, str]]:
    """Links to the queries at the bank `name` of the partners for whom alone it fails."""
    concerned = sorted((bank.names[each], each) for each in bank.concerned if each in bank.names)[:LISTED]
    return [
        (list_of(Query, f"partner__id__exact={key}&bank={name}"), f"Consultas de {partner} neste banco")
        for partner, key in concerned
    ]


def moved() -> Iterator[Problem]:
    """A change of a bank's address is a problem to confirm, because its credentials and holders' data go there. Changes
    of the way there alone, such as a renewed certificate, are neutral: somebody who may planned them. A trial of one
    that was not kept is told likewise."""
    banks = Provider.objects.filter(name=OuterRef("object_id"))
    entries = AuditEntry.objects.filter(
        model="providers.provider", at__gt=timezone.now() - MOVED_SHOWN, changes__has_any_keys=["base_url", *_WAY]
    ).annotate(address_now=Subquery(banks.values("base_url")[:1]))
    newest = {entry.request_id or entry.pk: entry for entry in entries.order_by("at")}  # what is kept follows its trial
    for entry in reversed(newest.values()):
        old, new = entry.changes.get("base_url", ("", ""))
        is_trial = entry.action == Action.TRIED
        if old != new:
            what_goes = "Para lá vão as credenciais e os dados dos titulares."
            if is_trial or new != entry.address_now:
                what_goes = (
                    f"Para lá foram as credenciais{' digitadas' if is_trial else ''}; não é o endereço de agora."
                )
            yield _of_bank(
                entry.object_id,
                f"{'teste de ' if is_trial else ''}novo endereço",
                f"De {old or 'nenhum'} para {new}, por {entry.who}",
                f"{what_goes} Confirme o endereço com o banco.",
                entry.at,
                more=[_trail(entry.object_id)],
            )
        elif changed := ", ".join(dict.fromkeys(words for name, words in _WAY.items() if name in entry.changes)):
            by = f"{changed}, por {entry.who} em {timezone.localtime(entry.at):%d/%m %H:%M}"
            yield _of_bank(entry.object_id, f"{'teste' if is_trial else 'mudança'} de {by}", is_neutral=True)


def windows_to_come() -> Iterator[Problem]:
    now = timezone.now()
    for window in Maintenance.objects.filter(starts_at__gt=now, starts_at__lte=now + TO_COME).order_by("starts_at"):
        start = f"{timezone.localtime(window.starts_at):%d/%m/%Y %H:%M}"
        yield _of_bank(window.provider_id, f"de {start} em diante, {window}", is_neutral=True)


def pauses() -> Iterator[Problem]:
    for each in Allowance.objects.filter(paused_until__gt=timezone.now()).select_related("partner"):
        title = f"{registry.label(each.provider_id)}: em pausa para {each.partner.name} até {each.pause}"
        yield Problem(title, reverse("partner", args=[each.partner_id]), is_neutral=True)


def certificates() -> Iterator[Problem]:
    """The client certificates that end soon, and those that a bank refused."""
    soon = timezone.now() + CERTIFICATE_ENDS
    for each in client_certificates():
        former = each.former_ends_at
        if each.refused_at or min(each.ends_at, former or each.ends_at) < soon:
            yield _not_accepted(each, former) if former else _ending(each)


def _ending(certificate: ClientCertificate) -> Problem:
    return _of_bank(
        certificate.bank,
        f"o certificado de cliente {end_in_words(certificate.ends_at)}",
        f"{'Depois disso' if certificate.ends_at > timezone.now() else 'Desde então'} o banco pode recusar as nossas "
        "conexões.",
        "Peça outro ao banco e ponha-o ao lado deste, que fica em uso até o banco aceitar o novo.",
    )


def _not_accepted(certificate: ClientCertificate, former: datetime) -> Problem:
    """The bank has not accepted the new certificate. The former one serves, until `former`."""
    said, advice = (
        "ainda não aceitou o certificado novo, e não se sabe se o recusou",
        "A próxima chamada ao banco o prova.",
    )
    if certificate.refused_at:
        said = f"recusou o certificado novo em {timezone.localtime(certificate.refused_at):%d/%m %H:%M}"
        advice = "Pergunte ao banco por que não aceita o novo."
    return _of_bank(
        certificate.bank,
        f"o banco {said}; o anterior ({end_in_words(former)}) segue em uso",
        f"O novo {end_in_words(certificate.ends_at)}. Sem um certificado válido que ele aceite, o banco recusa as "
        "nossas conexões.",
        advice,
    )


def end_in_words(ends_at: datetime) -> str:
    """When a certificate ends, as `vence em 25/12/2026 (faltam 30 dias)`."""
    at, now = timezone.localtime(ends_at), timezone.localtime()
    days = (at.date() - now.date()).days
    left = f" (hoje, às {at:%H:%M})" if not days else ""
    if days > 0:
        left = f" ({'falta' if days == 1 else 'faltam'} {counted(days, 'dia', 'dias', '')})"
    return f"{'vence' if at > now else 'venceu'} em {at:%d/%m/%Y}{left}"
