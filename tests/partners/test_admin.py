"""The operator's pages: secrets are shown once; every action asks first, is recorded, and needs a permission."""

import html
import re
import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import Group, Permission, User
from django.contrib.sessions.models import Session
from django.urls import reverse
from django.utils import timezone

from foundation.models import AuditEntry
from partners import limits
from partners.models import ApiKey, Partner, default_webhook_events
from tests.factories import PartnerFactory, ProviderFactory, issue_key
from tests.operators import NOT_NOW, operator_with, page_of, press, rendered_form, save, says, see

pytestmark = pytest.mark.django_db
SECRET = re.compile(r'id="secret"[^>]* value="([^"]+)"')


@pytest.fixture
def partner() -> Partner:
    return PartnerFactory(name="Fintech Ipê", providers=["ipe"])


def hidden(response, name: str) -> str:
    return re.search(rf'name="{name}" value="([^"]*)"', response.text)[1]


def history() -> list[str]:
    return list(AuditEntry.objects.exclude(detail="").order_by("pk").values_list("detail", flat=True))


def test_a_page_names_its_icon_so_that_no_browser_asks_for_another(client):
    assert 'rel="icon" href="data:image/svg+xml,' in client.get(reverse("admin:login")).text


def test_a_key_is_issued_and_shown_once(admin_client, partner):
    url = page_of(partner, "issue_key")
    form = admin_client.get(url)
    assert form.status_code == 200
    # With "no-referrer" a browser sends `Origin: null`, which the CSRF check refuses.
    assert form["Referrer-Policy"] == "same-origin"
    assert not ApiKey.objects.exists()

    sent = {"key_id": hidden(form, "key_id"), "label": "produção", "days": "30"}
    shown = admin_client.post(url, sent)
    secret = SECRET.search(shown.text)[1]
    key = ApiKey.find(secret)
    assert (key.partner, str(key.pk), key.label) == (partner, sent["key_id"], "produção")
    assert timedelta(days=29) < key.expires_at - timezone.now() <= timedelta(days=30)
    assert "no-store" in shown["Cache-Control"]
    assert history() == [f"Chave {secret[:15]}… emitida."]

    again = admin_client.post(url, sent)
    assert "já foi emitida" in again.text
    assert ApiKey.objects.count() == 1
    assert all(secret not in str(session.get_decoded()) for session in Session.objects.all())
    for later in (admin_client.get(page_of(partner)), admin_client.get(page_of(key)), again):
        says(later, hidden=[secret, key.digest])


@pytest.mark.parametrize("bad", [{"days": "0"}, {"days": "3651"}, {"label": "x" * 61}, {"key_id": "x"}])
def test_a_bad_form_issues_no_key(admin_client, partner, bad):
    response = admin_client.post(page_of(partner, "issue_key"), {"key_id": str(uuid.uuid4()), **bad})
    assert response.status_code == 200
    assert not ApiKey.objects.exists()


def test_the_webhook_secret_is_rotated_and_shown_once(admin_client, partner):
    """The first one is issued alike."""
    url, secrets = page_of(partner, "rotate_secret"), []
    for _ in ("the first", "another"):
        mark = hidden(admin_client.get(url), "mark")
        shown = admin_client.post(url, {"mark": mark}).text
        secrets.insert(0, html.unescape(SECRET.search(shown)[1]))
        for again in ({"mark": mark}, {}):
            assert "já foi trocado" in admin_client.post(url, again).text
        partner.refresh_from_db()
        assert partner.webhook_secrets() == secrets
    assert history() == ["Segredo do webhook trocado."] * 2
    see(admin_client, partner, "o anterior ainda vale até")


STATES = {
    ("active", False): "ativo",
    ("suspended", False): "suspenso",
    ("suspended", True): "suspenso, entregas retidas",
}
HOLD = ("suspend_and_hold", ("suspended", True), "esperam até Reativar", "Parceiro suspenso, entregas retidas.")
RESUME = ("resume", ("active", False), "voltam a ser aceitas na próxima chamada", "Parceiro reativado.")
SUSPEND = ("suspend", ("suspended", False), "todas as chaves do parceiro são recusadas", "Parceiro suspenso.")
STEPS = (HOLD, RESUME, SUSPEND, HOLD, RESUME)


