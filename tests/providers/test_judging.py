"""The rule by which a bank's state is told from its calls: against the real Redis, whose script keeps the records."""

import random
import re
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone

from foundation.redis import redis
from providers import outcomes
from providers.breaker import ALL, Opening
from providers.health import Health
from providers.judging import judge
from providers.models import Provider
from providers.outcomes import WHOLE, Outcome, Series
from providers.types import given

OK, FAILED = Outcome.ANSWERED, Outcome.FAILED

#: What happened to calls, in this order: `5m p failed-60 90s q answered-4` says that five minutes ago sixty calls of
#: the partner p failed, and four of q's succeeded 90 seconds ago; `failed-4/9` are nine calls of which four failed,
#: evenly, the last one too. Then what is told of the bank, and what of the calls; `{5m}` is the time five minutes ago.
TOLD = {
    "no call": ("", "no ar", ""),
    "one or two failures are no news": ("0m p failed-2", "no ar", ""),
    "three are": ("0m p failed-3", "falhando (3 de 3 chamadas)", ""),
    "a percentage needs twenty calls": ("0m p failed-3/19", "falhando (3 de 19 chamadas)", ""),
    "with twenty": ("0m p failed-3/20", "falhando (15 %)", ""),
    "a tenth fails": ("0m p answered-27 failed-3", "falhando (3 de 3 chamadas)", ""),
    "less than a tenth": ("0m p answered-28 failed-3", "no ar", ""),
    "failures far apart": ("0m p failed-1 answered-14 failed-1 answered-14 failed-1", "no ar", ""),
    "a bank that came back is told at once by the newest twenty": (
        "5m p failed-60 3m p answered-20",
        "voltou há 3 min; falharam 60 de 60 chamadas, às {5m}",
        "falharam 60 de 60 chamadas, às {5m}, de 1 parceiro; nenhum outro o chamou desde então; "
        "todas: erro do banco (5xx); "
        "as últimas 20 chamadas deram certo",
    ),
    # Before the fix, it stood as a problem until twenty calls, or an hour, were over.
    "and by fewer, if so many would not be good by chance": (
        "8m p failed-23/40 5m p answered-9", "voltou há 5 min; falharam 23 de 40 chamadas, às {8m}", ""
    ),
    "by not one less": ("8m p failed-23/40 5m p answered-8", "falhando (58 %)", ""),
    "nor at once": ("1m p failed-3 59s p answered-9", "falhando (3 de 3 chamadas)", ""),
    "failures in between are no recovery": (
        "9m p failed-4 5m p answered-4 3m p failed-1", "falhando (5 de 9 chamadas)", ""
    ),
    "nor by good calls of who had no failure": (
        "8m p failed-23 5m q answered-19",
        "falhou {8m} para 1 parceiro, sem chamada desde então; os demais deram certo depois",
        "falharam 23 de 23 chamadas, às {8m}, de 1 parceiro; os demais sem falhas desde então; "
        "todas: erro do banco (5xx); "
        "nenhuma chamada destes há 8 min",
    ),
    "for the one partner for whom it failed": (
        "9m p failed-3 530s q answered-30 520s p failed-3 4m p answered-5",
        "voltou para 1 parceiro há 4 min; falharam 6 de 6 chamadas, de {9m} a {520s}",
        "falharam 6 de 6 chamadas, de {9m} a {520s}, de 1 parceiro; os demais sem falhas desde então; "
        "todas: erro do banco (5xx); as últimas 5 chamadas deram certo",
    ),
    # Before the fix, `voltou` for all, after `falhando só para 2 parceiros`.
    "for the two partners for whom it failed": (
        "9m p failed-3 q failed-3 530s r answered-30 520s p failed-3 q failed-3 5m p answered-9 q answered-9",
        "voltou para 2 parceiros há 5 min; falharam 6 de 6 chamadas, de {9m} a {520s}; "
        "falharam 6 de 6 chamadas, de {9m} a {520s}",
        "",
    ),
    "not while one of them has not called": (
        "9m p failed-3 q failed-3 530s r answered-30 520s p failed-3 q failed-3 5m p answered-9 r answered-30",
        "voltou há 5 min; falharam 12 de 42 chamadas, de {9m} a {520s}",
        "",
    ),
    # Before the fix, a bank whose calls had succeeded for minutes was told like one that fails now.
    "good calls after the last failure are told": (
        "4m p failed-3 3m p answered-1",
        "falhando (3 de 3 chamadas)",
        "falharam 3 de 3 chamadas, às {4m}, de 1 parceiro; nenhum outro o chamou desde então; "
        "todas: erro do banco (5xx); "
        "a última deu certo",
    ),
    "of the partner for whom it failed": (
        "250s p failed-1 240s q answered-5 230s p failed-2 3m p answered-1 1m p answered-1 q answered-6",
        "falhando só para 1 parceiro (3 de 3 chamadas)",
        "falharam 3 de 3 chamadas, de {250s} a {230s}, de 1 parceiro; os demais sem falhas desde então; "
        "todas: erro do banco (5xx); as últimas 2 chamadas deram certo",
    ),
    "when nobody calls it any more, the page says so": (
        "48m p failed-4",
        "falhando (4 de 4 chamadas)",
        "falharam 4 de 4 chamadas, às {48m}, de 1 parceiro; nenhum outro o chamou desde então; "
        "todas: erro do banco (5xx); "
        "nenhuma chamada há 48 min",
    ),
    # It was out for all, and nobody but this partner has not called since.
    "failures of all, after which others succeeded": (
        "30m p failed-3 q failed-4 5m q answered-20", "voltou há 5 min; falharam 7 de 7 chamadas, às {30m}", ""
    ),
    "a partner's last failures stand for an hour": (
        "31m p failed-1 1850s q answered-5 30m p failed-2 5m q answered-20",
        "falhando só para 1 parceiro (3 de 3 chamadas)",
        "",
    ),
    "and no longer": (
        "71m p failed-1 4250s q answered-4 70m p failed-2 5m q answered-20",
        "no ar",
        "as últimas 20 chamadas deram certo",
    ),
    "a bank that was closed hours ago": ("70m p closed-1", "no ar", "nenhuma chamada recente, a última em "),
    "a quiet bank is judged by the calls of an hour": ("50m p failed-4", "falhando (4 de 4 chamadas)", ""),
    "and of no more": ("70m p failed-4", "no ar", "nenhuma chamada recente, a última em "),
    # Before the fix: `1 falha nas últimas 1 chamadas`.
    "one call is told in the singular": (
        "1m p failed-1",
        "no ar",
        "falhou 1 de 1 chamada, às {1m}, de 1 parceiro; nenhum outro o chamou desde então; erro do banco (5xx)",
    ),
    # Before the fix, a card counted the failing partner's calls in its title, all below, and named no cause.
    "what most failures were, and of whom, in one total": (
        "70s p timed_out-3 65s q answered-6 50s p timed_out-2 unreadable-1 unreachable-1 answered-8",
        "falhando só para 1 parceiro (7 de 7 chamadas)",
        "falharam 7 de 7 chamadas, de {70s} a {50s}, de 1 parceiro; os demais sem falhas desde então; "
        "a maioria: prazo esgotado; "
        "as últimas 8 chamadas deram certo",
    ),
    # Before the fix, a bank that failed for all was `falhando só para` those who had called it less, and the page said
    # `os demais sem falhas desde então` of one with three failures.
    "good calls before the failures hide nobody": (
        "1m p answered-4 q answered-4 r answered-29 0m p failed-3 q failed-3 r failed-3/5",
        "falhando (9 de 11 chamadas)",
        "falharam 9 de 11 chamadas, às {0m}, de 3 parceiros; nenhum outro o chamou desde então",
    ),
    "a few failures of another are none of all": (
        "20s p failed-3 q failed-3 15s r failed-3/35",
        "falhando só para 2 parceiros",
        "falharam 3 de 3 chamadas, às {20s}, de 1 parceiro; falharam 3 de 3 chamadas, às {20s}, de 1 parceiro; "
        "os demais: algumas falhas",
    ),
    "nor is a single one": (
        "70s p failed-2 q failed-2 65s r failed-1 answered-20 60s p failed-1 q failed-1",
        "falhando só para 2 parceiros",
        "falharam 3 de 3 chamadas, de {70s} a {60s}, de 1 parceiro; falharam 3 de 3 chamadas, de {70s} a {60s}, "
        "de 1 parceiro; os demais: algumas falhas",
    ),
    # Before the fix, for seconds after a bank went down for all it was `falhando só para` who had called it since.
    "good calls that are written late may be older than the failures": (
        "1m p answered-20 q answered-20 3s p failed-1 2s q answered-30 1s p failed-2",
        "falhando para 1 parceiro (3 de 3 chamadas)",
        "",
    ),
    "too few calls of others since failures began": (
        "9m p answered-20 q answered-20 1m p failed-4 q answered-1 p failed-2",
        "falhando para 1 parceiro (6 de 6 chamadas)",
        "",
    ),
    # Before the fixes, `só para` who had a tenth of failures at the end of an outage of all, then `voltou para` them.
    "an outage of all that ends": (
        "3m p failed-7 q failed-6 r failed-5 100s p answered-1 q answered-1 r answered-4 1m p failed-3 q failed-2/4 "
        "0m r answered-4 p answered-1",
        "falhando (74 %)",
        "falharam 23 de 31 chamadas, de {3m} a {1m}, de 3 parceiros; nenhum outro o chamou desde então; "
        "todas: erro do banco (5xx); as últimas 5 chamadas deram certo",
    ),
    "an outage of all that is over": (
        "40m p answered-30 q answered-200 9m p failed-11 q failed-12 r failed-10 5m p answered-40 q answered-60 "
        "r answered-90",
        "voltou há 5 min; falharam 33 de 33 chamadas, às {9m}",
        "falharam 33 de 33 chamadas, às {9m}, de 3 parceiros; nenhum outro o chamou desde então",
    ),
    # Before the fix, the open breaker held so many calls back that the outage left no trace.
    "a short outage of a busy bank": (
        "30m p answered-900 q answered-900 6m p answered-90 q answered-99 350s q failed-9 5m p failed-2 q failed-2 "
        "4m p failed-3 q failed-1 3m p answered-90 q answered-90",
        "voltou há 3 min; falharam 17 de 17 chamadas, de {350s} a {4m}",
        "falharam 17 de 17 chamadas, de {350s} a {4m}, de 2 parceiros",
    ),
    # Before the fix, five failures and five more after 25 minutes were `fora só para` the partner.
    "failures too far apart to open a partner's breaker": (
        "26m p failed-5 25m q answered-10 1m p failed-5 q answered-10",
        "falhando só para 1 parceiro (10 de 10 chamadas)",
        "",
    ),
    # Before the fixes, `falhando para 1 parceiro`, or with the name of everybody who had had one failure.
    "a few failures of others, as ever": (
        "30m p answered-50 q failed-4/100 80s p failed-2 70s q answered-16 failed-4/80 q answered-4 1m p failed-4/10",
        "falhando só para 1 parceiro (6 de 12 chamadas)",
        "falharam 6 de 12 chamadas, de {80s} a {1m}, de 1 parceiro; os demais: algumas falhas",
    ),
    "as ever, of others that hardly call": (
        "70s p failed-3 65s q answered-96 r failed-1 s failed-1 answered-1 1m p failed-3",
        "falhando só para 1 parceiro (6 de 6 chamadas)",
        "falharam 6 de 6 chamadas, de {70s} a {1m}, de 1 parceiro; os demais: algumas falhas",
    ),
    # Before the fix, `voltou para 3 parceiros`: those whose one or two calls met the outage.
    "an outage of all of whom each hardly calls": (
        "3m p failed-2 q failed-2 r failed-1 s answered-1 t answered-1 u answered-1 1m u answered-30",
        "voltou há 3 min; falharam 5 de 5 chamadas, às {3m}",
        "falharam 5 de 5 chamadas, às {3m}, de 3 parceiros; os demais sem falhas desde então",
    ),
    # Before the fix, `voltou para 1 parceiro`, as soon as the others' failures were an hour old.
    "an outage of all that leaves the hour": (
        "61m q failed-12 r failed-4 59m p failed-7 58m q answered-40 30m p answered-20 q answered-30",
        "voltou há 58 min; falharam 23 de 23 chamadas, de {61m} a {59m}",
        "falharam 23 de 23 chamadas, de {61m} a {59m}, de 3 parceiros",
    ),
    # Before the fixes, who alone fails had no name in the first minute, nor where up to a tenth of the others' calls
    # failed; and a recovery was told by the first outage of the hour, whatever failed after it.
    "one whose calls began to fail in this minute": (
        "10s p failed-6 5s q answered-54",
        "falhando para 1 parceiro (6 de 6 chamadas)",
        "falharam 6 de 6 chamadas, às {10s}, de 1 parceiro; os demais sem falhas desde então",
    ),
    "one beside others of whom a twentieth fails, as ever": (
        "30m q failed-2/40 140s p failed-3 130s q answered-18 failed-2/21 2m p failed-4",
        "falhando só para 1 parceiro (7 de 7 chamadas)",
        "falharam 7 de 7 chamadas, de {140s} a {2m}, de 1 parceiro; os demais: algumas falhas",
    ),
    "one that recovered after all had": (
        "40m p failed-9 q failed-9 30m p answered-30 q answered-30 9m p failed-3 530s q answered-40 520s p failed-3 "
        "2m p answered-9",
        "voltou para 1 parceiro há 2 min; falharam 6 de 6 chamadas, de {9m} a {520s}",
        "",
    ),
    "failures since the recovery": (
        "20m p failed-9 15m p answered-30 0m p failed-2",
        "voltou há 15 min; falharam 9 de 9 chamadas, às {20m}; a última falha agora",
        "",
    ),
    # Before the fixes, nothing but minutes was kept, not the order of the calls within one.
    "good calls and failures of one minute": (
        "165s p failed-6 160s p answered-30 60s p answered-6 20s p failed-4",
        "falhando (4 de 4 chamadas)",
        "falharam 4 de 4 chamadas, às {20s}",
    ),
    "a recovery after as many good calls as would not be good by chance": (
        "4m p failed-3/21 2m p answered-36", "voltou há 2 min; falharam 3 de 21 chamadas, às {4m}", ""
    ),
    "none of the newest twenty failed": (
        "4m p failed-3/19 2m p answered-20", "voltou há 2 min; falharam 3 de 19 chamadas, às {4m}", ""
    ),
    "it came back when good calls began, whenever more came": (
        "9m p failed-8 530s p answered-26 2m p answered-1",
        "voltou há 8 min; falharam 8 de 8 chamadas, às {9m}",
        "",
    ),
    "a log-in that was accepted in the minute in which others were refused": (
        "30s p login_refused-9 20s q answered-1",
        "voltou agora; falharam 9 de 9 chamadas, às {30s}",
        "falharam 9 de 9 chamadas, às {30s}, de 1 parceiro; os demais sem falhas desde então; todas: login recusado",
    ),
    "refused log-ins": (
        "40s p answered-9 30s p login_refused-9",
        "credenciais recusadas",
        "falharam 9 de 9 chamadas, às {30s}, de 1 parceiro; nenhum outro o chamou desde então; todas: login recusado",
    ),
    "one log-in is enough": ("0m p login_refused-1", "credenciais recusadas", ""),
    "a bank that was closed earlier in this minute": ("30s p closed-9 20s p answered-1", "no ar", ""),
    # Before the fix, `falhando só para` X: the others had been out as well, and had called since.
    "who has not called since an outage of all": (
        "9m p failed-9 q failed-9 x failed-4 500s p failed-9 q failed-9 5m p answered-30 q answered-30",
        "voltou há 5 min; falharam 40 de 40 chamadas, de {9m} a {500s}",
        "falharam 40 de 40 chamadas, de {9m} a {500s}, de 3 parceiros",
    ),
    # Before the fix, the names were of two of three partners, and the number of all calls.
    "names and numbers are of the same calls": (
        "70s p failed-6 q failed-4/16 1m r answered-4 p failed-1",
        "falhando (41 %)",
        "falharam 11 de 27 chamadas, de {70s} a {1m}, de 2 parceiros; os demais sem falhas desde então",
    ),
    # Before the fix, `nenhuma chamada há 8 min` beside others' calls.
    "whose calls are not new": (
        "500s p failed-3 490s q answered-9 8m p failed-3 1m q answered-9",
        "falhando só para 1 parceiro (6 de 6 chamadas)",
        "falharam 6 de 6 chamadas, de {500s} a {8m}, de 1 parceiro; os demais sem falhas desde então; "
        "todas: erro do banco (5xx); nenhuma chamada destes há 8 min",
    ),
    # Two failures in a hundred for hours, and then an outage.
    "an outage of a bank where some calls always fail": (
        "50m p failed-9/450 40m p failed-9/450 30m p failed-9/450 2m p answered-20 20s p failed-5",
        "falhando (5 de 5 chamadas)",
        "falharam 5 de 5 chamadas, às {20s}",
    ),
    "failures of all of whom each calls well in between": (
        "50s p failed-1 q failed-1 r failed-1 40s p answered-10 failed-1 30s q answered-10 failed-1 "
        "20s r answered-10 failed-1",
        "falhando (17 %)",
        "falharam 6 de 36 chamadas, de {50s} a {20s}, de 3 parceiros",
    ),
    # Before the fixes, a fault of one partner's, while nobody else called the bank, stood as the bank's.
    "one partner's own fault, others before and after": (
        "9m q answered-9 1m p failed-5 30s q answered-3",
        "falhando para 1 parceiro (5 de 5 chamadas)",
        "falharam 5 de 5 chamadas, às {1m}, de 1 parceiro; os demais sem falhas desde então",
    ),
    "and nobody after": (
        "9m q answered-9 1m p failed-5",
        "falhando para 1 parceiro (5 de 5 chamadas)",
        "falharam 5 de 5 chamadas, às {1m}, de 1 parceiro; nenhum outro o chamou desde então",
    ),
    "one partner's fault goes on after an outage of all": (
        "20m p failed-3 19m q answered-9 18m p failed-3 9m p failed-9 q failed-9 r failed-9 5m q answered-30 "
        "r answered-30 2m p failed-1",
        "falhando para 1 parceiro (16 de 16 chamadas)",
        "",
    ),
    # Before the fix, `voltou` for all, though only that partner's calls had failed.
    "the one who failed calls well once, others all along": (
        "90s q answered-2 e failed-6 88s q answered-2 70s q answered-22 2s e answered-1",
        "falhando para 1 parceiro (6 de 6 chamadas)",
        "falharam 6 de 6 chamadas, às {90s}, de 1 parceiro; os demais sem falhas desde então; "
        "todas: erro do banco (5xx); a última deu certo",
    ),
    "and is back": (
        "9m q answered-9 e failed-6 5m q answered-22 e answered-9",
        "voltou para 1 parceiro há 5 min; falharam 6 de 6 chamadas, às {9m}",
        "",
    ),
    # Before the fix, `falhando` for all, also for those who had no failure.
    "one of two who failed for themselves is about to be back": (
        "40s p failed-1 q failed-1 36s r answered-10 34s p failed-4 q failed-4 32s r answered-10 10s p answered-5",
        "falhando só para 2 parceiros",
        "",
    ),
    "and so is the bank told whose others never failed": (
        "17s p failed-3 q failed-3 r answered-3 12s r answered-7 10s p failed-3 q failed-3 5s r answered-9 "
        "p answered-3",
        "falhando só para 2 parceiros",
        "",
    ),
    # Before the fix, whose calls had failed before was not told beside an outage of all.
    "an outage of all beside one's own fault": (
        "9m p failed-3 530s q answered-9 r answered-9 8m p failed-7 1m q failed-4 r failed-4",
        "falhando (8 de 8 chamadas)",
        "falharam 8 de 8 chamadas, às {1m}, de 2 parceiros; falharam 10 de 10 chamadas, de {9m} a {8m}, de 1 parceiro; "
        "nenhum outro o chamou desde então",
    ),
    # Before the fixes, `falharam 12 de 12, de 3 parceiros`: without the last calls of the one who failed for itself,
    # and without the others' good ones.
    "one's own fault in an outage of all": (
        "9m p failed-3 530s q answered-9 r answered-9 8m p failed-3 2m q failed-5 p failed-2 90s r failed-5 "
        "1m p failed-4",
        "falhando (10 de 10 chamadas)",
        "falharam 10 de 10 chamadas, de {2m} a {90s}, de 2 parceiros; "
        "falharam 12 de 12 chamadas, de {9m} a {1m}, de 1 parceiro; nenhum outro o chamou desde então",
    ),
    "and at its end": (
        "9m p failed-3 530s q answered-9 r answered-9 8m p failed-3 2m q failed-5 p failed-2 90s r failed-5 "
        "40s q answered-30 30s p failed-4",
        "falhando (10 de 10 chamadas)",
        "falharam 10 de 10 chamadas, de {2m} a {90s}, de 2 parceiros (as 30 seguintes deram certo); "
        "falharam 12 de 12 chamadas, de {9m} a {30s}, de 1 parceiro; nenhum outro o chamou desde então",
    ),
    # Before the fix, `voltou para` those who call least: nine of many calls were less than a tenth of the minute's.
    "refused log-ins of a bank with many calls": (
        "70s p answered-60 q answered-60 r answered-60 40s p login_refused-2 q login_refused-4 r login_refused-3 "
        "2s r answered-1",
        "voltou agora; falharam 9 de 9 chamadas, às {40s}",
        "falharam 9 de 9 chamadas, às {40s}, de 3 parceiros; nenhum outro o chamou desde então; todas: login recusado",
    ),
    # Before the fix, the trial of a log-in was told to have failed where partners' log-ins had.
    "refused log-ins of partners and of a trial": (
        "9m p login_refused-2 OPERATOR login_refused-1 8m p answered-1",
        "voltou há 8 min; falharam 3 de 3 chamadas, às {9m}",
        "",
    ),
    "no new call": (
        "90m p answered-3", "no ar", "as últimas 3 chamadas deram certo; nenhuma chamada recente, a última em "
    ),
}  # fmt: skip


