"""What partners are told of a proposal: its columns, and as JSON the envelope of every route and the events."""

from typing import Any

from django.db import models
from django.utils import timezone

from foundation.encryption import EncryptedJSONField, EncryptedTextField
from foundation.errors import error_from_dict
from foundation.formats import iso_utc, mask_account, mask_phone
from foundation.shapes import Shape
from proposals import dataset, shapes
from proposals.attempts import Submittable
from proposals.dataset import CHANNELS
from proposals.statuses import MOVES, UNKNOWN, WITHDRAWN
from proposals.trail import Move
from providers import registry
from providers.bank import Bank
from providers.types.proposal import ProposalStatus, Stage


class Told(Submittable):
    """What the bank tells of a proposal, and what follows from it for the partner. `status` is the contract's."""

    #: The columns that are a report's values as they are. A report without one leaves the earlier value.
    KEPT = ("contract_number", "disbursed_at", "disbursed_amount", "withdrawal_until")

    status = models.CharField("situação", max_length=20, choices=ProposalStatus.choices, default="created")
    native_id = models.CharField("id no banco", max_length=200, blank=True)
    native_status = models.CharField("situação no banco", max_length=60, blank=True)
    data = EncryptedJSONField("dados do banco", default=dict)
    signature_url = EncryptedTextField("link de assinatura", null=True)
    signature_expires_at = models.DateTimeField("link válido até", null=True)
    stage = models.CharField("etapa", max_length=12, choices=Stage.choices, blank=True, default="", db_default="")
    stage_since = models.DateTimeField("nesta etapa desde", null=True)
    stage_reason = EncryptedJSONField("motivo da espera", null=True)
    reason = EncryptedJSONField("motivo do fim", null=True)
    contract_number = models.CharField("número do contrato", max_length=200, blank=True, default="", db_default="")
    disbursed_at = models.DateTimeField("paga em", null=True)
    disbursed_amount = models.DecimalField("valor pago", max_digits=12, decimal_places=2, null=True)
    withdrawal_until = models.DateField("desistência até", null=True)
    withdrawn_at = models.DateTimeField("desistência em", null=True)
    moved_at = models.DateTimeField("última mudança", default=timezone.now)
    last_status_at = models.DateTimeField(null=True)

    class Meta:
        abstract = True

    @property
    def shown_status(self) -> str:
        """The status as partners read it. Of a row that `of` returns."""
        is_unknown = self.submission in (self.Submission.UNKNOWN, self.Submission.SENDING)
        return UNKNOWN if is_unknown else self.status

    @property
    def status_in_words(self) -> str:
        """The status as operators read it. The holder may have withdrawn from a paid contract."""
        words = str(self.get_status_display())
        return f"{words}, desistida" if self.withdrawn_at else words

    @property
    def is_final(self) -> bool:
        """True if the status cannot change any more."""
        return self.status not in MOVES

    def usable_link(self) -> str | None:
        """The signature URL while the contract awaits the signature and the URL is valid, otherwise None."""
        usable = self.signature_expires_at is None or self.signature_expires_at > timezone.now()
        awaited = self.status == ProposalStatus.AWAITING_SIGNATURE
        return self.signature_url if awaited and usable else None


def shown(proposal: Told) -> shapes.Proposal:
    """A proposal as every route shows it."""
    return shapes.Proposal.of(
        proposal,
        **_facts(proposal),
        proposal_id=proposal.pk,
        status=proposal.shown_status,
        offer=proposal.terms,
        action=_action(proposal),
        error=error_from_dict(proposal.error).as_dict() if proposal.error else None,
        provider_data={
            **proposal.data,
            "nativeProposalId": proposal.native_id or None,
            "nativeStatus": proposal.native_status or None,
        },
    )


def detail(proposal: Told) -> shapes.ProposalDetail:
    """A proposal with every status it had, oldest first. The reason of an end without payment stands beside it."""
    moves = Move.objects.filter(proposal_id=proposal.pk).exclude(to_status=WITHDRAWN)
    history = [shapes.ProposalHistory.of(move, status=move.to_status) for move in moves]
    return shapes.ProposalDetail.of(shown(proposal), history=history)


def event(proposal: Told, previous: str) -> Shape:
    """The event's own fields. `previous` is the status before the move; empty for the first one, and for an event that
    tells no move. It has no signature URL: the receiver may log the event, and anyone with the URL may sign."""
    action = _action(proposal)
    return shapes.ProposalEvent.of(
        proposal,
        **_facts(proposal),
        external_reference=proposal.pk,
        previous_status=previous or None,
        action=action and shapes.SignatureNotice.of(action),
    )


def _facts(proposal: Told) -> dict[str, Any]:
    """The fields that envelope and events share, other than the row's. Before a payment, what is told of it is null."""
    is_paid = proposal.status == ProposalStatus.DISBURSED
    unpaid = {} if is_paid else dict.fromkeys(("disbursed_at", "disbursed_amount", "withdrawal_until"))
    return {"next_actions": next_actions(proposal), "recebimento": disbursement(proposal), **unpaid}


def next_actions(proposal: Told, refused: str = "") -> list[str]:
    """What the partner can do now: the calls that the status allows, except the one that was just `refused`; `wait` if
    the bank must act; `none` if nothing more will happen."""
    if proposal.shown_status == UNKNOWN:
        return ["wait"]
    if proposal.is_final:
        return ["none"]
    may_formalize = proposal.status in (ProposalStatus.CREATED, ProposalStatus.AWAITING_SIGNATURE)
    bank = registry.get(proposal.provider) or Bank
    allowed = ["formalize"] if may_formalize and refused != "formalize" else ["wait"]
    return allowed + (["cancel"] if bank.cancels() and refused != "cancel" else [])


def disbursement(proposal: Told) -> shapes.Disbursement:
    """Where the bank pays the money, masked: the account's bank and last digits, or the kind of PIX key."""
    paid = dataset.disbursement(registry.get(proposal.provider) or Bank, proposal.dataset)
    account, pix = paid.account, paid.pix
    return shapes.Disbursement(
        conta_bancaria=shapes.PaidAccount(
            banco=account["banco"], conta=mask_account(account["conta"]), tipo_conta=account["tipo_conta"]
        )
        if account
        else None,
        pix=shapes.PaidPix(tipo_chave=pix["tipo_chave"]) if pix else None,
        observacao=paid.remark,
    )


def _action(proposal: Told) -> shapes.SignatureAction | None:
    url = proposal.usable_link()
    if url is None:
        return None
    delivered = proposal.channel in CHANNELS
    expires_at = proposal.signature_expires_at
    return shapes.SignatureAction(
        type="signature",
        url=url,
        expires_at=iso_utc(expires_at) if expires_at else None,
        delivery=shapes.Delivery(
            channel=proposal.channel if delivered else "link",
            destination=mask_phone(proposal.dataset["contato"]["telefone"]) if delivered else None,
        ),
    )
