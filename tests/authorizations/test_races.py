"""Fifty simultaneous calls over real connections give one session, one evidence, one event."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from django.utils import timezone

from authorizations import chain, evidence, seal
from authorizations.models import Evidence, Session
from tests.authorizations.clients import CPF, HolderClient, PartnerClient, open_session, public
from tests.factories import PartnerFactory, issue_key
from tests.transactions import crowd
from webhooks.models import Event

pytestmark = pytest.mark.django_db(transaction=True)

MANY = 50
AtOnce = Callable[..., list[Any]]


@pytest.fixture(scope="module")
def at_once() -> Iterator[AtOnce]:
    with crowd(MANY) as make:
        yield make


@pytest.fixture
def clients() -> list[PartnerClient]:
    """Clients of one partner, all with the same key."""
    key, secret = issue_key()
    return [PartnerClient(key.partner, secret) for _ in range(MANY)]


def create(client: PartnerClient) -> Any:
    body = {"cpf": CPF, "nome": "Maria", "telefone": "11987654321"}
    return client.post("/partners/v1/authorizations", body, format="json")


@pytest.mark.parametrize("before", ["nothing", "an expired session", "an authorized session"])
def test_fifty_creations_give_one_session(at_once: AtOnce, clients: list[PartnerClient], before: str) -> None:
    old: list[str] = []
    if before != "nothing":
        session = open_session(clients[0].partner)
        old = [session.authorization_id]
        if before == "an expired session":
            Session.objects.update(expires_at=timezone.now())
        else:
            HolderClient().accept(session)
    replies = at_once(*[lambda client=client: create(client) for client in clients])
    assert sorted(reply.status_code for reply in replies) == [200] * (MANY - 1) + [201]
    assert len({reply.content for reply in replies}) == 1
    assert Session.objects.exclude(authorization_id__in=old).count() == 1


@pytest.mark.control("V15")
def test_fifty_acceptances_give_one_evidence(at_once: AtOnce) -> None:
    session = open_session(PartnerFactory())
    calls = [lambda n=n: HolderClient().accept(session, {"device": {"platform": f"aparelho {n}"}}) for n in range(MANY)]
    replies = at_once(*calls)
    assert {reply.status_code for reply in replies} == {200}
    assert len({reply.content for reply in replies}) == 1
    assert (Evidence.objects.count(), Event.objects.count()) == (1, 1)


@pytest.mark.control("LGPD 8")
def test_fifty_holders_at_once_make_one_unbroken_chain(at_once: AtOnce) -> None:
    partner = PartnerFactory()
    sessions = [open_session(partner, cpf=f"{n:011}") for n in range(MANY)]
    replies = at_once(*[lambda session=session: HolderClient().accept(session) for session in sessions])
    assert {reply.status_code for reply in replies} == {200}
    result = chain.verify(seal.trusted_keys())
    assert (result["valid"], result["checked"], result["problems"]) == (True, MANY, [])


def race(at_once: AtOnce, clients: list[PartnerClient], session: Session) -> tuple[list[Any], list[Any]]:
    """The answers to creations and to as many acceptances of `session`, all at once."""
    calls = [lambda client=client: create(client) for client in clients]
    replies = at_once(*calls, *[lambda: HolderClient().accept(session)] * len(clients))
    return replies[: len(clients)], replies[len(clients) :]


def test_creations_and_acceptances_at_the_end_of_the_72_hours(at_once: AtOnce, clients: list[PartnerClient]) -> None:
    """Whichever call wins, all answers agree with the rows: all say accepted or none does, and one session is pending
    at the end."""
    for _ in range(5):
        session = open_session(clients[0].partner)
        Session.objects.filter(pk=session.pk).update(expires_at=timezone.now())
        created, accepted = race(at_once, clients[::2], session)
        assert {reply.status_code for reply in accepted} == {410}
        assert not Evidence.objects.filter(session=session).exists()
        assert [reply.status_code for reply in created].count(201) == 1
        assert Session.objects.filter(status="pending").count() == 1
        Session.objects.filter(status="pending").update(expires_at=timezone.now(), status="expired")


def test_acceptances_that_race_with_creations(at_once: AtOnce, clients: list[PartnerClient]) -> None:
    """A creation before the old session's acceptance returns that session; a creation after it opens a new one."""
    session = open_session(clients[0].partner)
    created, accepted = race(at_once, clients[::2], session)
    assert {reply.status_code for reply in accepted} == {200}
    assert Evidence.objects.count() == 1
    ids = {reply.json()["authorization_id"] for reply in created}
    assert len(ids - {session.authorization_id}) <= 1
    assert Session.objects.filter(status="pending").count() == len(ids - {session.authorization_id})


def test_of_an_acceptance_and_a_decline_at_once_one_counts(at_once: AtOnce) -> None:
    partner = PartnerFactory(webhook_events=["authorization.completed", "authorization.declined"])
    for number in range(8):
        session = open_session(partner, cpf=f"{number:011}")
        paths = [f"{public(session)}/{act}" for act in ("accept", "decline")]
        at_once(*[lambda path=path: HolderClient().post(path) for path in paths])
        ended = Session.objects.get(pk=session.pk)
        seen = ended.status_at(timezone.now()), hasattr(ended, "evidence")
        assert seen in (("authorized", True), ("declined", False))
        assert Event.objects.count() == number + 1


def test_uses_at_once_are_numbered_without_a_gap(at_once: AtOnce) -> None:
    """A verification at the same time finds no fault."""
    session = open_session(PartnerFactory())
    HolderClient().accept(session)

    def use(n: int) -> None:
        evidence.record_use(1, ["ipe", "aroeira"], call="query", reference=f"q-{n}")

    looks = [lambda: chain.verify(seal.trusted_keys())["problems"]] * 10
    found = at_once(*(partial(use, n) for n in range(30)), *looks)
    assert found[30:] == [[]] * 10
    assert chain.verify(seal.trusted_keys())["uses"] == 60
