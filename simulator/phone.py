"""The holder's side: the phone with its messages, and the pages behind the URLs.

Nothing here belongs to a bank's API. Every button does what the holder would do and redirects with 303.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from html import escape
from pathlib import Path
from string import Template

from aiohttp import web

from simulator import catalogue
from simulator.world import Message, Step, World

BRASILIA = timezone(timedelta(hours=-3))
BACK_TO = ("link", "phone")

TITLES = {
    "liveness": "Prova de vida",
    "chat": "Autorização por mensagem",
    "sms": "Autorização por SMS",
    "confirmation": "Confirmação da autorização",
    "signature": "Assinatura do contrato",
}
EXPLANATIONS = {
    "liveness": "O banco precisa confirmar que é você. Olhe para a câmera e siga as instruções.",
    "chat": "Envie a mensagem ao banco para autorizar a consulta dos seus dados de folha.",
    "sms": "Responda ao SMS do banco para autorizar a consulta dos seus dados de folha.",
    "confirmation": "O banco pede uma confirmação a mais para consultar os seus dados de folha.",
    "signature": "Leia o contrato e assine para receber o crédito.",
}
# the labels of the two buttons: approve, refuse
BUTTONS = {
    "liveness": ("Fazer a prova de vida", "Falhar na prova de vida"),
    "chat": ("Enviar a mensagem", "Recusar"),
    "sms": ("Responder SIM", "Responder NÃO"),
    "confirmation": ("Confirmar", "Não confirmar"),
    "signature": ("Assinar o contrato", "Recusar a assinatura"),
}
STATES = {"open": "Pendente", "approved": "Concluída", "refused": "Recusada", "expired": "Expirada"}
CHANNELS = {"sms": "SMS", "chat": "Mensagem"}
HEADERS = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}


def _template(name: str) -> Template:
    return Template((Path(__file__).parent / "templates" / name).read_text("utf-8"))


_LAYOUT, _PHONE, _STEP, _INDEX = map(_template, ("layout.html", "phone.html", "step.html", "index.html"))


class Phone:
    """Routes `/`, `/phone/{cpf}` and `/links/{token}`."""

    def __init__(self, world: World) -> None:
        self._world = world

    def add_to(self, app: web.Application) -> None:
        """Register the routes."""
        app.router.add_get("/", self.index)
        app.router.add_get("/phone/{cpf}", self.phone)
        app.router.add_get("/links/{token}", self.link)
        app.router.add_post("/links/{token}", self.act)

    async def index(self, _: web.Request) -> web.Response:
        """The catalogue: each holder with a link to the phone."""
        rows = "".join(
            f'<li><a href="/phone/{row["cpf"]}">{row["cpf"]}</a> <b>{escape(row["scenario"])}</b>'
            f'<p lang="en">{escape(row["description"])}</p></li>'
            for row in catalogue.HOLDERS
        )
        return _page("Bancos simulados", _INDEX.substitute(rows=rows))

    async def phone(self, request: web.Request) -> web.Response:
        """All messages and URLs of a holder, newest first. The service's text messages are shown under their phone
        number."""
        self._world.clock.run_due()
        cpf = request.match_info["cpf"]
        messages = "".join(
            _message(message, self._world.titles[message.bank]) for message in reversed(self._world.messages(cpf))
        )
        steps = "".join(
            _step(step, self._world.titles[step.bank], back_to="phone") for step in self._world.steps_on_phone(cpf)
        )
        return _page(
            "Celular do titular",
            _PHONE.substitute(
                cpf=escape(cpf),
                messages=messages or '<li class="none">Nenhuma mensagem.</li>',
                steps=steps or '<li class="none">Nenhum link.</li>',
            ),
        )

    async def link(self, request: web.Request) -> web.Response:
        """The page behind a URL from the API."""
        self._world.clock.run_due()
        step = self._step(request)
        if step.url is None:
            raise _not_found()
        bank = self._world.titles[step.bank]
        return _page(TITLES[step.kind], _STEP.substitute(bank=escape(bank), step=_step(step, bank, back_to="link")))

    async def act(self, request: web.Request) -> web.Response:
        """A button was pressed. If the step has already ended, nothing changes and the page shows how it ended."""
        self._world.clock.run_due()
        step = self._step(request)
        form = await request.post()
        outcome = form.get("outcome", "approved")
        if outcome not in ("approved", "refused"):
            raise web.HTTPUnprocessableEntity(text="outcome")
        self._world.end_step(step, str(outcome))
        to_phone = form.get("back_to") == "phone" or step.url is None
        raise web.HTTPSeeOther(f"/phone/{step.cpf}" if to_phone else f"/links/{step.token}")

    def _step(self, request: web.Request) -> Step:
        step = self._world.steps.get(request.match_info["token"])
        if step is None or step.kind not in TITLES:
            raise _not_found()
        return step


def _not_found() -> web.HTTPNotFound:
    page = _page("Link desconhecido", "<main><h1>Link desconhecido</h1></main>")
    return web.HTTPNotFound(body=page.body, content_type="text/html", headers=HEADERS)


def _page(title: str, body: str) -> web.Response:
    return web.Response(
        text=_LAYOUT.substitute(title=escape(title), body=body), content_type="text/html", headers=HEADERS
    )


def _message(message: Message, bank: str) -> str:
    link = ""
    if message.url:
        link = f' <a href="{escape(message.url)}">Abrir o link</a>'
    return (
        f'<li class="message {message.channel}" data-bank="{message.bank}" data-channel="{message.channel}">'
        f"<small>{CHANNELS[message.channel]} · {escape(bank)} · {_time(message.at)}</small>"
        f"<p>{escape(message.text)}{link}</p></li>"
    )


def _step(step: Step, bank: str, *, back_to: str) -> str:
    buttons = ""
    if step.status == "open":
        approve, refuse = BUTTONS[step.kind]
        buttons = (
            f'<form method="post" action="/links/{step.token}">'
            f'<input type="hidden" name="back_to" value="{back_to}">'
            f'<button name="outcome" value="approved">{approve}</button>'
            f'<button name="outcome" value="refused" class="refuse">{refuse}</button></form>'
        )
    link = ""
    if step.url and back_to == "phone":
        link = f'<p><a href="{escape(step.url)}">Abrir o link</a></p>'
    return (
        f'<li class="step {step.status}" data-bank="{step.bank}" data-step="{step.kind}"'
        f' data-status="{step.status}"><small>{escape(bank)} · {_time(step.opened_at)}</small>'
        f' <span class="state">{STATES[step.status]}</span>'
        f"<h3>{TITLES[step.kind]}</h3><p>{EXPLANATIONS[step.kind]}</p>{link}{buttons}</li>"
    )


def _time(moment: datetime) -> str:
    return moment.astimezone(BRASILIA).strftime("%d/%m/%Y %H:%M")
