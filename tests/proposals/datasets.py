"""A complete submission that every bank accepts, and changes to it by dotted names."""

from typing import Any

from proposals.schema import EXAMPLE as DATASET
from proposals.shapes import Facts
from tests.client import FULL_FLOW
from tests.providers.manuals import changed

ACCOUNT = DATASET["recebimento"]["conta_bancaria"]
LEFT_OUT: Any = ...
#: What differs from the reference's example.
_OWN = {"endereco.cep": "01310100", "evidencia.tipo_envio": LEFT_OUT}
#: What an answer or an event says about a new proposal of `dataset`.
JUST_SUBMITTED: dict[str, Any] = {
    **dict.fromkeys(Facts.__struct_fields__),
    "action": None,
    "next_actions": ["formalize", "cancel"],
    "recebimento": {
        "conta_bancaria": {"banco": "001", "conta": "****90", "tipo_conta": "corrente"},
        "pix": None,
        "observacao": None,
    },
}


def dataset(offer: dict[str, Any], cpf: str = FULL_FLOW, changes: dict[str, Any] | None = None) -> dict[str, Any]:
    """The submission of an offer of the aggregated query. `changes` are values by dotted names (`titular.sexo`);
    `LEFT_OUT` takes a field away."""
    named = {"provider": offer["provider"], "offer_id": offer["offerId"]}
    return changed({"offer_ref": named, **DATASET}, {**_OWN, "titular.cpf": cpf, **(changes or {})})


def pix(kind: str, key: str) -> dict[str, Any]:
    """A `recebimento` by PIX."""
    return {"pix": {"tipo_chave": kind, "chave": key}}
