"""What the first page looks at. A check reads few rows, by an index of its own."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from backoffice.problems import banks, partners, work
from backoffice.problems.problem import Problem


@dataclass(frozen=True)
class Check:
    """Finds problems, for users with `permission`. `well` names what is well if there is none."""

    permission: str
    well: str
    find: Sequence[Callable[[], Iterator[Problem]]]


CHECKS = (
    Check(
        "providers.view_provider",
        "Nenhum banco falha.",
        (banks.moved, banks.failing, banks.windows_to_come, banks.pauses),
    ),
    Check("consultas.view_query", "As consultas chegam aos bancos.", (work.untaken_queries,)),
    Check("providers.view_provider", "Nenhum certificado para bancos vence em 30 dias.", (banks.certificates,)),
    Check(
        "webhooks.view_event",
        "Os parceiros recebem os seus eventos, e nenhum está atrasado.",
        (partners.failing_deliveries, partners.overdue_events, partners.suspended),
    ),
    Check("webhooks.view_event", "Nenhum evento ficou sem entrega.", (partners.undelivered_events,)),
    Check(
        "webhooks.view_event",
        "Nenhum evento com destino espera pelo segredo do parceiro.",
        (partners.unsendable_events, partners.held_events),
    ),
    Check("consultas.view_step", "Os passos dos titulares são verificados.", (work.unchecked_steps,)),
    Check(
        "proposals.view_proposal",
        "As propostas são acompanhadas, e de todos os envios se sabe o resultado.",
        (work.unknown_proposals, work.unchecked_proposals),
    ),
    Check(
        "proposals.view_erasurerequest",
        "Nenhuma exclusão de dados espera por outra pessoa.",
        (work.unconfirmed_erasures,),
    ),
    Check(
        "partners.view_failedcall",
        "Nenhum parceiro tem as chamadas recusadas, por chave ou por limite.",
        (partners.refused_keys, partners.used_up_limits),
    ),
    Check("partners.view_apikey", "Nenhuma chave é antiga demais.", (partners.old_keys,)),
)


def look(may: Callable[[str], bool]) -> tuple[list[Problem], list[str]]:
    """All problems, and what is well, as far as somebody may see it."""
    problems, well = [], []
    for check in CHECKS:
        if may(check.permission):
            found = [_for(may, each) for find in check.find for each in find()]
            problems += [each for each in found if each not in problems]
            if all(each.is_neutral for each in found):
                well.append(check.well)
    return problems, well


def _for(may: Callable[[str], bool], problem: Problem) -> Problem:
    """The problem with the links that lead this user somewhere."""
    more = [link for link in problem.more if not link.permission or may(link.permission)]
    return replace(problem, more=more)