def seconds(word: str) -> float:
    return int(word[:-1]) * (60 if word[-1] == "m" else 1)


def happened(calls: str, now: float) -> None:
    """Write these calls, in the notation of `TOLD`."""
    at, partner = now, ""
    for word in calls.split():
        outcome, _, number = word.partition("-")
        if number:
            for each, times in mixed(Outcome[outcome.upper()], number):
                outcomes.write("ipe", {(each, partner): times}, at, {})
        elif word[0].isdigit():
            at = now - seconds(word)
        else:
            partner = "" if word == "OPERATOR" else word


def mixed(outcome: Outcome, number: str) -> Iterator[tuple[Outcome, int]]:
    """So many calls: `3`, or `3/20`, of which three end so, and the others are good."""
    bad, _, every = number.partition("/")
    if not every:
        yield outcome, int(bad)
        return
    yield outcome, 1
    good, gaps = int(every) - int(bad), int(bad) - 1
    for gap in range(gaps):
        if between := good * (gap + 1) // gaps - good * gap // gaps:
            yield OK, between
        yield outcome, 1


def after(calls: str, breakers: Mapping[str, float] | None = None, circuit: str = "auto") -> Health:
    """The state of a bank after these calls, whose settings were last changed long ago. `breakers` are by scope: how
    many seconds ago they opened."""
    now = time.time()
    happened(calls, now)
    bank = Provider(name="ipe", circuit=circuit, updated_at=timezone.now() - timedelta(days=9))
    opened = {scope: Opening(now - ago, now - ago) for scope, ago in (breakers or {}).items()}
    return judge(bank, outcomes.read(["ipe"])["ipe"], opened, now)


