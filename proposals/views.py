"""The proposal routes and the bank list."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.http import HttpRequest
from drf_spectacular.utils import extend_schema

from consultas import admission, pending
from foundation.errors import ApiError, InvalidState, NotFound
from foundation.json import Response, read_body
from foundation.validation import validated
from partners.views import ApiView, PartnerView
from proposals import actions, compe, envelope, requirements, schema, serializers, shapes, submission, sweep
from proposals.models import Proposal
from providers import registry
from providers.models import Provider


@contextmanager
def errors_name(proposal: Proposal, call: str) -> Iterator[None]:
    """Add to an error of `call` (formalize, cancel) the id of the proposal, and its reason if it has ended. If the
    state does not allow the call, also add the last known status and the possible next actions."""
    try:
        yield
    except ApiError as error:
        if isinstance(error, InvalidState):
            error.with_facts(status=proposal.shown_status, next_actions=envelope.next_actions(proposal, refused=call))
        error.with_facts(proposal_id=str(proposal.pk))
        if proposal.reason:
            error.with_facts(reason=proposal.reason)
        raise


class ProposalsView(PartnerView):
    @schema.submit
    def post(self, request: HttpRequest) -> Response:
        data = submission.validated(self.partner, self.body(serializers.SubmissionRequest))
        with admission.place(self.usage):
            proposal, is_new = submission.submit(self.partner, data, self.request_id)
        return Response(envelope.shown(proposal), status=201 if is_new else 200)

    @schema.listed
    def get(self, request: HttpRequest) -> Response:
        filters = validated(serializers.ListRequest, request.GET.dict())
        proposals, cursor = actions.page(self.partner, filters)
        return Response(shapes.ProposalPage(proposals=[*map(envelope.shown, proposals)], next_cursor=cursor))


class SearchView(PartnerView):
    @schema.search
    def post(self, request: HttpRequest) -> Response:
        proposals, cursor = actions.page(self.partner, self.valid(serializers.SearchRequest, optional=True))
        return Response(shapes.ProposalPage(proposals=[*map(envelope.shown, proposals)], next_cursor=cursor))


class ProposalView(PartnerView):
    @schema.status
    def get(self, request: HttpRequest, proposal_id: str) -> Response:
        proposal = actions.get(self.partner, proposal_id)
        actions.look_if_due(proposal, self.request_id, self.usage)
        return Response(envelope.detail(proposal))


class FormalizeView(PartnerView):
    @schema.formalize
    def post(self, request: HttpRequest, proposal_id: str) -> Response:
        data = self.valid(serializers.FormalizeRequest, optional=True)
        proposal = actions.get(self.partner, proposal_id)
        with errors_name(proposal, "formalize"):
            actions.formalize(proposal, data.get("tipo_envio"), self.request_id, self.usage)
        return Response(envelope.shown(proposal))


class CancelView(PartnerView):
    @schema.cancel
    def post(self, request: HttpRequest, proposal_id: str) -> Response:
        data = self.valid(serializers.CancelRequest, optional=True)
        proposal = actions.get(self.partner, proposal_id)
        with errors_name(proposal, "cancel"):
            actions.cancel(proposal, data.get("motivo") or None, self.request_id, self.usage)
        return Response(envelope.shown(proposal))


class BanksView(PartnerView):
    @schema.banks
    def get(self, request: HttpRequest) -> Response:
        banks = [shapes.Bank(code=code, name=name) for code, name in compe.banks().items()]
        return Response(shapes.Banks(banks=banks))


class ProvidersView(PartnerView):
    @schema.providers
    def get(self, request: HttpRequest) -> Response:
        return Response(shapes.Providers(providers=requirements.banks(self.partner)))


class ProviderView(PartnerView):
    @schema.provider
    def get(self, request: HttpRequest, name: str) -> Response:
        return Response(requirements.bank(self.partner, name))


class OptionsView(PartnerView):
    @schema.options
    def get(self, request: HttpRequest, name: str, field: str) -> Response:
        options = requirements.options(self.partner, name, field, request.GET.dict())
        return Response(shapes.FieldOptions(options=options))


class BankCallbackView(ApiView):
    """The route for banks' callbacks about holders' steps and proposals. There is no partner key; the bank's signature
    authenticates. This process reads only the callback secret; the credentials for calls stay with the workers. A
    genuine callback only brings a check forward, so a repeated one does no harm."""

    @extend_schema(exclude=True)  # called by banks, not by partners
    def post(self, request: HttpRequest, name: str) -> Response:
        bank = registry.get(name)
        if bank is None or not bank.calls_back:
            raise NotFound
        row = Provider.objects.only("callback_secret").filter(name=name).first()
        secret = (row.callback_secret if row else None) or ""
        reference = bank.verify_callback(secret, request.headers, read_body(request))
        pending.wake_by_callback(name, reference)
        sweep.wake_by_callback(name, reference)
        return Response(status=204)