def test_a_partner_is_suspended_and_resumed_after_a_question(admin_client, partner):
    """A page offers only the steps that change something. Before the fix, the others were taken, and told as done."""

    def state():
        partner.refresh_from_db()
        return partner.status, partner.deliveries_held

    resume, before = page_of(partner, "resume"), state()
    for name, after, question, _ in STEPS:
        step = page_of(partner, name)
        see(admin_client, partner, f'"{step}"')
        see(admin_client, step, question)
        assert state() == before, "a question changes nothing"
        assert admin_client.post(step).url == page_of(partner)
        assert state() == (before := after)
        assert NOT_NOW in admin_client.post(step, follow=True).text
        offered = [resume] * (after != ("active", False))
        see(admin_client, partner, *offered, *["suspenso, entregas retidas"] * after[1], hidden=[f'"{step}"'])
        page = see(admin_client, reverse("partner", args=[partner.pk]))
        assert re.findall(r"Situação:</strong> <span[^>]*>([^<]*)<", page) == [STATES[after]]
    assert history() == [told for *_, told in STEPS]


def test_the_addresses_of_a_key_are_changed_on_its_page(admin_client, partner):
    key, _ = issue_key(partner)
    url = page_of(key, "restrict")
    says(admin_client.post(url, {"networks": "203.0.113.0/24, x"}), "“x” não é um endereço IP")
    assert admin_client.post(url, {"networks": "203.0.113.0/24, 2001:db8::1"}).status_code == 302
    key.refresh_from_db()
    assert key.networks == ["203.0.113.0/24", "2001:db8::1"]
    see(admin_client, key, "203.0.113.0/24, 2001:db8::1")
    assert history() == ["Endereços permitidos: 203.0.113.0/24, 2001:db8::1."]


def test_a_key_is_revoked_after_a_question(admin_client):
    key, _ = issue_key()
    url = page_of(key, "revoke")
    page = reverse("partner", args=[key.partner.pk])
    see(admin_client, page, url)
    see(admin_client, url, key.prefix)
    key.refresh_from_db()
    assert key.revoked_at is None
    assert admin_client.post(url).url == page_of(key.partner)
    key.refresh_from_db()
    assert key.revoked_at is not None
    for act in ("revoke", "restrict"):
        assert "Nada foi feito" in admin_client.post(page_of(key, act), follow=True).text
    assert history() == [f"Chave {key} revogada."] * 2  # once about the partner, and once about the key
    see(admin_client, page, hidden=[url])


def test_issuing_keys_is_a_permission_of_its_own(partner):
    changer = operator_with("view_partner", "change_partner")
    assert changer.get(page_of(partner, "issue_key")).status_code == 403
    assert changer.get(page_of(partner, "suspend")).status_code == 200
    issuer = operator_with("view_partner", "add_apikey")
    assert issuer.get(page_of(partner, "issue_key")).status_code == 200
    assert issuer.get(page_of(partner, "suspend")).status_code == 403


def test_webhook_and_allowlist_are_edited_without_touching_the_secret(admin_client, partner):
    secret = partner.rotate_webhook_secret()
    ProviderFactory(name="cedro")
    bank = {"partner": partner.pk, "provider": "cedro", "portfolio": "CLT-ESPECIAL", "portfolios": " A-1,, B 2 ,A-1"}
    sent = {f"allowances-1-{name}": value for name, value in bank.items()} | {"allowances-TOTAL_FORMS": 2}
    sent |= {"webhook_url": "https://parceiro.example.com/w", "webhook_events": ["lead", "proposal"]}
    assert save(admin_client, partner, sent).status_code == 302
    partner.refresh_from_db()
    assert (partner.webhook_url, partner.webhook_events) == ("https://parceiro.example.com/w", ["lead", "proposal"])
    assert partner.webhook_secrets() == [secret]
    assert [(bank.name, bank.portfolio, bank.portfolios) for bank in partner.allowed_banks()] == [
        ("cedro", "CLT-ESPECIAL", ("A-1", "B 2")),
        ("ipe", None, ()),
    ]


def test_the_banks_of_a_contract_are_named_and_each_tells_its_state(admin_client, partner):
    """Before the fix, the form said `ipe`, nothing of the bank's state, and not that no bank means none."""
    ProviderFactory(name="cedro", enabled=False)
    page = admin_client.get(page_of(partner))
    [inline] = page.context["inline_admin_formsets"]
    assert [label for _, label in inline.formset.forms[0].fields["provider"].choices] == [
        "Escolha um valor",
        "Cedro (desligado)",
        "Ipê",
    ]
    shown = page.text
    assert "só nestes o parceiro consulta, envia e vê as suas propostas" in shown
    assert ">no ar<" in re.sub(r"\s*([<>])\s*", r"\1", shown)
    assert "related-widget-wrapper" not in shown


