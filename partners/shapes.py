"""What the failed calls of a partner look like."""

from typing import Annotated

from foundation.shapes import Moment, Shape


class FailedCall(Shape):
    at: Annotated[Moment, "Quando a chamada foi respondida.", "2026-03-02T14:00:02.315Z"]
    method: Annotated[str, "O método HTTP.", "POST"]
    route: Annotated[
        str,
        "A rota como nesta referência, sem os ids do endereço; vazia se não há tal rota.",
        "/partners/v1/consultas",
    ]
    status: Annotated[int, "O status HTTP, de 400 a 599.", 422]
    code: Annotated[str, "O `code` do erro.", "invalid_input"]
    field: Annotated[str | None, "O primeiro campo com falha; nulo se nenhum é do contrato.", "cpf"]
    request_id: Annotated[
        str, "O `X-Request-Id` da chamada; de várias somadas, o da primeira.", "5f0c9f0e7f0a4c0e9a530a4f3a3f9b11"
    ]
    times: Annotated[
        int,
        "Quantas chamadas iguais a linha soma: 1, salvo acima de 60 falhas por minuto. A soma vem ao fim do minuto.",
        1,
    ]


class FailedCallPage(Shape):
    failed_calls: Annotated[list[FailedCall], "Da mais nova à mais antiga."]
    next_cursor: Annotated[str | None, "Para pedir a página seguinte; nulo na última."]
