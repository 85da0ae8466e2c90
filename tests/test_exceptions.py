"""A fault outside of the API's views gives an answer without detail, and a log line that shows the cause."""

import pytest
from django.db import connection, transaction
from django.http import HttpRequest, HttpResponse
from django.template.response import SimpleTemplateResponse
from django.test import Client
from django.urls import path
from structlog.testing import capture_logs

from config import exceptions, urls


def _search(words: str) -> HttpResponse:
    try:
        raise LookupError(f"LIKE '%{words}%'")
    except LookupError as error:
        raise ValueError(f"no such row: {words}") from error


def slow(request: HttpRequest) -> HttpResponse:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL statement_timeout = '50ms'")
        cursor.execute("SELECT pg_sleep(60)")
    return HttpResponse()


urlpatterns = [
    path("at-once/<str:words>", lambda _, words: _search(words)),
    path("rendered/<str:words>", lambda _, words: SimpleTemplateResponse([f"{words}.html"])),
    path("admin/slow/", slow),
    *urls.urlpatterns,
]
handler500 = exceptions.handler500


@pytest.mark.urls("tests.test_exceptions")
@pytest.mark.parametrize(
    ("place", "error", "where"),
    [("at-once", "ValueError", "in _search"), ("rendered", "TemplateDoesNotExist", "in rendered_content")],
)
@pytest.mark.control("V16")
def test_a_fault_is_logged_with_its_traceback_and_nothing_that_was_sent(place: str, error: str, where: str) -> None:
    with capture_logs() as lines:
        reply = Client(raise_request_exception=False).get(f"/{place}/Maria-52998224725")
    assert (reply.status_code, reply.content.decode()) == (500, "Erro interno. Tente novamente em instantes.\n")
    [line] = [line for line in lines if line["event"] == "unhandled_exception"]
    assert (line["log_level"], line["error"]) == ("error", error)
    assert where in line["exception"]
    assert line["exception"].endswith(error)
    assert "Maria" not in str(lines)
    assert place == "rendered" or "LookupError\nthen\n" in line["exception"]


@pytest.mark.urls("tests.test_exceptions")
def test_a_page_whose_statement_took_too_long_says_what_to_do(admin_client: Client) -> None:
    admin_client.raise_request_exception = False
    with capture_logs() as lines:
        page = admin_client.get("/admin/slow/")
    assert (page.status_code, "Demorou demais" in page.content.decode()) == (503, True)
    assert [line["event"] for line in lines if line["log_level"] == "error"] == ["statement_timed_out"]
    assert Client(raise_request_exception=False).get("/admin/slow/").status_code == 500, "others learn nothing"
