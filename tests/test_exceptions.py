"""A fault outside of the API's views gives an answer without detail, and a log line that shows the cause."""

from __future__ import annotations

import pytest
from django.http import HttpRequest, HttpResponse
from django.template.response import SimpleTemplateResponse
from django.test import Client
from django.urls import path
from structlog.testing import capture_logs

from config import exceptions


def _search(words: str) -> HttpResponse:
    try:
        raise LookupError(f"LIKE '%{words}%'")
    except LookupError as error:
        raise ValueError(f"no such row: {words}") from error


def at_once(request: HttpRequest, words: str) -> HttpResponse:
    return _search(words)


def while_rendered(request: HttpRequest, words: str) -> HttpResponse:
    return SimpleTemplateResponse([f"{words}.html"])


urlpatterns = [path("at-once/<str:words>", at_once), path("rendered/<str:words>", while_rendered)]
handler500 = exceptions.handler500


@pytest.mark.urls("tests.test_exceptions")
@pytest.mark.parametrize(
    ("place", "error", "where"),
    [("at-once", "ValueError", "in _search"), ("rendered", "TemplateDoesNotExist", "in rendered_content")],
)
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
