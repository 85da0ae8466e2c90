"""HTTP messages of a simulated bank: a request as its handlers get it, and answers in JSON or XML."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl
from xml.etree.ElementTree import Element, SubElement, tostring

import msgspec
from aiohttp import web

from simulator.fields import parse_json, parse_xml

_json = msgspec.json.Encoder(decimal_format="number")


def answer(payload: Any, status: int = 200, media_type: str = "application/json") -> web.Response:
    """A JSON answer; `Decimal` becomes an exact JSON number."""
    return web.Response(body=_json.encode(payload), status=status, content_type=media_type, charset="utf-8")


def answer_xml(root: str, payload: Mapping[str, Any], status: int = 200) -> web.Response:
    """An XML answer: one root element, nested mappings, a list for a repeated element. None gives an empty element."""
    element = Element(root)
    _fill(element, payload)
    body = tostring(element, encoding="utf-8", xml_declaration=True)
    return web.Response(body=body, status=status, content_type="text/xml", charset="utf-8")


def _fill(element: Element, content: Any) -> None:
    if not isinstance(content, Mapping):
        element.text = None if content is None else str(content)
        return
    for name, value in content.items():
        for each in value if isinstance(value, list | tuple) else [value]:
            _fill(SubElement(element, name), each)


class Request:
    """A request as a bank's handler gets it. `params` come from the path, `query` from the query string. `target` is
    the unparsed path with query string, for banks that sign it."""

    def __init__(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        params: Mapping[str, str],
        query: Mapping[str, str],
        raw: bytes,
        target: str,
    ) -> None:
        self.method = method
        self.path = path
        self.headers = headers
        self.params = params
        self.query = query
        self.raw = raw
        self.target = target
        self._json: Any = None
        self._xml: Any = None

    @property
    def media_type(self) -> str:
        """The body's media type without its parameters, lower case."""
        return self.headers.get("Content-Type", "").partition(";")[0].strip().lower()

    def json(self) -> Any:
        """The body as JSON, parsed once. Raises `ValueError` for any other body."""
        if self._json is None:
            self._json = parse_json(self.raw)
        return self._json

    def xml(self) -> dict[str, Any]:
        """The body as XML (see `parse_xml`), parsed once. Raises `ValueError` for any other body."""
        if self._xml is None:
            self._xml = parse_xml(self.raw)
        return self._xml

    def form(self) -> dict[str, str]:
        """The body as a URL-encoded form. Raises `ValueError` for any other body."""
        return dict(parse_qsl(self.raw.decode("utf-8"), keep_blank_values=True, strict_parsing=bool(self.raw)))

    def bearer(self) -> str:
        """The token of `Authorization: Bearer …`, or an empty text."""
        scheme, _, token = self.headers.get("Authorization", "").partition(" ")
        return token if scheme == "Bearer" else ""

    def has_basic_auth(self, user: str, password: str) -> bool:
        """True if the request has this user and password as HTTP basic authentication."""
        expected = b"Basic " + base64.b64encode(f"{user}:{password}".encode())
        return secrets.compare_digest(self.headers.get("Authorization", "").encode(), expected)

    def look_up(self, source: str) -> str | None:
        """The value with a dotted name in path, query string or body, or None. Never raises."""
        value: Any = self.params.get(source) or self.query.get(source) or self._in_body(source)
        # the list of calls could not contain a lone surrogate
        return value.encode("utf-8", "replace").decode() if isinstance(value, str) else None

    def matches(self, condition: str) -> bool:
        """True if the body has the dotted name in `condition`, and its value if one is given (`name=value`)."""
        name, has_value, value = condition.partition("=")
        content = self._in_body(name)
        return content == value if has_value else content is not None

    def _in_body(self, source: str) -> Any:
        if not self.raw:
            return None
        try:
            if self.media_type.endswith("form-urlencoded"):
                content: Any = self.form()
            else:
                content = self.xml() if self.media_type.endswith("xml") else self.json()
        except ValueError:
            return None
        for key in source.split("."):
            content = content.get(key) if isinstance(content, dict) else None
        return content