def timed(text: str, now: float) -> re.Pattern[str]:
    """`text` with times in place of `{5m}`: as a pattern, because a second may have begun meanwhile."""

    def clock(found: re.Match[str]) -> str:
        at = [timezone.localtime(datetime.fromtimestamp(now - seconds(found[1]) - each, UTC)) for each in (0, 1)]
        return "(?:" + "|".join(f"{each:%H:%M:%S}" for each in at) + ")"

    return re.compile(re.sub(r"\\\{(\w+)\\\}", clock, re.escape(text)))


@pytest.mark.parametrize(("calls", "words", "detail"), TOLD.values(), ids=TOLD)
def test_a_bank_is_told_by_its_newest_calls(calls: str, words: str, detail: str) -> None:
    health, now = after(calls), time.time()
    assert timed(words, now).fullmatch(health.words()), health.words()
    assert timed(detail, now).match(health.detail()), health.detail()
    assert bool(health.began) == health.kind.is_problem, "a bank that does not fail has not begun to"


@pytest.mark.parametrize(("first", "second"), [("p", "q"), ("q", "p"), ("q", "s"), ("s", "q")])
def test_partners_are_told_in_the_order_in_which_their_calls_began_to_fail(first: str, second: str) -> None:
    """Before the fix, in that of a set: it differed from process to process."""
    began = f"9m {first} failed-1 8m {second} failed-1 7m r answered-20"
    again = f"6m {second} failed-3 {first} failed-3 5m r answered-90"
    assert [*after(f"{began} {again}").told] == [first, second]


