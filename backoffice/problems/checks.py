"""What is wrong now, for the back office's first page: each problem with its cause, since when, whom it concerns, where
to see it and what to do. A check reads few rows, by an index of its own."""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from functools import partial

from django.db.models import Q
from django.urls import reverse
from django.utils import timezone

from backoffice.problems.banks import certificates, failing, pauses, windows_to_come
from backoffice.problems.deliveries import DUE_EVENTS, HAS_NO_URL, held, suspended, troubles, unsendable
from backoffice.problems.problem import OVERDUE, Check, Problem, Waiting, together
from backoffice.problems.proposals import UNKNOWN, unchecked, unsettled
from backoffice.problems.queries import untaken
from consultas.models import Step
from partners.models import ApiKey
from webhooks.models import Event

#: A key without expiry that is older should be replaced.
OLD_KEY = timedelta(days=365)


#: The figures are a few minutes old. If they are older, nobody counts them.
UNCOUNTED = timedelta(minutes=5)


def uncounted(until: datetime | None) -> Iterator[Problem]:
    """A problem if the figures, which are counted until then, stand still. None before the first count."""
    if until and timezone.now() - until > UNCOUNTED:
        yield Problem(
            "Os números pararam",
            f"Estão contados até {timezone.localtime(until):%d/%m %H:%M}.",
            reverse("figures:banks"),
            "Desempenho dos bancos",
            "Confira o beat e o worker de default: sem o beat nada se repete, e nada se verifica de novo.",
            until,
        )


CHECKS = (
    Check("providers.view_provider", "Nenhum banco falha.", failing, (windows_to_come, pauses)),
    Check(
        "consultas.view_query",
        "As consultas chegam aos bancos.",
        untaken,
    ),
    Check("providers.view_provider", "Nenhum certificado para bancos vence em 30 dias.", certificates),
    Check(
        "webhooks.view_event",
        "Os parceiros recebem os seus eventos, e nenhum está atrasado.",
        troubles,
        (
            Waiting(
                lambda now: DUE_EVENTS.filter(Event.is_due(now), due_at__lt=now - OVERDUE),
                ("evento de webhook atrasado", "eventos de webhook atrasados"),
                "state__exact=due",
                "Eventos à espera",
                "A entrega está em execução? Confira beat, sweeps e webhooks.",
                oldest="due_at",
            ),
            suspended,
        ),
    ),
    Check(
        "webhooks.view_event",
        "Nenhum evento ficou sem entrega.",
        Waiting(
            lambda now: Event.objects.filter(state=Event.State.FAILED, purged_at=None),
            ("evento de webhook não foi entregue", "eventos de webhook não foram entregues"),
            "state__exact=failed",
            "Eventos falhados",
            "As tentativas acabaram. Quando o parceiro voltar a receber, reenvie-os: por período, ou todos os dele.",
        ),
    ),
    Check(
        "webhooks.view_event",
        "Nenhum evento com destino espera pelo segredo do parceiro.",
        partial(
            together,
            Waiting(
                unsendable,
                ("evento não pode sair", "eventos não podem sair"),
                "state__exact=due",
                "Eventos à espera",
                "Emita um: na página do parceiro, Trocar segredo do webhook.",
                cause="Falta o segredo de webhook do parceiro. ",
                only=lambda now: ~HAS_NO_URL & Q(partner__deliveries_held=False),
            ),
            Waiting(
                unsendable,
                ("evento sem URL para onde sair", "eventos sem URL para onde sair"),
                "state__exact=due&partner__webhook_url__exact=",
                "Eventos à espera",
                "Se o parceiro não os lê pela API, escreva a URL no Cadastro dele.",
                is_neutral=True,
                only=lambda now: HAS_NO_URL,
            ),
        ),
        (held,),
    ),
    Check(
        "consultas.view_step",
        "Os passos dos titulares são verificados.",
        Waiting(
            lambda now: Step.objects.filter(state=Step.State.OPEN, due_at__lt=now - OVERDUE),
            ("passo do titular sem verificação", "passos do titular sem verificação"),
            "state__exact=open",
            "Passos abertos",
            "As verificações estão em execução? Confira o beat e os workers de sweeps.",
            oldest="due_at",
        ),
    ),
    Check(
        "proposals.view_proposal",
        "As propostas são acompanhadas, e de todos os envios se sabe o resultado.",
        partial(
            together,
            Waiting(
                unsettled,
                ("proposta de resultado desconhecido", "propostas de resultado desconhecido"),
                "submission__exact=unknown&due_at__isnull=False",
                "Propostas sem resultado",
                "O serviço pergunta ao banco até saber. Conciliar agora, na página da proposta, pergunta já.",
                only=lambda now: UNKNOWN,
            ),
            Waiting(
                unsettled,
                ("proposta sem acompanhamento", "propostas sem acompanhamento"),
                "due_at__isnull=False",
                "Propostas em andamento",
                "As verificações estão em execução? Confira o beat e os workers de sweeps.",
                cause="Ninguém pergunta ao banco: a situação mostrada pode ser antiga. ",
                oldest="due_at",
                only=unchecked,
            ),
        ),
    ),
    Check(
        "partners.view_apikey",
        "Nenhuma chave é antiga demais.",
        Waiting(
            lambda now: ApiKey.objects.filter(expires_at=None, revoked_at=None, created_at__lt=now - OLD_KEY),
            ("chave sem validade tem mais de um ano", "chaves sem validade têm mais de um ano"),
            "o=5",
            "Chaves de API",
            "Emita outra para o parceiro, espere que ele a use, e revogue a antiga.",
        ),
    ),
)


def look(may: Callable[[str], bool]) -> tuple[list[Problem], list[str]]:
    """All problems, and what is well, as far as somebody may see it."""
    problems, well = [], []
    for check in CHECKS:
        if may(check.permission):
            found = [each for find in (check.find, *check.more) for each in find()]
            problems += [each for each in found if each not in problems]
            if all(each.is_neutral for each in found):
                well.append(check.well)
    return problems, well
