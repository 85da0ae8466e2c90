"""The back office's search, and the page of one holder.

The search text is sent by POST: a CPF, or a session's id, which opens the holder's page, must not appear in a URL. Each
source is searched by an index, and only for operators who may view its rows.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_GET
from unfold.widgets import UnfoldAdminTextInputWidget

from authorizations.models import Session
from consultas.models import Offer, Query, Step
from foundation import audit
from foundation.backoffice.pages import list_of, page, page_of
from foundation.encryption import blind_index
from foundation.formats import cpf_is_valid, mask_cpf, only_digits, to_reais_text
from partners.failed_calls import FailedCall
from partners.models import SECRETS_OF_PARTNER, ApiKey, Partner
from proposals.models import Erasure, Proposal
from providers import registry
from webhooks.admin import shown
from webhooks.models import Event, reference_index

#: The maximum number of rows of one kind on a page. The list shows the others.
MOST = 20
_LONGEST = 128
_CPF_DIGITS = 11
_CPF = re.compile(r"[\d.\-\s]{11,16}", re.ASCII)
_INDEX = re.compile(r"[0-9a-f]{64}", re.ASCII)


@dataclass(frozen=True)
class Found:
    """One result: its kind, its time, its partner, its name, and its state in words."""

    what: str
    name: str
    state: str
    partner: str
    at: datetime | None
    address: str


@dataclass(frozen=True)
class Source:
    """A kind of row, and how a row is shown: `describe` gives its name and its state. `page` is the route of a row's
    page if it is not the admin's."""

    model: type[Model]
    describe: Callable[[Any], tuple[str, str]]
    at: str
    unread: tuple[str, ...] = ()
    page: str = ""

    def is_for(self, request: HttpRequest) -> bool:
        """True for an operator who may view this kind of row."""
        return admin.site.get_model_admin(self.model).has_view_permission(request)

    def rows_of(self, text: str) -> list[Found]:
        """The newest rows that `text` identifies."""
        pages: Any = admin.site.get_model_admin(self.model)
        return self.rows(*pages.identified_by(text))

    def rows(self, *wanted: Q) -> list[Found]:
        """The newest rows that meet any of the `wanted` conditions: a query for each, so that its index is used."""
        by_key: dict[Any, Any] = {}
        for condition in wanted:
            for row in self._all().filter(condition).order_by(f"-{self.at}")[:MOST]:
                by_key[row.pk] = row
        newest = sorted(by_key.values(), key=lambda row: getattr(row, self.at), reverse=True)
        return [self.found(row) for row in newest[:MOST]]

    def _all(self) -> QuerySet[Any]:
        rows = self.model._default_manager.defer(*self.unread)
        has_partner = hasattr(self.model, "partner")
        return rows.select_related("partner").defer(*SECRETS_OF_PARTNER) if has_partner else rows

    def found(self, row: Any) -> Found:
        name, state = self.describe(row)
        partner = getattr(row, "partner", None)
        address = reverse(self.page, args=[row.pk]) if self.page else page_of(row)
        what = str(self.model._meta.verbose_name)
        return Found(what, name, state, str(partner or ""), getattr(row, self.at), address)


def _session(row: Session) -> tuple[str, str]:
    return f"sessão {row.pk}", row.get_status_display()


def _proposal(row: Proposal) -> tuple[str, str]:
    is_accepted = row.submission == Proposal.Submission.ACCEPTED
    submission = "" if is_accepted else f", envio: {row.get_submission_display()}"
    return str(row.pk), f"{registry.label(row.provider)}: {row.status_in_words}{submission}"


def _offer(row: Offer) -> tuple[str, str]:
    return str(row.pk), f"{registry.label(row.provider)}: R$ {to_reais_text(row.loan_value)} em {row.installments}x"


def _query(row: Query) -> tuple[str, str]:
    return f"{row.pk} ({row.get_kind_display()})", "concluída" if row.finished_at else "em andamento ou interrompida"


PARTNERS = Source(Partner, lambda row: (row.name, row.get_status_display()), "created_at", page="partner")
KEYS = Source(ApiKey, lambda row: (str(row), "revogada" if row.revoked_at else row.label), "created_at")
FAILED = Source(
    FailedCall, lambda row: (f"{row.method} {row.route}", f"{row.status} {row.code} {row.field}".strip()), "at"
)
QUERIES = Source(Query, _query, "created_at", unread=("answers",))
OFFERS = Source(Offer, _offer, "refreshed_at", unread=("native",))
STEPS = Source(Step, lambda row: (str(row), row.get_state_display()), "opened_at")
SESSIONS = Source(Session, _session, "created_at")
PROPOSALS = Source(Proposal, _proposal, "created_at", unread=("data", "next_dataset", "signature_url"))
EVENTS = Source(
    Event, lambda row: (f"{row.name} {shown(row)}", row.get_state_display()), "created_at", unread=("body",)
)
ERASURES = Source(Erasure, lambda row: (str(row), f"por {row.by}"), "at")
#: What a text is looked for in, in the order of the results.
_SEARCHED = (PARTNERS, KEYS, PROPOSALS, OFFERS, QUERIES, SESSIONS, EVENTS, FAILED)
#: What is shown of a holder.
_OF_HOLDER = (SESSIONS, QUERIES, STEPS, OFFERS, PROPOSALS, EVENTS, ERASURES)


