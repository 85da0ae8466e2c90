"""`make demo`: a guided tour of a running service. Prints and checks every request and answer; exit code 1 if an answer
differs from what the tour says.

The tour acts as a partner's backend at BASE_URL (default: 127.0.0.1 at PORT), as the operator through `manage.py`, and
as the holder through the simulator's laboratory (SIMULATOR_URL, default: 127.0.0.1 at SIMULATOR_PORT). It needs a
sandbox. Its holders have new CPFs, so no other steps and proposals are affected. At the end its partner is suspended,
and the simulated banks forget its holders.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from operator import mul
from pathlib import Path
from typing import Any

import environ
import requests

from bench.backend import TIMEOUT_S, Caller, Receiver
from bench.narration import NotAsShown, expect, say, show, table, title
from providers import registry

ROOT = Path(__file__).resolve().parent.parent
BANKS = registry.names()
CATALOGUE = json.loads((ROOT / "simulator" / "catalogue.json").read_text(encoding="utf-8"))
OWN = registry.AUCTION_BANK.name
(BIOMETRIC,) = next(row["banks"] for row in CATALOGUE["scenarios"] if row["scenario"] == "biometric")
HOLDER = {
    "nome": "Maria Teste da Silva",
    "data_nascimento": "1985-03-14",
    "telefone": "11987654321",
    "email": "maria.teste@example.com",
}
WHERE = {"client_ip": "203.0.113.7", "geolocation": {"lat": -23.55052, "lng": -46.633308}}


class Tour:
    """The whole tour in order. Every method is a chapter."""

    def __init__(self, api: str, simulator: str) -> None:
        self.api, self.simulator = api, simulator
        self.receiver = Receiver()
        self.cpfs: dict[str, str] = {}  # by scenario

    def run(self) -> None:
        """Raises NotAsShown, and the exceptions of requests if the service or simulator cannot be reached."""
        with self.registration() as partner, self.holders("full_flow", "biometric", "no_offers", f"success_{OWN}"):
            self.aggregated(partner)
            self.by_value(partner)
            self.streamed(partner)
            self.one_bank(partner)
            self.why_not(partner)
            self.biometrics(partner)
            self.auction(partner)
            self.refusal(partner)
            self.proposal(partner)
            self.authorization(partner)

    # --- The operator and the holder --------------------------------------------------------------------------

    @contextmanager
    def registration(self) -> Iterator[Caller]:
        """Create a partner for the tour whose webhooks come to the tour. Suspended at the end."""
        title("The operator registers a partner")
        ready = requests.get(f"{self.api}/health/ready", timeout=TIMEOUT_S).json()
        expect(ready["status"] == "ok", f"the service at {self.api} is ready")
        registered = manage(
            "create_partner",
            "Demonstração",
            *("--providers", ",".join(BANKS)),
            *("--webhook-url", self.receiver.url),
            *("--events", "lead,authorization_result,authorization.completed,proposal"),
        )
        self.receiver.secret = registered["webhook_secret"]
        try:
            yield Caller(self.api, registered["api_key"])
        finally:
            say()
            manage("suspend_partner", registered["partner_id"])

    @contextmanager
    def holders(self, *scenarios: str) -> Iterator[None]:
        """Create a holder for each scenario. The simulated banks forget them at the end."""
        say()
        say("The laboratory of the simulated banks lends the tour holders of its own:")
        self.cpfs = {scenario: _fresh_cpf() for scenario in scenarios}
        try:
            for scenario in scenarios:
                self.lab("PUT", scenario, body={"scenario": scenario})
            yield
        finally:
            for scenario in scenarios:
                self.lab("DELETE", scenario, quiet=True)

    def lab(self, method: str, scenario: str, path: str = "", body: Any = None, *, quiet: bool = False) -> None:
        """Command the laboratory about one holder: what the banks do, or what the holder does."""
        address = f"/lab/holders/{self.cpfs[scenario]}{path}"
        if not quiet:
            say(f"simulated banks: {method} {address} {json.dumps(body) if body else ''}".rstrip(), "35")
        answer = requests.request(method, self.simulator + address, json=body, timeout=TIMEOUT_S)
        if not answer.ok:
            raise NotAsShown(f"the simulator takes {method} {address}: HTTP {answer.status_code} {answer.text}")

    def completes(self, scenario: str, provider: str, step: str) -> None:
        self.lab("POST", scenario, "/steps/approve", {"provider": provider, "step": step})

    # --- Queries --------------------------------------------------------------------------------------------------

    def aggregated(self, partner: Caller) -> None:
        title("One query, every bank")
        body = {"cpf": self.cpfs["full_flow"], **HOLDER, **WHERE}
        first = partner.call("POST", "/consultas", body)
        table([[offer["provider"], _reais(offer["loanValue"]), _terms(offer)] for offer in first["proposals"]])
        expect(_statuses(first) == dict.fromkeys(BANKS, "ok"), f"{len(BANKS)} banks have offers")
        expect(all(offer["offerId"] for offer in first["proposals"]), "every offer bears the offerId to submit it by")
        lead = self.receiver.wait_for("lead")
        expect(lead["simulation_group_id"] == first["simulationGroupId"], "the lead names this simulation")

        say("The same query again within 60 seconds:")
        again = partner.call("POST", "/consultas", body)
        expect(
            again["simulationGroupId"] == first["simulationGroupId"],
            "the simulation is the same one: settled answers are reused",
        )
        expect(_ids(again) == _ids(first), "the offers kept their ids")

    def by_value(self, partner: Caller) -> None:
        title("By value: more than a bank gives is adjusted, and the answer says how")
        wish = {"loan_value": 20000.00, "prazo": 60, "with_insurance": False, "providers": [OWN, BIOMETRIC]}
        body = partner.call("POST", "/consultas", {"cpf": self.cpfs["full_flow"], **HOLDER, **WHERE, **wish})
        for offer in body["proposals"]:
            say(f"{offer['provider']}: {_terms(offer)}: {' '.join(offer['adjustments'])}")
        expect(len(body["proposals"]) == 2, "one offer of each of the two banks, without insurance")
        expect(all(offer["adjusted"] for offer in body["proposals"]), "both are adjusted")

    def streamed(self, partner: Caller) -> None:
        title("Streamed: each bank's answer as it lands")
        say("The simulated banks are told to take their time, each 200 ms more than the one before.", "35")
        for position, bank in enumerate(BANKS):
            slow = {"provider": bank, "latency_ms": 200 * position, "operation": "query"}
            if position:
                self.lab("POST", "full_flow", "/faults", slow, quiet=True)
        events = []
        for at_ms, event in partner.stream({"cpf": self.cpfs["full_flow"], **HOLDER, **WHERE}):
            offers = f"{len(event['proposals'])} offers" if "proposals" in event else event.get("message", "")
            say(f"  {at_ms:6.0f} ms  {event['event']:<16}{event.get('provider', ''):<10}{offers}".rstrip())
            events.append((event["event"], event.get("provider")))
        begun = [("start", None), *(("provider_start", bank) for bank in BANKS)]
        expect(events[: len(begun)] == begun, "every bank is announced first")
        results = sorted(events[len(begun) : -1], key=str)
        expect(results == [("provider_result", bank) for bank in BANKS], "then comes one result of each")
        expect(events[-1] == ("complete", None), "complete comes last")

    def one_bank(self, partner: Caller) -> None:
        title("One bank")
        body = partner.call(
            "POST", f"/providers/{OWN}/consultas", {"cpf": self.cpfs[f"success_{OWN}"], **HOLDER, **WHERE}
        )
        expect(body["status"] == "ok" and len(body["offers"]) == 2, "the bank has two offers")

    def why_not(self, partner: Caller) -> None:
        title("No offer: every bank says why, as data")
        body = partner.call("POST", "/consultas", {"cpf": self.cpfs["no_offers"], **HOLDER, **WHERE})
        codes = {reason["code"] for result in body["providerResults"].values() for reason in result["reasons"]}
        expect(codes == {"no_margin"}, "the same code at every bank, whatever its words")
        say("An offer that the bank drops before it is submitted:")
        query = {"cpf": self.cpfs["full_flow"], **HOLDER, **WHERE, "providers": [OWN], "loan_value": 4000.00}
        offer = partner.call("POST", "/consultas", query)["proposals"][0]
        self.lab("POST", "full_flow", "/faults", {"provider": OWN, "fault": "expired_offer"})
        newer = partner.call("POST", "/consultas", query | {"loan_value": 3900.00})
        body = partner.call("POST", "/proposals", dataset(self.cpfs["full_flow"], offer), status=409)
        expect(body["reason"]["code"] == "offer_expired", "the error says why")
        expect(body["replacement"]["offerId"] in _ids(newer), "and names the nearest offer of the newer query")

    def biometrics(self, partner: Caller) -> None:
        title("A pending step: the bank wants to see the holder")
        body = {"cpf": self.cpfs["biometric"], **HOLDER, **WHERE}
        before = partner.call("POST", f"/providers/{BIOMETRIC}/consultas", body)
        expect(before["status"] == "requires_action" and not before["offers"], "the bank has no offer yet")
        expect(before["action"]["type"] == "biometria", "the partner gets the link for the holder")
        say("The holder opens the link and looks into the camera:")
        self.completes("biometric", BIOMETRIC, "liveness")
        result = self.receiver.wait_for("authorization_result", provider=BIOMETRIC, status="approved")
        after = partner.call("POST", "/consultas", body | {"providers": [BIOMETRIC]})
        expect(_ids(after) == {offer["offerId"] for offer in result["offers"]}, "a new query shows the same offers")

    def auction(self, partner: Caller) -> None:
        title("Auction look-up: nothing is created at the bank")
        keys = CATALOGUE["auction_keys"]
        record = partner.call("GET", f"/auction-proposals/{keys['found']}")
        bid = record["proposal"]["proposal_data"]["disbursed_issue_amount"]
        expect(bid != record["disbursed_issue_amount"], f"the bid is {_reais(bid)}, not what the worker asked for")
        unknown = partner.call("GET", f"/auction-proposals/{keys['unknown']}", status=404)
        expect(unknown["code"] == "not_found", "an unknown key is not_found")

    def refusal(self, partner: Caller) -> None:
        title("An error names every fault at once")
        body = {"cpf": "111.222.333-44", **HOLDER, **WHERE, "telefone": "+55 11 98765-4321", "email": ""}
        error = partner.call("POST", "/consultas", body, status=422)
        expect([each["field"] for each in error["details"]] == ["cpf", "telefone", "email"], "three fields are named")

    # --- Proposal -----------------------------------------------------------------------------------------------

    def proposal(self, partner: Caller) -> None:
        title("From the offer to the money")
        query = {"cpf": self.cpfs["full_flow"], **HOLDER, **WHERE, "providers": [OWN], "with_insurance": False}
        (offer,) = partner.call("POST", "/consultas", query)["proposals"]
        body = dataset(self.cpfs["full_flow"], offer)
        submitted = partner.call("POST", "/proposals", body, status=201)
        address = f"/proposals/{submitted['proposal_id']}"
        say("The same submission again, as after a lost connection:")
        repeated = partner.call("POST", "/proposals", body)
        expect(repeated["proposal_id"] == submitted["proposal_id"], "the bank got one proposal")

        formalized = partner.call("POST", f"{address}/formalize", {})
        expect(formalized["status"] == "awaiting_signature", "the contract awaits the holder's signature")
        expect(formalized["action"]["type"] == "signature", "the partner gets the link for the holder")
        say("The holder signs:")
        self.completes("full_flow", OWN, "signature")
        self.receiver.wait_for("proposal.disbursed", external_reference=submitted["proposal_id"])
        expect(partner.call("GET", address)["status"] == "disbursed", "the money is on its way to the holder")
        statuses = [each["status"] for each in self.receiver.events if each["event"].startswith("proposal.")]
        say("Moves told by webhook: " + ", ".join(statuses))

    # --- Authorization ----------------------------------------------------------------------------------------

    def authorization(self, partner: Caller) -> None:
        title("In a chat: the holder authorizes on the service's page")
        request = {"cpf": self.cpfs["full_flow"], "nome": HOLDER["nome"], "telefone": HOLDER["telefone"]}
        session = partner.call("POST", "/authorizations", request, status=201)
        name = session["authorization_id"]
        page = requests.get(session["url"], timeout=TIMEOUT_S)
        expect(page.ok and HOLDER["nome"] in page.text, "the page greets the holder; it is made for a phone: open it")
        say("The holder accepts (the page does the same without a program):")
        evidence = {
            "geolocation": {"lat": -23.55, "lng": -46.63, "accuracy": 20},
            "geolocation_status": "granted",
            "device": {"platform": "Android"},
        }
        Caller(self.api).call("POST", f"/authorizations/public/{name}/accept", evidence)
        self.receiver.wait_for("authorization.completed", authorization_id=name)
        accepted = partner.call("GET", f"/authorizations/{name}")
        expect(accepted["evidence"]["ip"] not in ("", None), "the evidence holds the address that the service saw")
        body = partner.call("POST", "/consultas", {"cpf": self.cpfs["full_flow"], **HOLDER, "authorization_id": name})
        expect(_statuses(body) == dict.fromkeys(BANKS, "ok"), "with authorization_id instead of client_ip, too")


def manage(*arguments: str) -> dict[str, Any]:
    """Run an operator's command against the service's database and return its JSON object. Raises NotAsShown."""
    say("manage.py " + " ".join(arguments), "1")
    command = [sys.executable, "manage.py", *arguments]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if process.returncode:
        raise NotAsShown(f"manage.py {arguments[0]} succeeds: {process.stderr.strip().splitlines()[-1]}")
    printed: dict[str, Any] = json.loads(process.stdout)
    show(printed)
    return printed


def _fresh_cpf() -> str:
    """A valid CPF that no other test uses."""
    digits = [random.randrange(10) for _ in range(9)]
    for weights in (range(10, 1, -1), range(11, 1, -1)):
        digits.append(sum(map(mul, digits, weights)) * 10 % 11 % 10)
    return "".join(map(str, digits))


def dataset(cpf: str, offer: dict[str, Any]) -> dict[str, Any]:
    """The supplementary data of a submission, complete enough for the service's own bank."""
    return {
        "offer_ref": {"provider": offer["provider"], "offer_id": offer["offerId"]},
        "titular": {
            "nome": HOLDER["nome"],
            "cpf": cpf,
            "data_nascimento": HOLDER["data_nascimento"],
            "sexo": "F",
            "nome_mae": "Ana Teste da Silva",
            "estado_civil": "casado",
            "exposicao_politica": False,
        },
        "documento": {"numero": "123456789", "orgao_emissor": "SSP", "uf_emissor": "SP", "data_emissao": "2005-06-01"},
        "contato": {"telefone": HOLDER["telefone"], "email": HOLDER["email"]},
        "endereco": {
            "cep": "01310-100",
            "logradouro": "Avenida Paulista",
            "numero": "1000",
            "bairro": "Bela Vista",
            "cidade": "São Paulo",
            "uf": "SP",
        },
        "recebimento": {"pix": {"tipo_chave": "cpf", "chave": cpf}},
        "evidencia": {"ip": WHERE["client_ip"]},
    }


