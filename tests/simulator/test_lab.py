"""The laboratory: each order is about one CPF, and affects no other."""

from typing import Any

import jsonschema
import pytest
import requests

from simulator.app import Settings, create_app
from tests.processes import Simulator
from tests.providers.samples import FULL_FLOW, HOLDERS, STRANGER
from tests.simulator.test_ipe import IpeClient

OTHER = "90000000505"  # a valid CPF that the catalogue does not know


class Lab:
    """A partner's test suite at the laboratory: no token, one CPF."""

    def __init__(self, simulator: Simulator, cpf: str = STRANGER) -> None:
        self.simulator = simulator
        self.path = f"/lab/holders/{cpf}"

    def send(self, method: str, path: str = "", body: Any = None) -> requests.Response:
        return self.simulator.request(method, self.path + path, json=body)

    def done(self, method: str, path: str = "", body: Any = None) -> Any:
        answer = self.send(method, path, body)
        assert answer.status_code < 300, answer.text
        return answer.json() if answer.content else None


@pytest.fixture
def lab(simulator: Simulator) -> Lab:
    """The laboratory, with STRANGER set as the holder who gets offers from every bank."""
    lab = Lab(simulator)
    lab.done("PUT", body={"scenario": "full_flow"})
    return lab


def test_a_holder_of_ones_own_plays_a_scenario_until_it_is_forgotten(lab: Lab, ipe: IpeClient) -> None:
    nothing: dict[str, Any] = {"steps": [], "proposals": [], "faults": []}
    assert lab.done("GET") == {"cpf": STRANGER, "scenario": "full_flow", **nothing}
    assert len(ipe.query(STRANGER).json()["simulations"]) == 2
    assert ipe.query(OTHER).json()["simulations"] == []
    lab.done("DELETE")
    assert lab.done("GET")["scenario"] is None
    assert ipe.query(STRANGER).json()["simulations"] == []


def test_a_new_holder_has_a_cpf_that_nobody_uses(simulator: Simulator, ipe: IpeClient) -> None:
    """Before the fix, everybody who began with the guide shared one holder, whose offer only the first could submit."""
    made = [simulator.request("POST", "/lab/holders", json={"scenario": "full_flow"}) for _ in range(2)]
    assert {answer.status_code for answer in made} == {201}
    cpfs = {answer.json()["cpf"] for answer in made}
    assert len(cpfs) == 2
    assert all(ipe.debt(cpf, cpf)["debt_key"] for cpf in cpfs)
    assert simulator.request("POST", "/lab/holders", json={}).json()["field"] == "scenario"


def test_a_catalogue_cpf_keeps_its_scenario(simulator: Simulator) -> None:
    lab = Lab(simulator, FULL_FLOW)
    assert lab.send("PUT", body={"scenario": "biometric"}).status_code == 409
    assert lab.done("GET")["scenario"] == "full_flow"


@pytest.mark.parametrize(
    ("verb", "outcome", "status"),
    [("approve", "approved", "pending_reservation"), ("refuse", "refused", "refused"), ("expire", "expired", None)],
)
def test_a_signature_is_approved_refused_or_expires(
    lab: Lab, ipe: IpeClient, verb: str, outcome: str, status: str | None
) -> None:
    debt = ipe.debt(STRANGER)
    assert lab.send("POST", f"/steps/{verb}").status_code == 409
    link = ipe.issue(debt).json()["signature"]["url"]
    [step] = lab.done("GET", "/steps")["steps"]
    assert (step["provider"], step["step"], step["status"], step["url"]) == ("ipe", "signature", "open", link)
    ended = lab.done("POST", f"/steps/{verb}", {"provider": "ipe", "step": "signature", "id": step["id"]})
    assert ended == {**step, "status": outcome, "ended_at": ended["ended_at"]}
    now = ipe.status(debt)
    assert (now["status"], now["signature"]) == (status or "waiting_signature", None)
    assert lab.send("POST", f"/steps/{verb}").status_code == 409


def test_a_proposal_is_led_to_a_status(lab: Lab, ipe: IpeClient) -> None:
    debt = ipe.debt(STRANGER)
    for status, word in (
        ("in_analysis", "pending_analysis"),
        ("awaiting_signature", "waiting_signature"),
        ("disbursed", "disbursed"),
    ):
        moved = lab.done("POST", "/proposals/advance", {"status": status, "contract": debt["debt_key"]})
        assert (moved["status"], ipe.status(debt)["status"]) == (status, word)
    assert lab.send("POST", "/proposals/advance", {"status": "rejected"}).status_code == 409
    assert [step["status"] for step in lab.done("GET", "/steps")["steps"]] == ["approved"]
    assert lab.done("GET", "/proposals")["proposals"] == [moved]


@pytest.mark.parametrize(("status", "word"), [("rejected", "refused"), ("expired", "signature_expired")])
def test_nobody_withdraws_from_a_proposal_that_was_led_to_its_end(
    lab: Lab, ipe: IpeClient, status: str, word: str
) -> None:
    debt = ipe.debt(STRANGER)
    ipe.issue(debt)
    lab.done("POST", "/proposals/advance", {"status": status, "provider": "ipe"})
    assert (ipe.status(debt)["status"], ipe.status(debt)["signature"]) == (word, None)
    assert lab.send("POST", "/steps/approve").status_code == 409
    assert lab.send("POST", "/proposals/advance", {"status": "withdrawn"}).status_code == 409


