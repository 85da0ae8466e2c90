"""Rows of one holder from query to proposal, for tests of the back office's pages."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.db import transaction
from django.utils import timezone

from authorizations.models import Session
from consultas.models import Offer, Query, Step
from partners.failed_calls import FailedCall
from partners.models import ApiKey, Partner
from proposals.models import BankCall, Move, Proposal
from providers.maintenance import Maintenance
from tests.authorizations.clients import HolderClient, open_session
from tests.client import FULL_FLOW
from tests.factories import PartnerFactory, ProviderFactory
from tests.proposals.rows import a_proposal, a_step, an_offer
from webhooks import outbox
from webhooks.models import Event

CPF = FULL_FLOW


@dataclass
class Story:
    """The rows."""

    partner: Partner
    key: ApiKey
    query: Query
    offer: Offer
    proposal: Proposal
    step: Step
    event: Event
    session: Session
    failed_call: FailedCall
    secrets: list[str] = field(default_factory=list)
    cpf: str = CPF


def tell() -> Story:
    """The story's rows, written."""
    for name in ("ipe", "cedro", "jatoba"):
        ProviderFactory(name=name, credentials={"client_secret": "segredo-do-banco"})
    Maintenance.objects.create(
        provider_id="ipe", ends_at=timezone.now() + timedelta(hours=2), reason="virada de folha de pagamento"
    )
    partner = PartnerFactory(
        name="Financeira Exemplo de Crédito Consignado", providers=["ipe", "cedro"], webhook_url="https://um.example/w"
    )
    secret = partner.rotate_webhook_secret()
    key, text = ApiKey.issue(partner, "produção")
    offer = an_offer(partner, "ipe")
    now = timezone.now()

    def ago(minutes: int, seconds: int = 0) -> datetime:
        return now - timedelta(minutes=minutes, seconds=seconds)

    status = {"status": "awaiting_signature", "native_id": "CT-1"}
    proposal = a_proposal(offer, Proposal.Submission.ACCEPTED, created_at=ago(9), **status)
    Move.objects.create(proposal=proposal, to_status="created", cause="submit", at=ago(8))
    move = {"from_status": "created", "to_status": "awaiting_signature", "cause": "status", "native_word": "AGUARDA"}
    Move.objects.create(proposal=proposal, at=ago(5), **move)
    call = {"operation": "submit", "outcome": "ok", "ms": 812, "request_id": "request-1"}
    BankCall.objects.create(proposal=proposal, at=ago(9), **call)
    step = a_step(offer, state=Step.State.APPROVED, opened_at=ago(14), closed_at=ago(10))
    Query.objects.update(created_at=ago(15), finished_at=ago(14, 57))
    with transaction.atomic():
        event = outbox.store(
            partner, "proposal.created", str(proposal.pk), {"provider": "ipe", "cpf": CPF, "status": "created"}
        )
        failed = outbox.store(partner, "lead", CPF, {"cpf": CPF})
    Event.objects.filter(pk=failed.pk).update(state="failed", due_at=None, fault="status")
    session = open_session(partner)
    assert HolderClient().accept(session).status_code == 200
    route = {"method": "POST", "route": "partners/v1/consultas", "request_id": "pedido-com-erro"}
    error = {"status": 422, "code": "invalid_input", "field": "cpf"}
    failed_call = FailedCall.objects.create(partner=partner, key_prefix=key.prefix, **route, **error)
    secrets = [secret, text, "segredo-do-banco"]
    return Story(partner, key, offer.query, offer, proposal, step, event, session, failed_call, secrets)