def test_a_pause_at_a_bank_has_an_end_to_come_and_a_reason_and_is_audited(admin_client, partner):
    def sent(until: str, reason: str) -> Any:
        fields = {"allowances-0-paused_until": until, "allowances-0-pause_reason": reason}
        return save(admin_client, partner, fields)

    assert "Escreva até quando é a pausa, ou apague o motivo." in sent("", "auditoria").text
    assert "Uma pausa precisa de um motivo." in sent("2046-11-22T18:00", "").text
    assert "O fim da pausa já passou." in sent("2024-11-22T18:00", "auditoria").text
    assert not partner.allowed_banks()[0].is_paused
    assert sent("2046-11-22T18:00", "auditoria").status_code == 302
    assert partner.allowed_banks()[0].is_paused
    told = AuditEntry.objects.latest("pk").changes
    assert [new for name, (_, new) in told.items() if name.endswith("pause_reason")] == ["auditoria"]
    # Before the fix, who emptied the end alone, as the guide says, was asked to empty the reason too.
    assert sent("", "auditoria").status_code == 302
    assert not partner.allowed_banks()[0].is_paused


def test_a_form_undoes_no_suspension_of_the_same_moment(admin_client, partner, monkeypatch):
    suspend = lambda form: Partner.objects.get().suspend() or form.cleaned_data  # noqa: E731
    monkeypatch.setattr("partners.forms.PartnerForm.clean", suspend)
    assert save(admin_client, partner, {"name": "Outra"}).status_code == 302
    partner.refresh_from_db()
    assert (partner.name, partner.status) == ("Outra", "suspended")


def test_limits_are_set_in_the_form_and_shown_with_todays_use(admin_client, partner):
    """Before the fixes, the form said that its one limit was not applied, and no page said that CPFs are counted only
    if there is a limit."""

    def uses() -> list[str]:
        return [use.words for use in admin_client.get(reverse("partner", args=[partner.pk])).context["uses"]]

    assert uses()[:3] == ["sem limite, não contadas", "0 de 128", "sem limite, não contadas"]
    sent = {"rate_limit": "60", "in_flight_limit": "", "daily_cpf_limit": "100"}
    assert save(admin_client, partner, sent).status_code == 302
    partner.refresh_from_db()
    assert (partner.rate_limit, partner.in_flight_limit, partner.daily_cpf_limit) == (60, None, 100)
    usage = limits.Usage(partner)
    usage.count_call()
    usage.count_cpf("52998224725")
    assert uses()[:3] == ["1 de 60", "0, sem limite", "1 de 100"]


def test_what_the_holders_page_says_is_set_in_the_form(admin_client, partner, settings):
    """A CNPJ is taken with its mask. Before the fix, the form refused the fifteenth character."""
    page = {"privacy_contact": "a@b.br", "return_hosts": "Chat.exemplo.com.br\nexemplo.com.br", "sms_code": "on"}
    sent = rendered_form(admin_client.get(page_of(partner))) | {"cnpj": "11.222.333/0001-81", **page}
    del sent["dossier_by_api"]
    settings.SMS_GATEWAY_URL = ""
    assert "não tem gateway de SMS" in admin_client.post(page_of(partner), sent).text
    settings.SMS_GATEWAY_URL = "https://sms.example"
    assert admin_client.post(page_of(partner), sent).status_code == 302
    partner.refresh_from_db()
    assert (partner.cnpj, partner.return_hosts) == ("11222333000181", ["chat.exemplo.com.br", "exemplo.com.br"])
    assert (partner.privacy_contact, partner.sms_code, partner.dossier_by_api) == ("a@b.br", True, False)


FAULTY = {
    "rate_limit": ("0", "maior ou igual a 1"),
    "webhook_url": ("parceiro.com", "A URL do webhook deve ser completa"),
    "webhook_events": (["xpto"], "xpto"),
    "json_acceptance": ("on", "não aceita por JSON"),
    "return_hosts": ("https://exemplo.com.br/x", "Informe domínios"),
    "cnpj": ("11.222.333/0001-82", "Informe um CNPJ válido"),
    "allowances-0-portfolios": ("x" * 61, "até 60 caracteres"),
    "name": ("", "Este campo é obrigatório."),
}


def test_a_faulty_partner_form_is_explained_and_saves_nothing(admin_client, partner):
    sent = {name: value for name, (value, _) in FAULTY.items()} | {"sms_code": "on"}
    says(save(admin_client, partner, sent), *(told for _, told in FAULTY.values()), status=200)
    assert Partner.objects.get(pk=partner.pk).name == "Fintech Ipê"


def test_a_partner_is_added_with_its_first_key_and_secret_shown_once(admin_client):
    url = reverse("admin:partners_partner_add")
    asked = admin_client.get(url)
    assert asked.context["adminform"].form["webhook_events"].value() == default_webhook_events()
    assert "não emitido" not in asked.text
    form = rendered_form(asked) | {"name": "Nova"}
    shown = admin_client.post(url, form)
    assert "no-store" in shown["Cache-Control"]
    key, secret = (html.unescape(each) for each in re.findall(r'id="secret[^>]* value="([^"]+)"', shown.text))
    partner = Partner.objects.get(name="Nova")
    assert str(partner.pk) == form["new_id"]
    assert (partner.status, partner.webhook_secrets(), ApiKey.find(key).partner) == ("active", [secret], partner)
    for later in (admin_client.get(page_of(partner)), admin_client.post(url, form)):
        assert secret not in html.unescape(later.text)
        assert key not in later.text
    assert "já foi criado" in later.text
    assert (Partner.objects.count(), ApiKey.objects.count()) == (1, 1)


