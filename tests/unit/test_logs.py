"""A log line has one form, whoever writes it."""

import io
import json
import logging
import logging.config
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from config.logs import logging_config


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    """What the loggers write."""
    structlog.contextvars.clear_contextvars()  # another test's request id
    of_this_process = structlog.get_config()
    config = logging_config(as_json=True, level="INFO")
    handler = logging.StreamHandler(io.StringIO())
    formatters: Any = logging.config.DictConfigurator(config)  # type: ignore[attr-defined]
    handler.setFormatter(formatters.configure_formatter(config["formatters"]["structured"]))
    monkeypatch.setattr(logging.root, "handlers", [handler])
    monkeypatch.setattr(logging.root, "level", logging.INFO)
    yield handler.stream
    structlog.configure(**of_this_process)


def test_ours_and_a_librarys(written: io.StringIO) -> None:
    structlog.get_logger("ours").info("event_sent", to="52998224725", status=None, ms=3)
    logging.getLogger("theirs").warning("sent to %s", "maria@example.com")
    logging.getLogger("theirs").warning({"to": "52998224725"})
    ours, theirs, dictionary = map(json.loads, written.getvalue().splitlines())
    assert dictionary["event"] == "{'to': '[oculto]'}"
    assert ours.pop("timestamp") <= theirs.pop("timestamp")
    assert ours == {
        "event": "event_sent",
        "logger": "ours",
        "level": "info",
        "to": "[oculto]",
        "status": None,
        "ms": 3,
    }
    assert theirs == {"event": "sent to [oculto]", "logger": "theirs", "level": "warning"}


def test_an_exception_of_ours_and_a_librarys(written: io.StringIO) -> None:
    try:
        raise KeyError("field")
    except KeyError:
        structlog.get_logger("ours").exception("event_broke")
        logging.getLogger("theirs").exception("broke")
    ours, theirs = map(json.loads, written.getvalue().splitlines())
    assert ours["exception"] == theirs["exception"]
    assert ours["exception"].endswith("KeyError"), "before the fix, with what a bank or the database said"
