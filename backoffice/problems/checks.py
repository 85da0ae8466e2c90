"""What the first page looks at. A check reads few rows, by an index of its own."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from backoffice.problems import banks, partners, work
from backoffice.problems.problem import Problem
from foundation.redis import redis_answers


@dataclass(frozen=True)
class Check:
    """Finds problems, for users with `permission`. `well` is what is well if it finds nothing. `by_workers`: only while
    Redis answers, because workers do it, and take their tasks from Redis. `despite_neutral`: neutral lines do not deny
    it."""

    permission: str
    well: str
    find: Sequence[Callable[[], Iterator[Problem]]]
    by_workers: bool = False
    despite_neutral: bool = False


QUERIES = Check("consultas.view_query", "As consultas chegam aos bancos.", (work.untaken_queries,), by_workers=True)
CHECKS = (
    Check("providers.view_provider", "Nenhum banco falha.", (banks.failing,), by_workers=True, despite_neutral=True),
    Check(
        "providers.view_provider",
        "Em 24 horas nenhum banco mudou de endereço, caminho ou credenciais, nem tem janela; nenhum parceiro em pausa.",
        (banks.moved, banks.windows_to_come, banks.pauses),
    ),
    QUERIES,
    Check(
        "providers.view_provider", "Nenhum certificado de cliente para bancos vence em 30 dias.", (banks.certificates,)
    ),
    Check(
        "webhooks.view_event",
        "Os parceiros recebem os seus eventos: nenhum está atrasado, nem ficou sem entrega.",
        (
            partners.failing_deliveries,
            partners.overdue_events,
            partners.undelivered_events,
            partners.unsendable_events,
            partners.held_events,
        ),
        by_workers=True,
    ),
    Check("consultas.view_step", "Os passos dos titulares são verificados.", (work.unchecked_steps,), by_workers=True),
    Check(
        "proposals.view_proposal",
        "As propostas são acompanhadas, e nenhum envio tem resultado desconhecido.",
        (work.unknown_proposals, work.unchecked_proposals),
        by_workers=True,
    ),
    Check(
        "proposals.view_erasurerequest",
        "Nenhuma exclusão de dados espera por outra pessoa.",
        (work.unconfirmed_erasures,),
    ),
    Check(
        "partners.view_failedcall",
        "Na última hora nenhuma chave conhecida foi recusada, e nenhum limite de parceiro recusou chamadas.",
        (partners.refused_keys, partners.used_up_limits, partners.suspended),
    ),
    Check("partners.view_apikey", "Nenhuma chave sem validade tem mais de um ano.", (partners.old_keys,)),
)


def look(may: Callable[[str], bool]) -> tuple[list[Problem], list[str]]:
    """All problems, and what is well, as far as somebody may see it."""
    problems: list[Problem] = []
    well = []
    is_away = not redis_answers()
    for check in CHECKS:
        if may(check.permission):
            found = [work.redis_away()] if is_away and check.by_workers else []
            if not (found and check is QUERIES):  # the outage is why they do not come
                found += [each for find in check.find for each in find()]
            for each in found:
                # Two checks may tell the same outage, since another moment.
                if (each.title, each.cause) not in [(known.title, known.cause) for known in problems]:
                    problems.append(_for(may, each))
            if not [each for each in found if not (check.despite_neutral and each.is_neutral)]:
                well.append(check.well)
    return problems, well


def _for(may: Callable[[str], bool], problem: Problem) -> Problem:
    """The problem with the links that lead this user somewhere."""
    more = [link for link in problem.more if not link.permission or may(link.permission)]
    return replace(problem, more=more)