#: Before the fixes, good calls of others hid a partner for whom the bank fails: every page said `no ar`.
_HIDDEN = "31m p failed-2 1850s q answered-5 30m p failed-10 2m q answered-300"


@pytest.mark.parametrize(
    ("calls", "breakers", "words", "statuses"),
    [
        (
            "27m p answered-28 10s q answered-50 p failed-1 5s q answered-50 p failed-4",
            {},
            "falhando só para 1 parceiro (5 de 5 chamadas)",
            "daa",
        ),
        (
            "27m p answered-28 70s p failed-1 1m q answered-100 p failed-5/29",
            {},
            "falhando só para 1 parceiro (20 %)",
            "daa",
        ),
        ("27m p answered-28 70s p failed-1 1m q answered-100 p answered-30 failed-2", {}, "no ar", "aaa"),
        (_HIDDEN, {}, "falhando só para 1 parceiro (12 de 12 chamadas)", "daa"),
        (_HIDDEN, {"p": 1800}, "fora só para 1 parceiro (12 de 12 chamadas)", "daa"),
        (
            f"{_HIDDEN} 90s p answered-5",
            {},
            "voltou para 1 parceiro há 1 min; falharam 12 de 12 chamadas, de {31m} a {30m}",
            "aaa",
        ),
        (
            "4m p failed-5/10 230s q answered-20 p failed-1",
            {"p": 1},
            "fora só para 1 parceiro (6 de 11 chamadas)",
            "uaa",
        ),
        (
            "4m p failed-5/10 230s q answered-20 p failed-1",
            {"p": 20},
            "fora só para 1 parceiro (6 de 11 chamadas)",
            "daa",
        ),
        (
            "70s p failed-6 65s q failed-5/25 62s r answered-300 1m p failed-6 q failed-1",
            {"p": 60},
            "falhando para 2 parceiros",
            "dda",
        ),
        # Before the fix, a breaker that was open for one partner was not told where the bank failed for others, too.
        (
            "70s p failed-6 65s q failed-5/25 62s r answered-300 1m p failed-6 q failed-1",
            {"p": 5},
            "falhando para 2 parceiros; fora para 1 parceiro",
            "uda",
        ),
        ("2m p failed-5 q failed-5", {"p": 5}, "falhando (10 de 10 chamadas); fora para 1 parceiro", "udd"),
        # Before the fix, that partner's open breaker hid an outage of all: `fora só para 1 parceiro`.
        (
            "150s q answered-9 p failed-10 140s r answered-9 100s q failed-3 90s r failed-3 80s q failed-4",
            {"p": 150},
            "falhando (69 %)",
            "ddd",
        ),
        # Before the fix, a partner's open breaker hid that the bank was back.
        (
            "9m p failed-10 q failed-9 5m q answered-30",
            {"p": 540},
            "voltou há 5 min; falharam 19 de 19 chamadas, às {9m}",
            "aaa",
        ),
        # Before the fix, others read `degraded`.
        ("9m q answered-9 1m p failed-5", {}, "falhando para 1 parceiro (5 de 5 chamadas)", "daa"),
        ("1m p failed-10", {ALL: 1}, "fora: falhas seguidas", "uuu"),
        ("1m p failed-10", {ALL: 20}, "fora, voltando: uma chamada de teste de cada vez", "ddd"),
        # Before the fix, Redis forgot the breaker after five minutes, and the state changed without a call.
        ("50m p failed-10", {ALL: 3000}, "fora, voltando: uma chamada de teste de cada vez", "ddd"),
        ("2m p answered-20 1m p closed-20", {}, "fechado agora, segundo o banco", "uuu"),
        ("2m p answered-20 1m p closed-20 0m p answered-5", {}, "no ar", "aaa"),
    ],
)
def test_each_partner_is_told_of_its_own_calls_and_breaker(
    calls: str, breakers: dict[str, float], words: str, statuses: str
) -> None:
    """`statuses`: those of the partners p and q, and of one that never called, by their initials."""
    health = after(calls, breakers)
    assert timed(words, time.time()).fullmatch(health.words()), health.words()
    assert "".join(health.for_partner(each)[0] for each in ("p", "q", "new")) == statuses


