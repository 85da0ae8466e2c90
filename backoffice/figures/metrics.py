"""The funnel for Prometheus: counted by the same sweep and in the same classes as for the back office.

The process that ran the sweep serves the counts, so only the sum over all machines is right. No label names a partner.
"""

from prometheus_client import Counter

from backoffice.figures.counting import Tally
from backoffice.figures.models import BankHour, QueryHour

QUERIES = Counter("queries", "Queries, once they are over; `outcome` is what the partner got.", ["outcome"])
ANSWERS = Counter("query_answers", "Answers of banks to queries, by status.", ["bank", "status"])
OFFERS = Counter("offers", "Offers of banks, in answers to queries and after external steps.", ["bank"])
PROPOSALS = Counter("proposals", "Proposals that came to a stage of the funnel, or to an end.", ["bank", "stage"])
PROPOSED = Counter("proposals_reais", "The amounts of these proposals' offers.", ["bank", "stage"])

ANSWER_STATUSES = ("ok", "no_offers", "requires_action", "pending", "refused", "failed")
STAGES = ("submitted", "signed", "disbursed", "withdrawn", "rejected", "cancelled", "expired")


def count(tally: Tally) -> None:
    """Add the counts that the sweep has stored."""
    for row in tally.rows.get(QueryHour, {}).values():
        queries, unfinished, with_offers = (
            float(row.get(name, 0)) for name in ("queries", "unfinished", "with_offers")
        )
        QUERIES.labels("with_offers").inc(with_offers)
        QUERIES.labels("unfinished").inc(unfinished)
        QUERIES.labels("without_offers").inc(queries - unfinished - with_offers)
    for (_, bank, _), row in tally.rows.get(BankHour, {}).items():
        for status in ANSWER_STATUSES:
            ANSWERS.labels(bank, status).inc(float(row.get(status, 0)))
        OFFERS.labels(bank).inc(float(row.get("offers", 0) + row.get("step_offers", 0)))
        for stage in STAGES:
            PROPOSALS.labels(bank, stage).inc(float(row.get(stage, 0)))
            PROPOSED.labels(bank, stage).inc(float(row.get(f"{stage}_amount", 0)))
