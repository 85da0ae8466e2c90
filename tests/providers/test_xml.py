"""A bank that uses XML at one address, with a ticket in the body."""

from msgspec import Struct

from foundation.errors import ApiError
from providers.bank import Bank, Connection
from providers.errors import LoginRefused
from providers.http import Draft
from providers.http import Reply as BankReply
from providers.tokens import Token
from providers.types.proposal import BankProposal
from tests.providers.conftest import client_of
from tests.receiver import Received, Receiver, Reply


class Ticket(Struct, rename="pascal"):
    ticket: str


class Posted(Bank):
    """One address for all operations, and the ticket in the body."""

    name = "posted"
    label = "Posted"
    templates = {"proposal": {"Numero": "native_id", "Situacao": "native_status"}}

    def login(self, old: Token | None) -> Token:
        reply = self.call("POST", "/ws", xml={"Entrar": {"Usuario": "u"}})
        return Token.lasting(reply.read(Ticket, root="Sessao").ticket, 600)

    def authorize(self, token: Token | None, draft: Draft) -> Draft:
        [(operation, fields)] = draft.content.items()
        return draft.carrying({operation: {"Ticket": token.value if token else None, **fields}})

    @classmethod
    def refusal(cls, reply: BankReply) -> ApiError | None:
        return LoginRefused() if b"ticket invalido" in reply.body else None

    def status(self, native_id: str) -> BankProposal:
        reply = self.call("POST", "/ws", xml={"Situacao": {"Numero": native_id}}, safe=True)
        return self.proposal(reply.read(self.answers.shape("proposal"), root="Proposta"))


def test_a_ticket_stands_in_the_body_and_a_fresh_one_replaces_a_refused_one() -> None:
    tickets = iter(["first", "second"])
    seen: list[Received] = []

    def bank(request: Received) -> Reply:
        seen.append(request)
        kind = {"Content-Type": "text/xml"}
        if b"<Entrar>" in request.body:
            return Reply(200, f"<Sessao><Ticket>{next(tickets)}</Ticket></Sessao>".encode(), kind)
        if b"<Ticket>first</Ticket>" in request.body:
            return Reply(200, b"<Erro>ticket invalido</Erro>", kind)
        return Reply(200, b"<Proposta><Numero>7</Numero><Situacao>nova</Situacao></Proposta>", kind)

    with Receiver(bank) as server:
        found = client_of(Posted, Connection(server.root, {})).status("7")
    assert (found.native_id, found.native_status, found.status) == ("7", "nova", None)
    assert [request.path for request in seen] == ["/ws"] * 4
    assert seen[-1].body.endswith(b"<Situacao><Ticket>second</Ticket><Numero>7</Numero></Situacao>")
    assert seen[-1].headers["content-type"] == "text/xml; charset=utf-8"
    assert seen[-1].headers["accept"] == "text/xml, application/xml"
    assert "authorization" not in seen[-1].headers