def test_what_is_advised_if_calls_of_some_fail() -> None:
    """Before the fixes, `Só estas chamadas falharam` beside failures of others, and the advice to wait for others'
    calls beside their good ones."""
    assert after(_HIDDEN).advice.startswith("Os demais são atendidos: não ponha o banco fora do ar")
    assert after("90s p answered-5").advice.startswith("Os demais foram atendidos.")


def test_others_without_failures_are_not_waited_for() -> None:
    early = after("9m q answered-9 10s p failed-6")
    assert early.advice == "Nenhuma falha dos demais é conhecida: espere antes de pôr o banco fora do ar para todos."
    assert not after("1s p closed-20").kind.is_problem


def test_nobody_is_advised_to_stop_a_bank_that_serves_the_others() -> None:
    """Before the fix, `ponha-o fora do ar` stood beside one partner's failures after an outage of all."""
    later = "20m p failed-3 19m q answered-9 18m p failed-3 9m p failed-9 q failed-9 5m q answered-30 2m p failed-1"
    assert after(later).advice.startswith("Os demais são atendidos: não ponha o banco fora do ar")


def test_nobody_is_advised_to_stop_a_bank_whose_newest_calls_are_good() -> None:
    """Before the fix, `ponha-o fora do ar`, where a partner's breaker was open."""
    for good, advice in ((1, "A última chamada deu certo: espere as próximas."), (2, "deram certo: espere.")):
        assert after(f"2m p failed-5 q failed-5 8s q answered-{good}", {"p": 5}).advice.endswith(advice)


