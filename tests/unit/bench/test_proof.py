"""What judges a run of `make proof`: each oracle that needs no database finds what was planted."""

from pathlib import Path

import pytest

from bench.proof import oracles
from bench.proof.backend import ACCOUNT, Diary, Sale
from bench.proof.guards import GUARDS, Guard
from bench.proof.oracles import Contract, Proposal
from bench.proof.schedule import KINDS, schedule
from tests.processes import ROOT

BANKS = ["a", "b"]
CONTRACT = Contract("a", "c1", "r1", "created")
ROW = Proposal("p1", "partner", "offer", "a", "r1", "c1", "accepted", "created")


def broken(rows: list[Proposal], ledger: list[Contract], *sales: Sale) -> dict[str, int]:
    found = dict(oracles.contracts(rows, ledger, Diary(sales=list(sales))))
    return {promise: len(each) for promise, each in found.items() if each}


def row(**changes: str) -> Proposal:
    return Proposal(**{**vars(ROW), **changes})


def test_a_run_can_be_repeated_and_has_every_kind_of_fault() -> None:
    faults = schedule(7, 1200, BANKS)
    assert faults == schedule(7, 1200, BANKS) != schedule(8, 1200, BANKS)
    assert faults == sorted(faults)
    assert {fault.kind for fault in faults} > KINDS.keys()


@pytest.mark.parametrize("guard", GUARDS.values(), ids=GUARDS)
def test_a_guard_to_do_without_stands_in_the_code_and_breaks_promises_that_are_judged(guard: Guard) -> None:
    for name, text, replacement in guard.edits:
        code = (ROOT / name).read_text("utf-8")
        assert code.count(text) == 1
        compile(code.replace(text, replacement), name, "exec")
    judged = "".join((ROOT / "bench" / "proof" / name).read_text("utf-8") for name in ("oracles.py", "__main__.py"))
    assert all(promise in judged or promise.partition(" without")[0] in judged for promise in guard.finds)


def test_one_contract_for_each_submission_breaks_nothing() -> None:
    assert broken([ROW], [CONTRACT], Sale("partner", "a", "offer", "", proposal_id="p1")) == {}


@pytest.mark.parametrize(
    ("rows", "ledger", "promise"),
    [
        ([ROW], [CONTRACT, Contract("a", "c2", "r1", "created")], "submissions with more than one contract"),
        ([], [CONTRACT], "contracts that no proposal knows"),
        ([ROW], [], "proposals without a contract"),
        ([row(submission="refused")], [CONTRACT], "contracts of submissions that count as refused or not sent"),
        (
            [ROW, row(id="p2", reference="r2", native_id="c2")],
            [CONTRACT, Contract("a", "c2", "r2", "created")],
            "offers with two living contracts",
        ),
        ([row(submission="unknown")], [], "submissions of unknown outcome"),
    ],
)
def test_a_contract_too_many_or_too_few_is_found(rows: list[Proposal], ledger: list[Contract], promise: str) -> None:
    assert broken(rows, ledger)[promise] == 1


def test_what_a_partner_was_told_must_be_so() -> None:
    sold = Sale("partner", "a", "offer", "", proposal_id="p9")
    unanswered, refused = Sale("partner", "a", "offer", ""), Sale("partner", "a", "offer", "", refusal="offer_expired")
    assert broken([ROW], [CONTRACT], sold, unanswered, refused) == {
        "acknowledged proposals that are gone": 1,
        "submissions without an end": 1,
        "refusals of offers that the bank had": 1,
    }


def test_a_status_that_is_not_the_banks_is_found() -> None:
    assert oracles.behind([ROW], [CONTRACT]) == []
    assert oracles.behind([ROW], [Contract("a", "c1", "r1", "signed")]) == [ROW]


def test_personal_data_is_found_in_a_log_and_other_numbers_are_not(tmp_path: Path) -> None:
    log = tmp_path / "web"
    log.write_text("at 1764000000123 took 98765432100\n")
    assert dict(oracles.personal_data([log], ["91700000004"], ["secret"])).popitem()[1] == []
    log.write_text(f"cpf=91700000004 {ACCOUNT} key=secret\n")
    [(_, found)] = oracles.personal_data([log], ["91700000004"], ["secret"])
    assert found == [("web", ACCOUNT), ("web", "91700000004"), ("web", "secret")]
