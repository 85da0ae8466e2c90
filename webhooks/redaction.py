"""An event's body as operators may read it: without personal data and URLs."""

from __future__ import annotations

import json
import re
from typing import Any

from foundation.formats import mask_cpf, without_personal_data

HIDDEN = "[oculto]"
#: Fields that hold personal data, the URL of a person's page, or a secret.
_PERSONAL = re.compile(
    r"name|nome|phone|telefone|celular|mail|url|link|authorization_?id|registration|matricula|account|conta|agencia"
    r"|pix|chave|employer|empregador|endereco|address|token|secret|key",
    re.ASCII | re.IGNORECASE,
)
_CPF = re.compile(r"cpf", re.ASCII | re.IGNORECASE)


def redacted(body: str, *, reference: str, shown_reference: str) -> str:
    """The JSON text `body`, redacted and indented. `shown_reference` replaces the event's external `reference`."""

    def hide(name: str, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: hide(key, each) for key, each in value.items()}
        if isinstance(value, list):
            return [hide(name, each) for each in value]
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str) and value == reference:
            return shown_reference
        if _CPF.search(name):
            return mask_cpf(str(value))
        if _PERSONAL.search(name):
            return HIDDEN
        return without_personal_data(value) if isinstance(value, str) else value

    return json.dumps(hide("", json.loads(body)), ensure_ascii=False, indent=2)