def test_a_fault_meets_this_holders_next_call_only(lab: Lab, ipe: IpeClient) -> None:
    ordered = lab.done("POST", "/faults", {"provider": "ipe", "fault": "http_502", "operation": "query"})
    expected = {"provider": "ipe", "fault": "http_502", "operation": "query"}
    assert ordered == {"faults": [{**expected, "latency_ms": 0, "times": 1, "reason": None}]}
    assert ipe.query(FULL_FLOW).status_code == 200
    assert ipe.query(STRANGER).status_code == 502
    assert lab.done("GET", "/faults") == {"faults": []}
    assert ipe.query(STRANGER).status_code == 200
    lab.done("POST", "/faults", {"provider": "ipe", "fault": "http_502", "times": 5})
    lab.done("POST", "/faults", {"provider": "ipe", "fault": "reject_submit", "words": "Chuva em Marte"})
    lab.done("DELETE", "/faults")
    assert lab.done("GET", "/faults") == {"faults": []}
    assert ipe.query(STRANGER).status_code == 200


def test_submissions_are_refused_as_often_as_ordered(lab: Lab, ipe: IpeClient) -> None:
    order = {"provider": "ipe", "fault": "reject_submit", "reason": "invalid_account", "times": 2}
    expected = {**order, "latency_ms": 0, "operation": "submit"}
    assert lab.done("POST", "/faults", order) == {"faults": [expected]}
    assert len(ipe.query(STRANGER).json()["simulations"]) == 2, "a query uses nothing up"
    for left in ([{**expected, "times": 1}], []):
        refused = ipe.post("/debts", ipe.submission(cpf=STRANGER))
        assert (refused.status_code, refused.json()["translation"]) == (422, "conta de credito invalida")
        assert lab.done("GET", "/faults")["faults"] == left
    assert ipe.debt(STRANGER)["status"] == "pending_formalization"


def test_a_time_out_holds_one_call(lab: Lab, ipe: IpeClient) -> None:
    lab.done("POST", "/faults", {"provider": "ipe", "fault": "timeout"})
    with pytest.raises(requests.ReadTimeout):
        ipe.send(ipe.dialect.call_to("query"), json={"borrower": {"document_number": STRANGER}}, timeout=0.2)
    assert ipe.query(STRANGER).status_code == 200


def test_a_fault_is_used_up_only_by_a_call_that_it_changed(lab: Lab, ipe: IpeClient) -> None:
    """Before the fix, `without_cet` was spent on a call with a dead token, and `unknown_outcome` on a refused one."""
    submission = ipe.submission(cpf=STRANGER)
    for fault in ("without_cet", "unknown_outcome"):
        lab.done("POST", "/faults", {"provider": "ipe", "fault": fault})
    good, ipe.token = ipe.token, "dead"
    assert [ipe.query(STRANGER).status_code, ipe.post("/debts", submission).status_code] == [401, 401]
    ipe.token = good
    assert ipe.post("/debts", {**submission, "simulation_key": "gone"}).status_code == 404
    assert {each["fault"]: each["times"] for each in lab.done("GET", "/faults")["faults"]} == {
        "without_cet": 1,
        "unknown_outcome": 1,
    }
    assert "cet" not in ipe.query(STRANGER).json()["simulations"][0]
    with pytest.raises(requests.ConnectionError):
        ipe.post("/debts", submission)
    assert lab.done("GET", "/faults") == {"faults": []}
    [proposal] = lab.done("GET", "/proposals")["proposals"]
    assert ipe.post("/debts", submission).json()["debt_key"] == proposal["contract"]


@pytest.mark.parametrize(("scenario", "is_taken"), [("submit_unknown", True), ("submit_unavailable", False)])
def test_a_scenario_fails_the_first_submission_of_an_offer(
    simulator: Simulator, ipe: IpeClient, scenario: str, is_taken: bool
) -> None:
    """What the service makes of such a failure at each bank: tests/faults/test_submission.py."""
    submission = ipe.submission(cpf=HOLDERS[scenario])
    if is_taken:
        with pytest.raises(requests.ConnectionError):
            ipe.submit(submission)
    else:
        assert ipe.submit(submission).status_code == 503
    assert len(simulator.contracts("ipe")) == is_taken
    assert ipe.submit(submission).ok
    assert len(simulator.contracts("ipe")) == 1


def test_a_link_expires_and_formalizing_gives_another(lab: Lab, ipe: IpeClient) -> None:
    debt = ipe.debt(STRANGER)
    old = ipe.issue(debt).json()["signature"]["url"]
    lab.done("POST", "/faults", {"provider": "ipe", "fault": "expired_link"})
    assert ipe.issue(debt).json()["signature"]["url"] != old


