"""One serializer serves all requests, and keeps no data of any request."""

import gc
from typing import Any

import pytest

from consultas.serializers import QueryRequest
from foundation import validation
from foundation.errors import InvalidInput
from foundation.fields import Block, BooleanField, TextField
from foundation.validation import validated


class Inner(Block):
    word = TextField()


class Body(Block):
    name = TextField()
    inner = Inner(required=False)
    many = Inner(many=True, required=False)
    yes = BooleanField(required=False)


def reachable(start: Any) -> set[str]:
    """The texts reachable from `start` by references, except through modules and classes."""
    texts: set[str] = set()
    seen: set[int] = set()
    todo = [start]
    while todo:
        each = todo.pop()
        if id(each) in seen or isinstance(each, type) or type(each).__name__ in ("module", "function"):
            continue
        seen.add(id(each))
        if isinstance(each, str):
            texts.add(each)
        todo.extend(gc.get_referents(each))
    return texts


def test_a_serializer_keeps_nothing_of_a_body_right_or_wrong():
    secret = "only-in-this-body"
    validated(Body, {"name": secret, "inner": {"word": secret}, "many": [{"word": secret}], "yes": True})
    with pytest.raises(InvalidInput):
        validated(Body, {"name": secret, "inner": {"word": 1}, "many": [{"word": secret}, {}], "yes": secret})
    serializer = validation._built(Body, "")
    assert "name" in reachable(serializer)
    assert not [text for text in reachable(serializer) if secret in text]


def test_faults_of_one_body_are_not_those_of_the_next():
    with pytest.raises(InvalidInput) as fault:
        validated(Body, {"inner": {}, "many": [{"word": "a"}, {"word": 1}]})
    assert [detail.field for detail in fault.value.details] == ["name", "inner.word", "many.1.word"]
    assert validated(Body, {"name": "a"}) == {"name": "a"}
    assert validated(Body, {"name": "b", "yes": False}) == {"name": "b", "yes": False}


def test_it_is_built_once_for_each_variant():
    own, session = (validation._built(QueryRequest, variant) for variant in ("own evidence", "session"))
    assert own is validation._built(QueryRequest, QueryRequest.variant_for({"cpf": "1"}))
    assert session is validation._built(QueryRequest, QueryRequest.variant_for({"authorization_id": "a"}))
    assert own.fields["client_ip"].required
    assert "client_ip" not in session.fields
    assert not QueryRequest().fields["client_ip"].required, "what the API's schema shows"