def test_an_open_breaker_stands_on_its_partners_page() -> None:
    """Before the fix, `falhando` while every call of that partner was refused, where the bank failed for others too."""
    health = after("2m p failed-5 q failed-5", {"p": 5})
    assert health.own("p").words() == "fora para 1 parceiro (5 de 5 chamadas)"
    assert health.own("q").words() == "falhando (5 de 5 chamadas)"


def test_who_has_not_called_since_is_told_so_on_its_own_page() -> None:
    own = after("8m p failed-23 5m q answered-19").own("p").words()
    assert timed(
        "falhou {8m} para 1 parceiro, sem chamada desde então; os demais deram certo depois", time.time()
    ).fullmatch(own)


def test_whose_failures_opened_the_breaker_for_all_is_told() -> None:
    """Before the fix, it was `fora: falhas seguidas`, of nobody."""
    detail = replace(after("9m q answered-9 1m p failed-10", {ALL: 50}), names={"p": "Um"}).detail()
    assert timed("falharam 10 de 10 chamadas, às {1m}, de Um; nenhum outro o chamou desde então; ", time.time()).match(
        detail
    )


def test_a_breaker_that_is_ignored_is_open_for_nobody() -> None:
    health = after("1m p failed-10", {ALL: 1}, circuit="closed")
    assert (health.words(), health.for_partner("p")) == ("falhando (10 de 10 chamadas)", "degraded")


