"""A partner's program on the client that openapi-python-client made: `python story.py URL KEY`.

From the query to the list, in the client's own types. Prints the proposal's id and status.
"""

import json
import sys
from pathlib import Path

from origination_partner_api_client import AuthenticatedClient
from origination_partner_api_client.api.consultas import query_aggregated
from origination_partner_api_client.api.propostas import (
    proposal_formalize,
    proposal_list,
    proposal_status,
    proposal_submit,
)
from origination_partner_api_client.models import (
    AggregatedResponse,
    FormalizeRequest,
    Proposal,
    ProposalDetail,
    ProposalPage,
    QueryRequest,
    SubmissionRequest,
)

url, key = sys.argv[1:]
told = json.loads((Path(__file__).parent / "told.json").read_text())
client = AuthenticatedClient(base_url=url, token=key, auth_header_name="X-Partner-Api-Key", prefix="", timeout=60)

answer = query_aggregated.sync(client=client, body=QueryRequest.from_dict(told["query"]))
assert isinstance(answer, AggregatedResponse), answer
offer = next(each for each in answer.proposals if each.provider == "ipe")
assert answer.provider_results["ipe"].status == "ok"

dataset = SubmissionRequest.from_dict(told["dataset"])
dataset.offer_ref.offer_id = str(offer.offer_id)
submitted = proposal_submit.sync(client=client, body=dataset)
assert isinstance(submitted, Proposal), submitted

formalized = proposal_formalize.sync(submitted.proposal_id, client=client, body=FormalizeRequest())
assert isinstance(formalized, Proposal), formalized
assert formalized.action
assert formalized.action.url.startswith("http")

now = proposal_status.sync(submitted.proposal_id, client=client)
assert isinstance(now, ProposalDetail), now
told_later = {"code": "a_code_of_next_year", "source": "bank", "message": "…", "retryable": False, "further": 1}
later = ProposalDetail.from_dict({**now.to_dict(), "further": {"field": 1}, "reason": told_later})
assert later["further"] == {"field": 1}
assert later.reason
assert later.reason.code == "a_code_of_next_year"
page = proposal_list.sync(client=client, provider="ipe")
assert isinstance(page, ProposalPage), page
assert [each.proposal_id for each in page.proposals] == [now.proposal_id]
sys.stdout.write(json.dumps({"proposal_id": str(now.proposal_id), "status": now.status}))
