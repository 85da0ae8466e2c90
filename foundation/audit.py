"""The audit trail: who did what to which row, from which address, and what the row held before.

`record` writes one entry. Most code need not call it, because three shared places do: the base class of the back
office's pages (foundation/backoffice/admins.py) for changes and actions, `foundation/backoffice/gate.py` for refusals,
and `AuditedCommand`, the base class of management commands that change something.
"""

import getpass
import ipaddress
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import date, datetime
from functools import partial
from typing import Any

import structlog
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.core.serializers.json import DjangoJSONEncoder
from django.db import models, transaction
from django.db.models.expressions import DatabaseDefault
from django.forms import BaseForm
from django.http import HttpRequest

from foundation.client_ip import known_ip
from foundation.encryption import EncryptedTextField
from foundation.formats import without_personal_data
from foundation.models import Action, AuditEntry, Channel

log = structlog.get_logger("audit")

#: By field name: the old and the new value.
Changes = dict[str, list[Any]]
#: Replaces a value that nobody may read in the trail. The entry still shows that the value changed.
HIDDEN = "[oculto]"
_HIDDEN_NAMES = re.compile(
    r"secret|password|credential|token|digest|cpf|phone|e_?mail|first_name|last_name|private_key|proxy", re.ASCII
)
#: The query of an address may hold the receiver's secret.
_QUERY_OF_URL = re.compile(r"(https?://[^\s?#]+)\?[^\s#]+", re.I)
_LONGEST_VALUE = 300
_EMPTY: tuple[Any, ...] = (None, "", [], {})
#: Options that every command has. They say nothing about the change.
_OF_DJANGO = {*vars(BaseCommand().create_parser("manage.py", "command").parse_args([])), "stdout", "stderr"}
#: Fields of a formset's forms that are not fields of the row.
_OF_FORMSETS = ("id", "DELETE")
#: These actions are logged as warnings.
SERIOUS = {
    Action.LOG_IN_FAILED,
    Action.LOCKED_OUT,
    Action.SECOND_FACTOR_FAILED,
    Action.SECOND_FACTOR_SET_UP,
    Action.DENIED,
}


@dataclass(frozen=True)
class Subject:
    """What an entry is about. A person's `id` is the keyed hash of the CPF, never the CPF."""

    model: type[models.Model] | None = None
    id: object = ""
    name: str = ""


@dataclass(frozen=True)
class Source:
    who: str
    channel: Channel
    address: str = ""
    request_id: str = ""


def record(
    action: Action,
    *,
    request: HttpRequest | Source | None = None,
    obj: models.Model | Subject | None = None,
    changes: Mapping[str, Iterable[Any]] | None = None,
    detail: str = "",
) -> AuditEntry:
    """Write one entry, in the caller's transaction. Its log line follows when the transaction is committed.

    `request` gives the user, the address and the request id. Without a request the running command gives them,
    otherwise the entry is by the service itself. `obj` is the row, or what names it if there is none. `changes` holds
    the old and new value by field. `detail` is a Portuguese sentence.

    The caller need not remove secrets and personal data: values of encrypted fields, of fields with a sensitive name,
    and anything that looks like a CPF, phone, e-mail or key are hidden here. Names of people are not recognized, so the
    caller must leave them out.
    """
    source = request if isinstance(request, Source) else source_of(request)
    subject = Subject(type(obj), obj.pk, str(obj)) if isinstance(obj, models.Model) else obj or Subject()
    about = subject.model
    entry = AuditEntry(
        who=source.who[:150],
        channel=source.channel,
        address=source.address,
        action=action,
        model=about._meta.label_lower if about else "",
        object_id=_text(subject.id, 100),
        object_name=_text(subject.name, 200),
        changes={name: [shown(name, each, about) for each in pair] for name, pair in (changes or {}).items()},
        detail=_text(detail, 500),
        request_id=source.request_id,
    )
    entry.save(force_insert=True)
    transaction.on_commit(partial(_log, entry))
    return entry


def _log(entry: AuditEntry) -> None:
    names = ("who", "channel", "address", "model", "object_id", "object_name", "changes", "detail")
    facts = {name: getattr(entry, name) for name in names}
    write = log.warning if entry.action in SERIOUS else log.info
    write(str(entry.action), entry=entry.pk, at=entry.at.isoformat(), **{k: v for k, v in facts.items() if v})