def _statuses(body: dict[str, Any]) -> dict[str, str]:
    return {name: result["status"] for name, result in body["providerResults"].items()}


def _ids(body: dict[str, Any]) -> set[str]:
    return {offer["offerId"] for offer in body["proposals"]}


def _terms(offer: dict[str, Any]) -> str:
    insured = " with insurance" if offer["withInsurance"] else ""
    each, rate, cost = _reais(offer["installmentValue"]), offer["interestRate"], offer["cetComparableAnnual"]
    return f"{offer['installments']} x {each} at {rate:.2f} % a month{insured}, in all {cost:.2f} % a year"


def _reais(value: float) -> str:
    return f"R$ {value:,.2f}"


def main() -> int:
    """The exit code: 0 if everything was as shown."""
    environ.Env.read_env(ROOT / ".env")
    api = os.environ.get("BASE_URL") or f"http://127.0.0.1:{os.environ.get('PORT') or 8000}"
    simulator = os.environ.get("SIMULATOR_URL") or f"http://127.0.0.1:{os.environ.get('SIMULATOR_PORT') or 8100}"
    tour = Tour(api.rstrip("/"), simulator.rstrip("/"))
    try:
        tour.run()
    except NotAsShown as difference:
        say(f"✗ not as shown: {difference}", "1;31")
        return 1
    except requests.RequestException as fault:
        say(f"✗ out of reach: {fault}", "1;31")
        say(f"The tour needs a running service at {api} and its simulated banks at {simulator}: make run")
        return 1
    say()
    say("Everything was as shown.", "1;32")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
