"""The statuses of a proposal and the moves between them."""

from __future__ import annotations

from providers.types import ProposalStatus

#: The moves that a status may make. Statuses that are no key are final.
MOVES: dict[ProposalStatus, tuple[ProposalStatus, ...]] = {
    ProposalStatus.CREATED: (
        ProposalStatus.IN_ANALYSIS,
        ProposalStatus.AWAITING_SIGNATURE,
        ProposalStatus.REJECTED,
        ProposalStatus.CANCELLED,
        ProposalStatus.EXPIRED,
    ),
    ProposalStatus.IN_ANALYSIS: (
        ProposalStatus.AWAITING_SIGNATURE,
        ProposalStatus.REJECTED,
        ProposalStatus.CANCELLED,
        ProposalStatus.EXPIRED,
    ),
    ProposalStatus.AWAITING_SIGNATURE: (
        ProposalStatus.SIGNED,
        ProposalStatus.DISBURSED,
        ProposalStatus.REJECTED,
        ProposalStatus.CANCELLED,
        ProposalStatus.EXPIRED,
    ),
    ProposalStatus.SIGNED: (ProposalStatus.DISBURSED, ProposalStatus.REJECTED, ProposalStatus.CANCELLED),
}
#: Of one offer a partner has one proposal at most that is in none of these.
NOT_LIVE = (ProposalStatus.REJECTED, ProposalStatus.CANCELLED, ProposalStatus.EXPIRED)


def moves_between(start: ProposalStatus, end: ProposalStatus) -> list[ProposalStatus] | None:
    """The shortest way of moves from `start` to `end`, without `start`; None where `end` lies behind.

    A status is looked at now and then, so a bank may be steps ahead: signed and paid since the last look.
    """
    ways: list[list[ProposalStatus]] = [[start]]
    for current in ways:
        if current[-1] == end:
            return current[1:]
        ways.extend([*current, following] for following in MOVES.get(current[-1], ()))
    return None