# --- Who, and from where ------------------------------------------------------------------------------------


#: Who runs the present management command.
_at_terminal: ContextVar[Source | None] = ContextVar("at_terminal", default=None)


def source_of(request: HttpRequest | None, who: str | None = None) -> Source:
    """Who sends `request`, or runs the command. `who` names a user whom the request does not know yet."""
    if request is None:
        return _at_terminal.get() or Source("", Channel.SERVICE)
    address = known_ip(request)
    request_id = getattr(request, "own_id", "")
    partner = getattr(request, "partner_id", None)
    if partner:
        return Source(f"parceiro {partner}", Channel.API, address, request_id)
    if who is None:
        user = getattr(request, "user", None)
        who = user.get_username() if user is not None and user.is_authenticated else ""
    return Source(who, Channel.BACK_OFFICE, address, request_id)


@contextmanager
def running_command() -> Iterator[None]:
    """Entries without a request are by the person at the terminal while this context lasts."""
    token = _at_terminal.set(Source(system_user(), Channel.COMMAND, _terminal_address()))
    try:
        yield
    finally:
        _at_terminal.reset(token)


def system_user() -> str:
    """The login name of the person at the terminal. Under sudo, the name of the person who called sudo."""
    try:
        return os.environ.get("SUDO_USER") or getpass.getuser()
    except (KeyError, OSError):  # in a container the user may have no name
        return f"uid {os.getuid()}"


def _terminal_address() -> str:
    """The client address of an SSH session. Empty if the terminal is local."""
    try:
        return str(ipaddress.ip_address(os.environ.get("SSH_CONNECTION", "").partition(" ")[0]))
    except ValueError:
        return ""


# --- What changed -------------------------------------------------------------------------------------------


def state(row: models.Model) -> dict[str, Any]:
    """The loaded values of `row` by field, and of the related rows that its class lists in `audited_relations`. Fields
    that change automatically are left out. The class's `audited_as` has functions for what is shown otherwise."""
    unread = row.get_deferred_fields()
    words: Mapping[str, Any] = getattr(row, "audited_as", {})
    values = {
        each.name: words[each.name](value) if each.name in words else value
        for each in row._meta.concrete_fields
        if each.attname not in unread and not each.primary_key and not getattr(each, "auto_now", False)
        for value in [getattr(row, each.attname)]
    }
    for name in getattr(row, "audited_relations", ()):
        for each in getattr(row, name).all():
            own = [field for field in each._meta.concrete_fields if field.related_model is not type(row)]
            kind = f"{each._meta.model_name} {each}"
            values |= {f"{kind}: {field.name}": getattr(each, field.attname) for field in own if not field.primary_key}
    return values


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> Changes:
    """The old and the new value of each field that differs. None, an empty text and an empty list count as equal."""
    pairs = {name: [before.get(name), after.get(name)] for name in {**before, **after}}
    return {
        name: [old, new] for name, (old, new) in pairs.items() if old != new and not (old in _EMPTY and new in _EMPTY)
    }


def changes_of_form(form: BaseForm, formsets: Iterable[Any], *, is_new: bool) -> Changes:
    """The changes that a page's form and its formsets made. For a new row, every value that was given."""
    data = form.cleaned_data
    if is_new:
        changes = differences({}, {name: _plain(value) for name, value in data.items()})
    else:  # the password form reports a change of a field that it does not have
        changes = {name: [form.initial.get(name), data.get(name, HIDDEN)] for name in form.changed_data}
    for formset in formsets:
        kind = formset.model._meta.model_name
        for each in formset.forms:
            if not each.has_changed() and each not in formset.deleted_forms:
                continue
            own = {name: each.cleaned_data.get(name) for name in each.fields if name not in _OF_FORMSETS}
            own.pop(formset.fk.name, None)  # the foreign key to the page's own row
            before = {name: _plain(each.initial.get(name)) for name in own}
            after = {} if each in formset.deleted_forms else {name: _plain(value) for name, value in own.items()}
            pairs = differences(before, after).items()
            changes |= {f"{kind} {each.instance}: {name}": pair for name, pair in pairs}
    return changes


