"""The statuses of a proposal and the moves between them."""

from providers.types.proposal import ProposalStatus, Stage

#: A partner has at most one proposal per offer that is in none of these statuses.
NOT_LIVE = (ProposalStatus.REJECTED, ProposalStatus.CANCELLED, ProposalStatus.EXPIRED)
#: The possible moves from each status. A status that is not a key is final.
MOVES: dict[ProposalStatus, tuple[ProposalStatus, ...]] = {
    ProposalStatus.CREATED: (ProposalStatus.IN_ANALYSIS, ProposalStatus.AWAITING_SIGNATURE, *NOT_LIVE),
    ProposalStatus.IN_ANALYSIS: (ProposalStatus.AWAITING_SIGNATURE, *NOT_LIVE),
    ProposalStatus.AWAITING_SIGNATURE: (ProposalStatus.SIGNED, ProposalStatus.DISBURSED, *NOT_LIVE),
    ProposalStatus.SIGNED: (ProposalStatus.DISBURSED, ProposalStatus.REJECTED, ProposalStatus.CANCELLED),
}
#: The stages of the statuses that have any, in their order. A status with one stage is in it without the bank's word.
STAGES: dict[str, tuple[Stage, ...]] = {
    ProposalStatus.IN_ANALYSIS: (Stage.ANALYSIS,),
    ProposalStatus.AWAITING_SIGNATURE: (Stage.SIGNATURE,),
    ProposalStatus.SIGNED: (Stage.AVERBATION, Stage.DISBURSEMENT),
}
#: What partners read as the status of a submission of which nobody knows whether the bank has it.
UNKNOWN = "unknown"
#: The move of a paid proposal whose holder withdrew. Not a status: partners read `disbursed` and `withdrawn_at`.
WITHDRAWN = "withdrawn"


def moves_between(start: ProposalStatus, end: ProposalStatus) -> list[ProposalStatus] | None:
    """The shortest sequence of moves from `start` to `end`, without `start`: the bank may be several moves ahead of the
    last check. None if `end` lies behind."""
    ways: list[list[ProposalStatus]] = [[start]]
    for current in ways:
        if current[-1] == end:
            return current[1:]
        ways.extend([*current, following] for following in MOVES.get(current[-1], ()))
    return None