@pytest.mark.parametrize(
    ("calls", "breakers", "ago"),
    [
        # As many good calls as end a series do so, however many hours later it goes on.
        ("300m p failed-30 200m p answered-60 90m p failed-25 answered-4 60m q answered-0 1m p failed-25", {}, "90m"),
        # Before the fix, the page named the minute of a single unreadable answer, long before the bank failed.
        ("40m p failed-1 30m p answered-12 3m p failed-4 1m p failed-2", {}, "3m"),
        (_HIDDEN, {}, "31m"),
        # Before the fix, `Desde` named the outage before, of which the page had said `voltou`.
        ("40m p failed-20 5m p answered-7 1m p failed-3", {}, "1m"),
        ("40m p failed-20 answered-2 5m p answered-2 1m p failed-3", {}, "40m"),
        # Before the fix, the good calls of the minute before hid the beginning.
        ("2m p answered-300 5s p login_refused-2", {}, "5s"),
        # Before the fixes, the end of an outage and the beginning of the next were in one minute, and glued together.
        ("11m p failed-8 658s p answered-26 4m p answered-1 8s r failed-10", {}, "8s"),
        ("165s p failed-6 160s p answered-30 60s p answered-6 20s p failed-4", {}, "20s"),
        # Before the fix, whose own failures went on before the bank came back for all.
        ("9m p failed-9 q failed-9 r failed-9 5m q answered-30 r answered-30 1m p failed-3", {}, "1m"),
        # Since the breaker has not been closed.
        ("50m p failed-3/20 1m p failed-10", {ALL: 40}, "40s"),
    ],
)
def test_since_when_a_bank_fails(calls: str, breakers: dict[str, float], ago: str) -> None:
    passed = (timezone.now() - given(after(calls, breakers).since)).total_seconds()
    assert seconds(ago) - 0.1 <= passed < seconds(ago) + 5


