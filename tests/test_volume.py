"""The rows for measurements resemble real ones, and can be deleted completely."""

from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from django.utils import timezone

from authorizations import chain, seal
from authorizations.models import Session
from backoffice.figures import sweep
from backoffice.figures.models import BankHour, QueryHour
from bench.fill import main as fill
from consultas.models import Offer, Query, Step
from partners.models import Partner
from proposals.models import Move, Proposal
from proposals.statuses import MOVES
from providers import registry
from tests.factories import ProviderFactory
from webhooks.models import Event

pytestmark = pytest.mark.django_db


def count_all(until: datetime) -> None:
    """Sweep until all is counted: one sweep ends after its time, whatever is left."""
    end = until - sweep.settled_after()
    sweep.advance(until)
    while (counted := sweep.counted_until()) is not None and counted < end:
        sweep.advance(until)


def test_a_small_volume_comes_and_goes(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sweep, "SLICE", sweep.HOUR)  # each slice is a transaction
    for name in registry.names():
        ProviderFactory(name=name)
    fill(["--queries", "200", "--offers-each", "3", "--proposals", "100", "--partners", "3", "--days", "4"])
    assert len(capsys.readouterr().out.splitlines()) == 4
    assert 140 <= Query.objects.count() <= 200, "of today what is over"
    assert Query.objects.filter(created_at__gt=timezone.now()).count() == 0
    assert Query.objects.count() < Offer.objects.count() < 5 * Query.objects.count()
    assert Proposal.objects.count() > 25
    for proposal in Proposal.objects.prefetch_related("moves"):
        way = [move.to_status for move in proposal.moves.all()]
        assert way[-1] == proposal.status
        assert way[0] == "created"
        assert all(after in MOVES[before] for before, after in pairwise(way))  # type: ignore[index]
    assert Event.objects.count() == Move.objects.count()

    for query in Query.objects.all():
        assert len(query.answers) == len(registry.names())
        assert query.request["name"].startswith("Titular ")
    for proposal in Proposal.objects.all():
        assert proposal.dataset["titular"]["cpf"]
        assert (proposal.terms["installments"], proposal.data) == (48, {})
    assert {session.name.partition(" ")[0] for session in Session.objects.all()} == {"Titular"}
    assert chain.verify(seal.trusted_keys())["problems"] == [], "before the fix, each accepted session lacked evidence"

    count_all(timezone.now() + timedelta(minutes=2))  # younger rows may still change
    assert sum(QueryHour.objects.values_list("queries", flat=True)) == Query.objects.count()
    assert BankHour.objects.exists()

    fill(["--delete"])
    for model in (Query, Offer, Step, Session, Proposal, Move, Event, QueryHour, BankHour):
        assert model.objects.count() == 0
    assert not Partner.objects.filter(name__startswith="Volume").exists()


def test_nothing_is_seeded_in_production(settings: Any) -> None:
    settings.PRODUCTION = True
    with pytest.raises(SystemExit, match="production"):
        fill([])
