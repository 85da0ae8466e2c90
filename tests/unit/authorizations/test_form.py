"""The page's form, read without a server: no value in it breaks the route."""

from contextlib import suppress
from dataclasses import asdict
from urllib.parse import urlencode

import pytest

from authorizations import seal
from authorizations.holder_views import read_form
from authorizations.serializers import reported_by_browser, valid_form
from foundation.errors import InvalidInput

VALUES = ["1", "null", "true", "{}", "[]", "1.5", '"x"', '{"a":1}', "[[]]", '"\\ud800"']
FIELDS = ["page", "accepted", "terms_version", "geolocation", "geolocation_status", "device", "browser", "sent_as"]


@pytest.mark.parametrize("name", FIELDS)
def test_every_form_is_refused_or_can_be_recorded(name: str) -> None:
    for value in VALUES:
        told = f'"{name}":{value}'
        for field, sent in (
            ("browser", f"{{{told}}}"),
            ("browser", f'{{"geolocation":{{{told}}}}}'),
            ("browser", f'{{"device":{{{told}}}}}'),
            (name, value),
        ):
            form = read_form(urlencode({field: sent}).encode())
            assert {type(form[field]) for field in ("page", "code", "script")} == {str}, "the script sets none of them"
            with suppress(InvalidInput):
                seal.canonical(asdict(reported_by_browser(*valid_form(form))))