def test_a_bank_that_failed_again_is_not_told_to_be_back_since_before() -> None:
    """Before the fix, `voltou há 2 min`, and after the next failure `desde` the outage before."""
    outage = "20m p failed-9 2m p answered-9"
    assert after(outage).words().startswith("voltou há 2 min")
    again = after("5s p failed-3")
    assert again.words() == "falhando (3 de 3 chamadas)"
    assert timezone.now() - given(again.since) < timedelta(seconds=15)


def test_a_bank_of_many_calls_is_back_when_hardly_any_fail() -> None:
    """The good calls in a row never last a minute there."""
    busy = " ".join(f"{ago}s p failed-5/500" for ago in range(290, 0, -10))
    health = after(f"6m p failed-900 330s p failed-900 {busy}")
    assert health.words().startswith("voltou há ")
    assert "falharam 1.839 de 5.675 chamadas" in health.words()


def counted(
    hour: list[tuple[float, str, Outcome, int]], whose: str, series: Series, apart: Collection[str]
) -> tuple[int, int]:
    """How many calls of this partner, or of all but those who are told `apart`, there were from the first failure of
    the series to the last one, and how many failed."""
    first, last = series.began - 0.01, series.failed_at + 0.01
    theirs = [each for each in hour if each[1] == whose or (whose == WHOLE and each[1] not in apart)]
    near = [each for each in theirs if first <= each[0] <= last]
    return sum(each[3] for each in near), sum(each[3] for each in near if each[2] is FAILED)


def test_every_page_has_the_same_limit_and_counts_what_it_says() -> None:
    """Before the fixes, a partner's page said `falhando (8 %)`, and `falhando (1 de 1 chamadas)`; and the first page
    counted other calls than those of whom it named."""
    draw, partners, now = random.Random(23), ("p", "q", "r"), float(int(time.time()))
    bank = Provider(name="ipe", updated_at=timezone.now() - timedelta(days=9))
    told_of = Counter[str]()
    for _ in range(300):
        redis().flushdb()
        hour = []
        for ago in sorted(draw.sample(range(600), k=draw.randint(1, 16)), reverse=True):
            end = draw.choice(((OK, draw.choice((1, 5, 40))), (FAILED, draw.choice((1, 3, 12)))))
            hour.append((now - ago, draw.choice(partners), *end))
            outcomes.write("ipe", {(end[0], hour[-1][1]): end[1]}, now - ago, {})
        health = judge(bank, outcomes.read(["ipe"])["ipe"], {}, now)
        for name, mine in {"": health, **{each: health.own(each) for each in partners}}.items():
            told_of[mine.kind] += 1
            is_told = mine.kind in ("failing", "recovered")
            counts = [(each.calls, each.failed) for each in mine.told.values()]
            is_enough = all(failed >= 3 and failed * 10 >= calls for calls, failed in counts)
            assert not is_told or is_enough, (name, mine.words(), hour)
            assert not name or (mine.kind == "failing") == (health.for_partner(name) == "degraded"), (name, hour)
        if health.kind not in ("failing", "recovered"):
            continue
        for name, series in health.told.items():
            assert counted(hour, name, series, health.told) == (series.calls, series.failed), (
                name,
                health.words(),
                hour,
            )
        first = min(each.began for each in health.told.values())
        last = max(each.failed_at for each in health.told.values())
        whose = {each[1] for each in hour if each[2] is FAILED and first <= each[0] <= last}
        assert health.concerned or health.failing == whose, (health.detail(), hour)
        others = [each for each in hour if each[1] not in health.failing and each[0] >= first]
        assert ("nenhum outro" in health.detail()) == (not others), (health.detail(), hour)
        if "os demais sem falhas desde então" in health.detail() and not health.concerned:
            assert all(each[2] is OK for each in others), (health.detail(), hour)
    assert set(told_of) == {"failing", "fine", "recovered"}


def test_no_order_of_calls_breaks_a_page() -> None:
    """Before the fix, some did: no partner had recovered, and the bank was said to."""
    draw, now = random.Random(29), float(int(time.time()))
    bank = Provider(name="ipe", updated_at=timezone.now() - timedelta(days=9))
    ends = (OK,) * 4 + tuple(Outcome)
    for _ in range(200):
        redis().flushdb()
        for ago in sorted(draw.choices((*range(90), *range(90, 7000, 70)), k=draw.randint(0, 40)), reverse=True):
            calls = {(draw.choice(ends), draw.choice("pqrs")): draw.choice((1, 2, 5, 12, 60)) for _ in range(2)}
            outcomes.write("ipe", calls, now - ago, {each: now - ago - draw.choice((0, 1, 2)) for each in "pqrs"})
        opened = {each: Opening(now - 20, now - 100) for each in draw.choice(((), (), ("p",), ("q", "new"), (ALL,)))}
        health = judge(bank, outcomes.read(["ipe"])["ipe"], opened, now)
        for each in (health, *map(health.own, ("p", "q", "new"))):
            text = f"{each.words()}; {each.began}; {each.detail()}; {each.advice}"
            assert "nenhum parceiro" not in text, text
            assert "demais deram certo depois" not in text or "nenhum outro" not in text, text