def test_forgetting_one_holder_leaves_the_other(lab: Lab, ipe: IpeClient) -> None:
    mine, theirs = ipe.debt(STRANGER), ipe.debt(FULL_FLOW, "reference-2")
    links = [ipe.issue(debt).json()["signature"]["url"] for debt in (mine, theirs)]
    lab.done("DELETE")
    assert ipe.get(f"/debts/{mine['debt_key']}").status_code == 404
    assert ipe.status(theirs)["status"] == "waiting_signature", "the token, too, is still good"
    assert [lab.simulator.get(link).status_code for link in links] == [404, 200]


@pytest.mark.parametrize("cpf", ["90000000174", "9000000017", "11111111111", "９0000000175"])
def test_an_invalid_cpf_is_422(simulator: Simulator, cpf: str) -> None:
    answer = Lab(simulator, cpf).send("GET")
    assert (answer.status_code, answer.json()["field"]) == (422, "cpf")


@pytest.mark.parametrize(
    ("method", "path", "body", "field"),
    [
        ("PUT", "", {}, "scenario"),
        ("PUT", "", {"scenario": "unheard_of"}, "scenario"),
        ("POST", "/steps/approve", {"id": "unknown"}, "id"),
        ("POST", "/steps/approve", {"step": "dance"}, "step"),
        ("POST", "/proposals/advance", {"status": "created"}, "status"),
        ("POST", "/proposals/advance", {"status": "rejected", "reason": "timeout"}, "reason"),
        ("POST", "/proposals/advance", {"status": "expired", "reason": "no_margin"}, "reason"),
        ("POST", "/proposals/advance", {"status": "rejected", "reason": "no_margin", "words": "Não."}, "words"),
        ("POST", "/proposals/advance", {"status": "rejected", "words": " "}, "words"),
        ("POST", "/faults", {"provider": "ipe"}, "fault"),
        ("POST", "/faults", {"provider": "ipe", "fault": "expired_token"}, "fault"),
        ("POST", "/faults", {"provider": "ipe", "fault": "unknown_outcome", "operation": "query"}, "operation"),
        ("POST", "/faults", {"provider": "ipe", "fault": "timeout", "times": 0}, "times"),
        ("POST", "/faults", {"provider": "ipe", "fault": "timeout", "reason": "no_margin"}, "reason"),
        ("POST", "/faults", {"provider": "ipe", "fault": "reject_submit", "reason": "timeout"}, "reason"),
        ("POST", "/faults", {"provider": "ipe", "fault": "reject_submit", "operation": "query"}, "operation"),
        ("POST", "/faults", {"provider": "ipe", "fault": "reject_submit", "latency_ms": 5}, "latency_ms"),
        ("POST", "/faults", {"provider": "ipe", "fault": "without_cet", "operation": "submit"}, "operation"),
        ("POST", "/faults", {"provider": "cedro", "fault": "without_cet"}, "provider"),
    ],
)
def test_a_bad_order_is_422_and_names_the_field(lab: Lab, method: str, path: str, body: Any, field: str) -> None:
    answer = lab.send(method, path, body)
    assert (answer.status_code, answer.json()["field"]) == (422, field)


def test_a_field_that_is_null_counts_as_absent_and_the_reference_says_so(lab: Lab) -> None:
    """Before the fix, the reference did not allow null."""
    bodies = {
        path.removeprefix("/lab/holders/{cpf}"): methods["post"]["requestBody"]["content"]["application/json"]["schema"]
        for path, methods in lab.simulator.get("/lab/openapi.json").json()["paths"].items()
        if "post" in methods and "{cpf}" in path
    }
    given = {"/faults": {"provider": "ipe", "latency_ms": 1}, "/proposals/advance": {"status": "disbursed"}}
    for path, schema in bodies.items():
        body = dict.fromkeys(schema["properties"]) | given.get(path, {})
        jsonschema.validate(body, schema)
        assert lab.send("POST", path, body).status_code in (200, 409), path


def test_the_reference_names_every_route_and_loads_nothing_from_elsewhere(simulator: Simulator) -> None:
    told = simulator.get("/lab/openapi.json").json()
    app = create_app(Settings("http://simulator", "http://service", "token", 0))
    served = {
        (route.method, path)
        for route in app.router.routes()
        if route.resource is not None and route.resource.canonical.startswith("/lab/holders")
        for path in _verbs(route.resource.canonical)
        if route.method != "HEAD"
    }
    assert served == {
        (method.upper(), path)
        for path, methods in told["paths"].items()
        for method in methods
        if method != "parameters"
    }
    page = simulator.get("/lab").text
    assert "http://" not in page
    assert "https://" not in page
    for asset in ("swagger-ui.css", "swagger-ui-bundle.js", "favicon-32x32.png"):
        assert f"/lab/assets/{asset}" in page
        assert simulator.get(f"/lab/assets/{asset}").status_code == 200
    assert simulator.get("/lab/assets/LICENSE").status_code == 404


def _verbs(path: str) -> list[str]:
    if "{verb}" not in path:
        return [path]
    return [path.replace("{verb}", verb) for verb in ("approve", "refuse", "expire")]
