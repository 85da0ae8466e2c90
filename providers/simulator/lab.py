"""`/lab/`: the laboratory for partners' automated tests. No token; every order is about one CPF.

What is ordered for one CPF reaches no other: no clock is moved, no bank's token dropped, no bank-wide setting
changed. The reference of the routes is made in `lab_reference.py`.
"""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from aiohttp import web

from providers.simulator import catalogue
from providers.simulator.bank import Bank, iso
from providers.simulator.faults import Behaviour
from providers.simulator.lab_reference import Words, reference
from providers.simulator.ledger import DISBURSED_AFTER_S, ENDS, WAY, Contract, WrongState
from providers.simulator.messages import answer
from providers.simulator.orders import conflict, integer, no_such, order, refuse, sentence, word
from providers.simulator.world import STEPS, Step, World

VERBS = {"approve": "approved", "refuse": "refused", "expire": "expired"}
#: What a call meets, in the laboratory's words and in those of `faults.FAULTS`.
CALL_FAULTS = {"timeout": "hang", "http_502": "http_502", "unknown_outcome": "drop_after_accept"}
#: What is over at once instead.
ENDINGS = ("expired_offer", "expired_link")
FAULTS = (*CALL_FAULTS, *ENDINGS)
OPERATIONS = ("query", "submit", "formalize", "status", "cancel", "any")
STATUSES = (*WAY[1:], *ENDS)
#: Why a bank refuses a proposal: the codes that any bank has a sentence for.
REASONS = tuple(sorted({code for words in catalogue.REFUSALS.values() for code in words}))
LONGEST_WORDS = 200
LONGEST_LATENCY_MS = 60_000
HOLDERS_WITH_FAULTS = 20_000

_ASSETS = ("swagger-ui.css", "swagger-ui-bundle.js", "favicon-32x32.png")
_PAGE = (Path(__file__).parent / "templates" / "lab.html").read_text("utf-8")


