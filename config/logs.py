"""Logging: structured lines on standard error (JSON outside development), and a final filter for personal data."""

import logging
import traceback
from typing import Any

import structlog
from structlog.typing import EventDict, WrappedLogger

from foundation.formats import without_personal_data


def hide_personal_data(logger: WrappedLogger, name: str, event: EventDict) -> EventDict:
    """A structlog processor that removes anything that looks like personal data or a secret from text values."""
    for key, value in event.items():
        if isinstance(value, str) and key not in ("timestamp", "request_id"):
            event[key] = without_personal_data(value)
    return event


def traceback_without_words(error: BaseException | None) -> str:
    """Where `error` and its causes were raised, with their types but without their messages: messages of the database
    and of Django quote sent values, such as search words or the id in a URL."""
    chain: list[str] = []
    while error is not None:
        chain.insert(0, "".join(traceback.format_tb(error.__traceback__)) + type(error).__qualname__)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return "\nthen\n".join(chain)


class Lines(structlog.stdlib.ProcessorFormatter):
    """structlog's formatter, which takes two copies of each record. One of the dictionary is enough for our own lines:
    they went through all other processors already."""

    def format(self, record: logging.LogRecord) -> str:
        event: Any = record.msg
        if not hasattr(record, "_logger"):  # not by `wrap_for_formatter`
            return super().format(record)
        return str(self.processors[-1](None, record.levelname.lower(), event.copy()))


#: Loggers that write more than anybody needs, with the lowest level that is written.
_LOGGERS = {
    # Django logs the path of every refused request. Our own line has the route, which contains no secret.
    "django.request": {"level": "CRITICAL"},
    "django.security.DisallowedHost": {"level": "CRITICAL"},
    # axes quotes whatever was typed as the account's name. foundation/backoffice/login.py records logins.
    "axes": {"level": "ERROR"},
    # urllib3 names bank hosts at every new connection.
    "urllib3": {"level": "ERROR"},
    # beat writes a line for every sweep, every two seconds.
    "celery.beat": {"level": "WARNING"},
    "celery.worker.strategy": {"level": "WARNING"},
    "celery.app.trace": {"level": "WARNING"},
}


def logging_config(*, as_json: bool, level: str) -> dict[str, Any]:
    """Django's LOGGING, for structlog's and the libraries' loggers."""
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.stdlib.PositionalArgumentsFormatter(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.ExceptionRenderer(lambda exc_info: traceback_without_words(exc_info[1])),
        hide_personal_data,
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    # No line tells the file or the thread that wrote it, so nothing finds them out (the logging HOWTO of Python,
    # "Optimization"). gunicorn's own lines tell the process.
    logging._srcfile = None
    logging.logThreads = logging.logMultiprocessing = False
    renderer: Any = (
        structlog.processors.JSONRenderer(ensure_ascii=False)
        if as_json
        else structlog.dev.ConsoleRenderer(colors=False, pad_event_to=0)
    )
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "structured": {
                "()": Lines,
                "foreign_pre_chain": shared,
                "processors": [structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
            }
        },
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "structured"}},
        "root": {"handlers": ["stderr"], "level": level},
        "loggers": _LOGGERS,
    }
