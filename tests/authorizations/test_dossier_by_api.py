"""GET /partners/v1/authorizations/{authorization_id}/dossier"""

import io
import zipfile

import pytest
from django.test import Client

from authorizations import dossier, seal
from authorizations.models import PurgedEvidence, Session
from foundation.models import AuditEntry, Channel
from partners.models import Partner
from tests.authorizations.clients import CPF, HolderClient, PartnerClient, route
from tests.operators import page_of


@pytest.fixture
def accepted(session: Session, holder: HolderClient) -> Session:
    assert holder.accept(session).status_code == 200
    session.refresh_from_db()
    return session


def exports() -> list[tuple[str, str, str, str]]:
    entries = AuditEntry.objects.filter(action="exported").order_by("pk")
    return list(entries.values_list("who", "channel", "object_name", "detail"))


def told(reply: object) -> tuple[int, str]:
    return reply.status_code, reply.json()["code"]  # type: ignore[attr-defined]  # the test client's response


@pytest.mark.parametrize("accept", ["application/zip", "application/json", "*/*", None])
def test_it_is_the_file_that_operators_export(
    api: PartnerClient, admin_client: Client, accepted: Session, accept: str | None
) -> None:
    """None: the operator's own export."""
    if accept:
        reply, who = api.get(route(accepted, "/dossier"), HTTP_ACCEPT=accept), f"parceiro {api.partner.pk}"
    else:
        reply, who = admin_client.get(page_of(accepted, "export_dossier")), "admin"
    assert (reply.status_code, reply["Content-Type"]) == (200, "application/zip")
    assert "no-store" in reply["Cache-Control"]
    name = f"dossie-evidencia-{accepted.evidence.number}.zip"
    assert reply["Content-Disposition"] == f'attachment; filename="{name}"'
    problems, manifest = dossier.verify(reply.content, seal.trusted_keys())
    assert (problems, manifest["exported_by"]) == ([], who)
    with zipfile.ZipFile(io.BytesIO(reply.content)) as package:
        assert package.read("evidencia.json").decode() == accepted.evidence.record
    assert exports() == [
        (who, Channel.API if accept else Channel.BACK_OFFICE, f"sessão {accepted.pk}", "Dossiê da evidência exportado.")
    ]


def test_nobody_elses_and_none_where_an_operator_switched_it_off(
    stranger: PartnerClient, api: PartnerClient, accepted: Session
) -> None:
    assert told(stranger.get(route(accepted, "/dossier"))) == (404, "not_found")
    assert told(api.get("/partners/v1/authorizations/nada/dossier")) == (404, "not_found")
    Partner.objects.update(dossier_by_api=False)
    assert told(api.get(route(accepted, "/dossier"))) == (404, "not_found")
    assert exports() == []


def test_after_its_term_it_is_gone_for_its_partner_alone(
    api: PartnerClient, stranger: PartnerClient, session: Session
) -> None:
    index = PurgedEvidence.index_of(api.partner.pk, session.authorization_id)
    link = dict.fromkeys(("record_sha256", "previous_hash", "hash", "public_key"), index)
    PurgedEvidence.objects.create(number=1, signature="", uses=0, session_index=index, **link)
    session.delete()
    assert told(api.get(route(session, "/dossier"))) == (410, "gone")
    assert told(stranger.get(route(session, "/dossier"))) == (404, "not_found")
    assert CPF not in str(PurgedEvidence.objects.values().get())
