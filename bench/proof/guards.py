"""The guards that a run can do without, to see that its oracles find it: `python -m bench.proof --without fence`.

The service then runs from a copy of its code in which some lines are replaced.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from tests.processes import ROOT

#: What a copy of the code does not need.
_LEFT_OUT = shutil.ignore_patterns(".*", "var", "tests", "__pycache__")


@dataclass(frozen=True)
class Guard:
    """`what` it guards. `edits` switch it off: in a file, a text that stands there once, and its replacement. `finds`
    are promises of which a run without it has to find at least one broken."""

    what: str
    edits: tuple[tuple[str, str, str], ...]
    finds: tuple[str, ...]

    def copy_without(self, folder: Path) -> Path:
        """A copy of the code in `folder`, with the guard switched off."""
        shutil.copytree(ROOT, folder, ignore=_LEFT_OUT)
        for name, text, replacement in self.edits:
            file = folder / name
            file.write_text(file.read_text("utf-8").replace(text, replacement), "utf-8")
        return folder


GUARDS = {
    "question": Guard(
        "the bank is asked before a submission is sent again",
        (("proposals/sending.py", "if proposal.sent_until is None or _settle_earlier(proposal):", "if True:"),),
        ("submissions with more than one contract", "contracts that no proposal knows"),
    ),
    "fence": Guard(
        "an attempt's outcome is fenced",
        (
            (
                "proposals/attempts.py",
                "pk=self.pk, attempts=self.attempts, submission=self.Submission.SENDING)",
                "pk=self.pk)",
            ),
            ("proposals/models.py", "row.submission != self.Submission.SENDING:", "False:"),
        ),
        (
            "proposals that began twice",
            "contracts of submissions that count as refused or not sent",
            "acknowledged proposals that are gone",
            "submissions of unknown outcome",
        ),
    ),
    "lease": Guard(
        "a lease ends, by time or with its worker",
        (
            ("foundation/later.py", "(Q(lease_until=None) | Q(lease_until__lte=now))", "Q(lease_until=None)"),
            ("foundation/later.py", "    end_dead_leases()\n    due", "    due"),
        ),
        ("rows that stay leased", "queries without an end", "events that did not arrive"),
    ),
    "outbox": Guard(
        "an event is written in the transaction that causes it",
        (
            (
                "webhooks/outbox.py",
                "    database.insert(*events)\n",
                "    from threading import Timer\n"
                "    def late():\n"
                "        Event.objects.bulk_create(events)\n"
                "        connection.close()\n"
                "    connection.on_commit(lambda: Timer(0.2, late).start())\n",
            ),
        ),
        (
            "moves of proposals without one event",
            "ended queries without one event",
            "simulations without one event",
            "accepted authorizations without one event",
        ),
    ),
    "order": Guard(
        "readers see no event before the older ones",
        (
            (
                "webhooks/events.py",
                'xact_id__lt=RawSQL("pg_snapshot_xmin(pg_current_snapshot())::text::bigint", ())',
                'xact_id__gt=RawSQL("0", ())',
            ),
        ),
        ("events that a reader of the list missed", "lists in another order for another reader"),
    ),
    "repeat": Guard(
        "a repeat is compared with what was sent",
        (
            (
                "proposals/dataset.py",
                "return next(fields, None)",
                "return None",
            ),
        ),
        ("answers that the contract forbids",),
    ),
    "tenancy": Guard(
        "a proposal is its partner's",
        (("proposals/models.py", "filter(visible, partner=partner, provider__in=allowed)", "filter(visible)"),),
        ("answers that the contract forbids",),
    ),
    "suspension": Guard(
        "a suspended partner is refused",
        (("partners/authentication.py", " or key.partner.status != Partner.Status.ACTIVE", ""),),
        ("answers that the contract forbids",),
    ),
    "erasure": Guard(
        "an erased holder is gone",
        (
            (
                "consultas/retention.py",
                "    queries_gone, _ = mine.filter(",
                "    queries_gone, _ = mine.none().filter(",
            ),
        ),
        ("rows of erased holders",),
    ),
    "seal": Guard(
        "a record of evidence is what was sealed",
        (("authorizations/evidence.py", "seal.sha256(content)", 'seal.sha256(content + b" ")'),),
        ("evidence chain",),
    ),
    "mask": Guard(
        "personal data is masked in logs, with a careless line",
        (
            ("config/logs.py", "event[key] = without_personal_data(value)", "event[key] = value"),
            (
                "proposals/sending.py",
                '    die_at("after_commit")\n',
                '    structlog.get_logger("careless").info("sending", cpf=proposal.dataset["titular"]["cpf"])\n',
            ),
        ),
        ("personal data or secrets in logs and broker",),
    ),
}