def test_who_may_not_issue_keys_adds_a_partner_with_its_secret_only():
    adder = operator_with("add_partner", "view_partner")
    url = reverse("admin:partners_partner_add")
    shown = adder.post(url, rendered_form(adder.get(url)) | {"name": "Nova"}).text
    partner = Partner.objects.get(name="Nova")
    assert partner.webhook_secrets() == [html.unescape(SECRET.search(shown)[1])]
    assert not ApiKey.objects.exists()


def test_lists_search_and_show_the_state(admin_client, partner):
    key, _ = issue_key(partner)
    key.revoke()
    see(admin_client, f"{reverse('admin:partners_partner_changelist')}?q={str(partner.pk)[:8]}", "Fintech Ipê", "ativo")
    see(admin_client, f"{reverse('admin:partners_apikey_changelist')}?q={key.prefix}", "revogada")


@pytest.mark.parametrize("kind", ["partner", "apikey"])
def test_lists_take_the_same_queries_for_many_rows_as_for_one(admin_client, django_assert_max_num_queries, kind):
    url = reverse(f"admin:partners_{kind}_changelist")
    for _ in range(12):
        issue_key(PartnerFactory(providers=["ipe", "cedro"]))
    with django_assert_max_num_queries(9):
        assert admin_client.get(url).status_code == 200


@pytest.mark.control("V8")
def test_who_may_change_users_gives_no_rights():
    """An account that may do no more is changed."""
    operator_with("view_user", name="outra")
    manager, client = User.objects.get(), operator_with("view_user", "add_user", "change_user", name="gestor")
    group = Group.objects.create(name="tudo")
    rights = {"is_superuser": "on", "groups": [group.pk], "user_permissions": [Permission.objects.first().pk]}
    see(client, manager, hidden=[f'name="{name}"' for name in rights])
    assert save(client, manager, {"first_name": "Ana", **rights}).status_code == 302
    manager.refresh_from_db()
    assert (manager.first_name, manager.is_superuser, manager.groups.count()) == ("Ana", False, 0)
    assert manager.user_permissions.count() == 1


@pytest.mark.parametrize(
    ("permissions", "more"),
    [([], {"is_superuser": True}), ([], {"is_superuser": True, "is_active": False}), (["view_evidence"], {})],
    ids=["superuser", "sleeping superuser", "reader of evidence"],
)
def test_nobody_takes_over_the_account_of_somebody_who_may_do_more(permissions, more):
    operator_with(*permissions, name="outra")
    User.objects.update(password=make_password("uma-senha-bem-longa"), **more)
    other, client = User.objects.get(), operator_with("view_user", "add_user", "change_user", "delete_user")
    password, new = reverse("admin:auth_user_password_change", args=[other.pk]), "outra-senha-bem-longa"
    assert client.get(password).status_code == 403
    assert client.post(password, {"password1": new, "password2": new}).status_code == 403
    assert client.post(page_of(other), {"username": "x", "is_active": "on"}).status_code == 403
    assert client.post(page_of(other, "delete"), {"post": "yes"}).status_code == 403
    chosen = {"action": "delete_selected", "_selected_action": [other.pk], "post": "yes"}
    client.post(reverse("admin:auth_user_changelist"), chosen)
    other.refresh_from_db()
    assert (other.username, other.check_password("uma-senha-bem-longa")) == ("outra", True)


def test_an_account_gets_its_roles_by_boxes_when_it_is_made(admin_client):
    """Before the fix, an account was made first, and then had two lists to move roles and permissions between."""
    url, role = reverse("admin:auth_user_add"), Group.objects.get(name="Papel: suporte")
    page = admin_client.get(url)
    boxes = page.context["adminform"].form.fields["groups"].choices
    assert {str(name) for _, name in boxes} == {each.name.removeprefix("Papel: ") for each in Group.objects.all()}
    assert page.context["adminform"].form["is_staff"].initial is True
    new = {"username": "rui", "password1": "uma-senha-bem-longa", "password2": "uma-senha-bem-longa"}
    press(admin_client, page, "Salvar", groups=[role.pk], **new)
    rui = User.objects.get(username="rui")
    assert (rui.is_staff, list(rui.groups.all())) == (True, [role])
    shown = admin_client.get(page_of(rui))
    assert "user_permissions" not in shown.context["adminform"].form.fields
    press(admin_client, shown, "Salvar", groups=[])
    assert not rui.groups.exists()