class Lab:
    """The routes below `/lab`."""

    def __init__(self, world: World, banks: dict[str, Bank]) -> None:
        self._world = world
        self._banks = banks
        self._scenarios = {row["scenario"]: row["cpf"] for row in catalogue.HOLDERS}
        words = Words(
            banks=tuple(banks),
            scenarios=tuple(self._scenarios),
            steps=STEPS,
            statuses=STATUSES,
            faults=FAULTS,
            operations=OPERATIONS,
            longest_latency_ms=LONGEST_LATENCY_MS,
            disbursed_after_s=DISBURSED_AFTER_S,
            reasons=REASONS,
            longest_words=LONGEST_WORDS,
        )
        self._reference = reference(world.public_url, words)
        sidecar = find_spec("drf_spectacular_sidecar")
        if sidecar is None or sidecar.origin is None:
            raise ImportError("drf-spectacular-sidecar, which bears the reference's page, is not installed")
        self._assets = Path(sidecar.origin).parent / "static/drf_spectacular_sidecar/swagger-ui-dist"

    def add_to(self, app: web.Application) -> None:
        """Register the routes."""
        holder = "/lab/holders/{cpf}"
        app.router.add_get("/lab", self.to_page)
        app.router.add_get("/lab/", self.page)
        app.router.add_get("/lab/openapi.json", self.openapi)
        app.router.add_get("/lab/assets/{name}", self.asset)
        app.router.add_get(holder, self.holder)
        app.router.add_put(holder, self.play)
        app.router.add_delete(holder, self.forget)
        app.router.add_get(holder + "/steps", self.steps)
        app.router.add_post(holder + "/steps/{verb:approve|refuse|expire}", self.end_step)
        app.router.add_get(holder + "/proposals", self.proposals)
        app.router.add_post(holder + "/proposals/advance", self.advance)
        app.router.add_get(holder + "/faults", self.faults)
        app.router.add_post(holder + "/faults", self.fault)
        app.router.add_delete(holder + "/faults", self.clear_faults)

    # --- the reference

    async def to_page(self, _: web.Request) -> web.Response:
        raise web.HTTPFound("/lab/")

    async def page(self, _: web.Request) -> web.Response:
        """The reference in a browser; nothing is loaded from elsewhere."""
        return web.Response(text=_PAGE, content_type="text/html")

    async def openapi(self, _: web.Request) -> web.Response:
        return answer(self._reference)

    async def asset(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["name"]
        if name not in _ASSETS:
            raise no_such("arquivo")
        return web.FileResponse(self._assets / name, headers={"Cache-Control": "public, max-age=86400"})

    # --- one holder

    async def holder(self, request: web.Request) -> web.Response:
        cpf = self._cpf(request)
        return answer(
            {
                "cpf": cpf,
                "scenario": self._scenario(cpf),
                "steps": self._steps(cpf),
                "proposals": self._proposals(cpf),
                "faults": self._faults(cpf),
            }
        )

    async def play(self, request: web.Request) -> web.Response:
        """The holder begins anew, in the part of a scenario."""
        cpf = self._cpf(request)
        scenario = word(await order(request, "scenario"), "scenario", self._scenarios, required=True)
        if cpf in self._scenarios.values():
            raise conflict("O cenário de um CPF do catálogo não muda: use outro CPF.")
        self._forget(cpf)
        self._world.play(cpf, self._scenarios[str(scenario)])
        return answer({"cpf": cpf, "scenario": scenario})

    async def forget(self, request: web.Request) -> web.Response:
        self._forget(self._cpf(request))
        return web.Response(status=204)

    def _forget(self, cpf: str) -> None:
        self._world.forget(cpf)
        for bank in self._banks.values():
            bank.forget_holder(cpf)

    # --- steps

    async def steps(self, request: web.Request) -> web.Response:
        return answer({"steps": self._steps(self._cpf(request))})

    async def end_step(self, request: web.Request) -> web.Response:
        """End the newest open step of those that the body describes."""
        cpf = self._cpf(request)
        body = await order(request, "provider", "step", "id")
        provider, kind = word(body, "provider", self._banks), word(body, "step", STEPS)
        known = [step.id for step in self._world.steps_of(cpf)]
        step_id = body.get("id")
        if step_id is not None and step_id not in known:
            refuse("id", "não é um passo deste CPF")
        for step in reversed(self._world.steps_of(cpf)):
            if step.status == "open" and (
                provider in (None, step.bank) and kind in (None, step.kind) and step_id in (None, step.id)
            ):
                self._world.end_step(step, VERBS[request.match_info["verb"]])
                return answer(_step(step))
        raise conflict("Não há passo aberto deste tipo para este CPF.")

    # --- proposals

    async def proposals(self, request: web.Request) -> web.Response:
        return answer({"proposals": self._proposals(self._cpf(request))})

    async def advance(self, request: web.Request) -> web.Response:
        """Advance the newest proposal of those that the body describes."""
        cpf = self._cpf(request)
        body = await order(request, "status", "provider", "contract", "reason", "words")
        status = str(word(body, "status", STATUSES, required=True))
        reason, words = word(body, "reason", REASONS), sentence(body, "words", LONGEST_WORDS)
        if (reason or words) and status != "rejected":
            refuse("reason" if reason else "words", "só com status rejected")
        if reason and words:
            refuse("words", "informe reason ou words, não os dois")
        provider, wanted = word(body, "provider", self._banks), body.get("contract")
        for bank, contract in reversed(self._contracts(cpf)):
            if provider in (None, bank.name) and wanted in (None, contract.id):
                try:
                    bank.ledger.advance(contract, status, words or _sentence_of(bank, reason))
                except WrongState as wrong:
                    raise conflict(f"A proposta está {wrong}: não chega a {status}.") from None
                return answer(_proposal(bank, contract))
        raise conflict("Não há proposta assim para este CPF.")

    # --- faults

    async def faults(self, request: web.Request) -> web.Response:
        return answer({"faults": self._faults(self._cpf(request))})

    async def fault(self, request: web.Request) -> web.Response:
        """What one bank does at its next calls about this holder, or what is over at once."""
        cpf = self._cpf(request)
        body = await order(request, "provider", "fault", "latency_ms", "operation", "times")
        bank = self._banks[str(word(body, "provider", self._banks, required=True))]
        fault = word(body, "fault", FAULTS)
        latency_ms = integer(body, "latency_ms", 0, LONGEST_LATENCY_MS) or 0
        operation, times = word(body, "operation", OPERATIONS), integer(body, "times", 1, 1000) or 1
        if fault is None and not latency_ms:
            refuse("fault", "informe fault ou latency_ms")
        if fault == "expired_offer":
            bank.expire_offers(cpf)
        elif fault == "expired_link":
            for step in self._world.steps_of(cpf):
                if step.bank == bank.name and step.url is not None:
                    self._world.end_step(step, "expired")
        else:
            if fault == "unknown_outcome" and operation not in (None, "submit"):
                refuse("operation", "unknown_outcome é sempre de submit")
            if fault == "unknown_outcome":
                operation = "submit"
            behaviours = bank.behaviours_of.setdefault(cpf, {})
            behaviours[operation or "any"] = Behaviour(
                latency_ms, CALL_FAULTS[fault] if fault else None, operation or "any", times
            )
            while len(bank.behaviours_of) > HOLDERS_WITH_FAULTS:
                del bank.behaviours_of[next(iter(bank.behaviours_of))]
        return answer({"faults": self._faults(cpf)})

    async def clear_faults(self, request: web.Request) -> web.Response:
        cpf = self._cpf(request)
        for bank in self._banks.values():
            bank.behaviours_of.pop(cpf, None)
        return web.Response(status=204)

    # --- what there is

    def _cpf(self, request: web.Request) -> str:
        """The CPF of the address; whatever is due by the clock is done first."""
        cpf = request.match_info["cpf"]
        if not _is_cpf(cpf):
            refuse("cpf", "11 dígitos com dígitos verificadores válidos")
        self._world.clock.run_due()
        return cpf

    def _scenario(self, cpf: str) -> str | None:
        played = self._world.plays(cpf)
        return next((name for name, holder in self._scenarios.items() if holder == played), None)

    def _steps(self, cpf: str) -> list[dict[str, Any]]:
        return [_step(step) for step in reversed(self._world.steps_of(cpf))]

    def _contracts(self, cpf: str) -> list[tuple[Bank, Contract]]:
        found = [(bank, contract) for bank in self._banks.values() for contract in bank.ledger.of_holder(cpf)]
        return sorted(found, key=lambda each: each[1].created_at)

    def _proposals(self, cpf: str) -> list[dict[str, Any]]:
        return [_proposal(bank, contract) for bank, contract in reversed(self._contracts(cpf))]

    def _faults(self, cpf: str) -> list[dict[str, Any]]:
        words = {bank_word: own for own, bank_word in CALL_FAULTS.items()}
        return [
            {
                "provider": bank.name,
                "fault": words.get(each.fault or ""),
                "latency_ms": each.latency_ms,
                "operation": each.operation,
                "times": each.times,
            }
            for bank in self._banks.values()
            for each in bank.behaviours_of.get(cpf, {}).values()
            if each.times
        ]


def _step(step: Step) -> dict[str, Any]:
    return {
        "id": step.id,
        "provider": step.bank,
        "step": step.kind,
        "status": step.status,
        "url": step.url,
        "opened_at": iso(step.opened_at),
        "expires_at": iso(step.expires_at) if step.expires_at else None,
        "ended_at": iso(step.ended_at) if step.ended_at else None,
    }


def _proposal(bank: Bank, contract: Contract) -> dict[str, Any]:
    return {
        "provider": bank.name,
        "contract": contract.id,
        "status": contract.status,
        "signature_url": contract.signature_url,
        "created_at": iso(contract.created_at),
    }


def _sentence_of(bank: Bank, reason: str | None) -> str | None:
    """The bank's own sentence for a refusal with the code `reason`. Raises 422 where it has none."""
    if reason is None:
        return None
    words = catalogue.REFUSALS.get(bank.name, {}).get(reason)
    if words is None:
        refuse("reason", f"{bank.name} não tem frase para este motivo")
    return words


def _is_cpf(text: str) -> bool:
    """Eleven digits, not all the same, of which the last two check those before them."""
    if re.fullmatch(r"\d{11}", text, re.ASCII) is None or len(set(text)) == 1:
        return False
    digits = [int(digit) for digit in text]
    return all(
        sum(digit * weight for digit, weight in zip(digits, range(n + 1, 1, -1), strict=False)) * 10 % 11 % 10
        == digits[n]
        for n in (9, 10)
    )