def _plain(value: Any) -> Any:
    """`value` as JSON data: a row as its key, several rows as their names."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, DatabaseDefault):
        return None
    if isinstance(value, models.Model):
        return str(value.pk)
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, dict):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        return sorted(str(each) for each in value)
    return str(value)


def shown(name: str, value: Any, model: type[models.Model] | None = None) -> Any:
    """`value` as the trail may show it: hidden if `name` tells of a secret or a person, or is encrypted in `model`."""
    if value in _EMPTY:
        return None
    fields = model._meta.concrete_fields if model else ()
    if _HIDDEN_NAMES.search(name) or any(each.name == name for each in fields if isinstance(each, EncryptedTextField)):
        return HIDDEN
    plain = _plain(value)
    if isinstance(plain, list):
        return [_text(each, _LONGEST_VALUE) for each in plain]
    if isinstance(plain, dict):
        return {key: shown(key, each) for key, each in plain.items()}
    return _text(plain, _LONGEST_VALUE) if isinstance(plain, str) else plain


def _text(value: object, longest: int) -> str:
    text = without_personal_data(_QUERY_OF_URL.sub(r"\1?[oculto]", str(value).replace("\0", "")))
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


# --- Commands ------------------------------------------------------------------------------------------------


class AuditedCommand(BaseCommand):
    """A command whose run is recorded: by `audited` around the change, or by `note` before work in many transactions.

    The entry holds the command's options. Rows named by `concerns` get an entry each, with old and new values.
    """

    #: Those of the command line, each with its options of `add_argument`.
    arguments: Mapping[str, Mapping[str, Any]] = {}
    #: The rows, each with its state before the change.
    _rows: list[tuple[models.Model, dict[str, Any]]]

    def add_arguments(self, parser: CommandParser) -> None:
        for name, options in self.arguments.items():
            parser.add_argument(name, **options)

    def execute(self, *args: Any, **options: Any) -> str | None:
        self._rows = []
        with running_command():
            return super().execute(*args, **options)

    def concerns(self, row: models.Model, *, is_new: bool = False) -> None:
        """Name `row` in the entry. Call it before the change, or with `is_new` after the row was created."""
        self._rows.append((row, {} if is_new else state(row)))

    @contextmanager
    def audited(self, options: Mapping[str, Any]) -> Iterator[None]:
        """A transaction for the change and its entries."""
        with transaction.atomic():
            yield
            self.note(options)

    def note(self, options: Mapping[str, Any]) -> None:
        detail = described(type(self).__module__.rpartition(".")[2], options)
        for row, before in self._rows:
            now = type(row)._base_manager.filter(pk=row.pk).first()
            changes = differences(before, state(now) if now else {})
            record(Action.COMMAND, obj=row, changes=changes, detail=detail)
        if not self._rows:
            record(Action.COMMAND, detail=detail)


class JSONCommand(AuditedCommand):
    """Runs `act(**options)` in one transaction and prints its result as JSON after the commit.

    `act` may raise CommandError or ValidationError: the operator reads the message, and the transaction is rolled back.
    A command that only reads sets `reads_only` and is not recorded.
    """

    act: Callable[..., dict[str, Any]]
    reads_only = False

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            with nullcontext() if self.reads_only else self.audited(options):
                result = self.act(**options)
        except ValidationError as error:
            raise CommandError(_sentence(error)) from None
        self.stdout.write(json.dumps(result, cls=DjangoJSONEncoder, ensure_ascii=False))


def _sentence(error: ValidationError) -> str:
    if not hasattr(error, "error_dict"):
        return " ".join(error.messages)
    return " ".join(f"{field}: {' '.join(messages)}" for field, messages in error.message_dict.items())


def described(name: str, options: Mapping[str, Any]) -> str:
    """For example `set_webhook url=https://… rotate_secret=True`. Options that were not given are left out."""
    own = {option: value for option, value in options.items() if option not in _OF_DJANGO}
    given = {option: value for option, value in own.items() if value not in _EMPTY and value is not False}
    return " ".join([name, *(f"{option}={shown(option, value)}" for option, value in given.items())])
