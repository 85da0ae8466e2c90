"""The statuses of a proposal and their allowed order, as in the contract."""

import itertools

from proposals.statuses import MOVES, moves_between
from providers.types.proposal import ProposalStatus

FINAL = {ProposalStatus.DISBURSED, ProposalStatus.REJECTED, ProposalStatus.CANCELLED, ProposalStatus.EXPIRED}
S = ProposalStatus
ALLOWED = {
    *itertools.product([S.CREATED, S.IN_ANALYSIS], [S.AWAITING_SIGNATURE, S.REJECTED, S.CANCELLED, S.EXPIRED]),
    (S.CREATED, S.IN_ANALYSIS),
    *itertools.product([S.AWAITING_SIGNATURE], [S.SIGNED, S.DISBURSED, S.REJECTED, S.CANCELLED, S.EXPIRED]),
    *itertools.product([S.SIGNED], [S.DISBURSED, S.REJECTED, S.CANCELLED]),
}


def test_the_moves_are_those_of_the_contract() -> None:
    assert {(start, end) for start, ends in MOVES.items() for end in ends} == ALLOWED
    assert set(S) - set(MOVES) == FINAL


def test_a_way_is_made_of_allowed_moves_and_never_leads_back() -> None:
    for start, end in list(itertools.product(S, S)):
        found = moves_between(start, end)
        if found is None:
            assert start in FINAL or (start, end) in {
                (S.IN_ANALYSIS, S.CREATED),
                (S.AWAITING_SIGNATURE, S.CREATED),
                (S.AWAITING_SIGNATURE, S.IN_ANALYSIS),
                (S.SIGNED, S.CREATED),
                (S.SIGNED, S.IN_ANALYSIS),
                (S.SIGNED, S.AWAITING_SIGNATURE),
                (S.SIGNED, S.EXPIRED),
            }
        else:
            stops = [start, *found]
            assert stops[-1] == end
            assert all(pair in ALLOWED for pair in itertools.pairwise(stops))
