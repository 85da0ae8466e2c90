"""XML bodies, written from plain data and read into Structs. defusedxml refuses DTDs and entities.

Plain data is a mapping from element name to content: text, a number, a boolean, a nested mapping, or a list for a
repeated element. None leaves the element out. A key that begins with `@` is an attribute.
"""

from collections.abc import Hashable, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any, TypeVar, cast
from xml.etree.ElementTree import Element, tostring

import msgspec
from defusedxml.ElementTree import fromstring
from msgspec import inspect

T = TypeVar("T")


def encode(content: Mapping[str, Any]) -> bytes:
    """The XML document in UTF-8 whose root is the only key of `content`. Raises ValueError if there is not exactly one
    key, TypeError for a value of another type."""
    [(name, root)] = content.items()
    element = Element(name)
    _fill(element, root)
    return bytes(tostring(element, encoding="utf-8", xml_declaration=True))


def _fill(element: Element, content: Any) -> None:
    if not isinstance(content, Mapping):
        element.text = _text(content)
        return
    for name, value in content.items():
        if value is None:
            continue
        if name.startswith("@"):
            element.set(name[1:], _text(value))
            continue
        for each in value if isinstance(value, list | tuple) else [value]:
            child = Element(name)
            _fill(child, each)
            element.append(child)


def _text(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case int():
            return str(value)
        case Decimal():
            return f"{value:f}"
    raise TypeError(f"{type(value).__name__} is no content of an XML element")


def decode(body: bytes, shape: type[T], root: str) -> T:
    """The content of the root element `root` as `shape`, a msgspec Struct. Namespaces are ignored. Text is converted to
    the Struct's numbers, booleans and dates. An empty element is None or an empty Struct.

    Raises ValueError for another root element: a gateway's page would otherwise be read as an answer without content.
    Raises an exception of the parser or of msgspec if the body is not XML or has another shape.
    """
    element = fromstring(body, forbid_dtd=True)
    if _local_name(element) != root:
        raise ValueError("another root element")
    plain = _plain(element, _type_of(cast(Hashable, shape)))
    return msgspec.convert(plain, shape, strict=False)


def _local_name(element: Element) -> str:
    """The element's name without its namespace."""
    return str(element.tag).rpartition("}")[2]


@lru_cache(maxsize=256)
def _type_of(shape: Hashable) -> inspect.Type:
    return inspect.type_info(shape)


def _plain(element: Element, kind: inspect.Type) -> Any:
    """The element's content in a form that msgspec can convert. Raises ValueError for an element with children where
    text is expected, or for a repeated element where one is expected."""
    if isinstance(kind, inspect.UnionType):
        kind = next(each for each in kind.types if not isinstance(each, inspect.NoneType))
    if not isinstance(kind, inspect.StructType):
        if len(element):
            raise ValueError("elements where text should be")
        return (element.text or "").strip() or None
    kinds = {field.encode_name: field.type for field in kind.fields}
    # An absent element is an empty list.
    values: dict[str, Any] = {name: [] for name, each in kinds.items() if isinstance(each, inspect.ListType)}
    for child in element:
        name = _local_name(child)
        each = kinds.get(name)
        if isinstance(each, inspect.ListType):
            values[name].append(_plain(child, each.item_type))
        elif each is not None:
            if name in values:
                raise ValueError("an element that should stand once stands twice")
            values[name] = _plain(child, each)
    return values
