"""Erasures are done again after a restore of an older backup, from a list without CPFs."""

import json
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.db import transaction

from authorizations.models import Session
from consultas.models import Query
from foundation.models import AuditEntry
from partners.models import Partner
from proposals import retention
from proposals.models import Erasure
from tests.client import FULL_FLOW
from tests.commands import printed
from tests.factories import PartnerFactory
from tests.proposals.test_erasure import an_accepted_session, an_answered_offer
from webhooks import outbox
from webhooks.models import Event

OTHER = "90000000256"


@pytest.fixture
def partner(db: None) -> Partner:
    return PartnerFactory(providers=["ipe"], webhook_events=["authorization_result"])


@pytest.mark.control("CMN VII")
def test_a_restored_holder_is_erased_again_by_the_exported_list(partner: Partner, tmp_path: Path) -> None:
    """Before the fix, somebody had to keep the requests and type each CPF again."""
    retention.erase(OTHER, "maria")
    an_answered_offer(partner)
    session = an_accepted_session(partner)
    outbox.send(partner, "authorization_result", FULL_FLOW, {"cpf": FULL_FLOW})
    backup = transaction.savepoint()
    erasure = retention.erase(FULL_FLOW, "maria")
    file = tmp_path / "list.json"
    file.write_text(json.dumps(printed("export_chain_head")))
    assert FULL_FLOW not in file.read_text()
    transaction.savepoint_rollback(backup)  # the restore
    assert (Query.objects.exists(), Erasure.objects.count()) == (True, 1)

    assert printed("replay_erasures", str(file)) == {"replayed": 1, "known": 1, "left": 0, "head_is_known": True}
    assert not Query.objects.exists()
    session.refresh_from_db()
    assert session.name == "***"
    assert set(Event.objects.values_list("body", flat=True)) == {None}
    again = Erasure.objects.get(cpf_index=erasure.cpf_index)
    assert (again.at, again.by, again.erased) == (erasure.at, "maria", erasure.erased)
    assert AuditEntry.objects.filter(action="command", detail__startswith="replay_erasures").exists()
    assert printed("replay_erasures", str(file))["replayed"] == 0, "a second run does nothing"


def test_a_lost_head_is_told(partner: Partner, tmp_path: Path) -> None:
    backup = transaction.savepoint()
    an_accepted_session(partner)
    file = tmp_path / "list.json"
    file.write_text(json.dumps(printed("export_chain_head")))
    transaction.savepoint_rollback(backup)
    assert not Session.objects.exists()
    assert printed("replay_erasures", str(file))["head_is_known"] is False


@pytest.mark.parametrize("content", ["", "[]", '{"at": "x"}', '{"erasures": [{"cpf": "52998224725"}]}'])
def test_another_file_is_refused(db: None, tmp_path: Path, content: str) -> None:
    file = tmp_path / "list.json"
    file.write_text(content)
    with pytest.raises(CommandError, match="export_chain_head") as refused:
        call_command("replay_erasures", str(file))
    assert "52998224725" not in str(refused.value)
    with pytest.raises(CommandError, match="FileNotFoundError"):
        call_command("replay_erasures", str(tmp_path / "none"))