class SearchForm(forms.Form):
    what = forms.CharField(
        label="O que procurar",
        max_length=_LONGEST,
        widget=UnfoldAdminTextInputWidget(attrs={"autocomplete": "off", "spellcheck": "false"}),
        help_text="CPF; X-Request-Id; id de proposta, oferta, consulta, evento, sessão ou parceiro; grupo de "
        "simulação; authorization_id; registro de um comprovante; referência do parceiro; id no banco; número do "
        "contrato; prefixo de uma chave; CNPJ de um parceiro. Sempre inteiro; do nome de um parceiro bastam três "
        "letras. O que for digitado aqui não aparece em endereços nem em registros.",
    )


def search(request: HttpRequest) -> HttpResponse:
    """The search form and its results. A CPF redirects to the holder's page, a single result to its own."""
    form = SearchForm(request.POST if request.method == "POST" else None)
    results: list[Found] = []
    is_mistyped = False
    if form.is_valid():
        what = form.cleaned_data["what"]
        if _CPF.fullmatch(what) and cpf_is_valid(only_digits(what)):
            index = blind_index("cpf", only_digits(what))
            audit.record(audit.Action.SEARCHED, request=request, obj=audit.Subject(Query, index))
            return HttpResponseRedirect(f"{reverse('holder')}?cpf_index={index}")
        is_mistyped = bool(_CPF.fullmatch(what)) and len(only_digits(what)) == _CPF_DIGITS
        results = [row for source in _SEARCHED if source.is_for(request) for row in source.rows_of(what)]
        if len(results) == 1:
            return HttpResponseRedirect(results[0].address)
    return page(
        request,
        "admin/search.html",
        "Busca",
        form=form,
        found=results,
        is_mistyped=is_mistyped,
        nothing=form.is_bound and not results and not form.errors,
        most=MOST,
    )


@require_GET
def holder(request: HttpRequest) -> HttpResponse:
    """Everything about one holder, with a masked CPF. The URL contains the keyed hash of the CPF."""
    index = request.GET.get("cpf_index", "")
    sources = [each for each in _OF_HOLDER if each.is_for(request)] if _INDEX.fullmatch(index) else []
    cpf = _cpf_of(index) if any(each not in (EVENTS, ERASURES) for each in sources) else None
    return page(
        request,
        "admin/holder.html",
        f"Titular {mask_cpf(cpf)}" if cpf else "Titular",
        sections=[section for section in (_section(each, index) for each in sources) if section["rows"]],
    )


def _section(source: Source, index: str) -> dict[str, Any]:
    """The rows of one kind about one holder. `more` is the address of the complete list. Events do not bear the CPF's
    hash, so no list has those of a holder."""
    mine = Q(cpf_index=index)
    if source is EVENTS:
        mine = Q(reference_index__in=[reference_index(text) for text in _references(index)])
    rows = source.rows(mine)
    more = list_of(source.model, f"cpf_index={index}") if len(rows) == MOST and source is not EVENTS else None
    return {"title": str(source.model._meta.verbose_name_plural), "rows": rows, "more": more}


def _references(index: str) -> Iterable[str]:
    """The references of events about the holder: the CPF, queries, sessions and proposals."""
    if cpf := _cpf_of(index):
        yield cpf
    newest = Query.objects.filter(cpf_index=index).order_by("-created_at")
    yield from map(str, newest.values_list("pk", flat=True)[:MOST])
    yield from Session.objects.filter(cpf_index=index).values_list("authorization_id", flat=True)[:MOST]
    yield from map(str, Proposal.objects.filter(cpf_index=index).values_list("pk", flat=True)[:MOST])


def _cpf_of(index: str) -> str | None:
    """The holder's CPF, from the newest row that stores it: for its masked form, and to find events by it."""
    query = Query.objects.filter(cpf_index=index).only("request").order_by("-created_at").first()
    if query is not None:
        return str(query.request["cpf"])
    session = Session.objects.filter(cpf_index=index, erased_at=None).only("cpf").order_by("-created_at").first()
    return session.cpf if session is not None else None
