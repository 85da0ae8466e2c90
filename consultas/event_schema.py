"""The webhooks about queries, in the API reference."""

from __future__ import annotations

from consultas.shapes import AuthorizationResultEvent, LeadEvent, QueryCompletedEvent
from webhooks.schema import webhook

lead_event = webhook(
    "lead",
    LeadEvent,
    "Uma consulta agregada guardou ofertas",
    "Um por consulta. As consultas em fluxo, de um só banco e as que repetem respostas não o enviam.",
)
query_completed_event = webhook(
    "query.completed",
    QueryCompletedEvent,
    "Uma consulta chegou ao fim",
    "De todas as rotas, uma vez por consulta; só para cadastros que o pedem. As ofertas se buscam em "
    "`GET /consultas/{queryId}`.",
)
authorization_result_event = webhook(
    "authorization_result",
    AuthorizationResultEvent,
    "O titular concluiu, recusou ou deixou expirar um passo externo",
    "Dois bancos do mesmo CPF, ou um que primeiro recusa e depois aprova, enviam eventos com o mesmo par "
    "(`external_reference`, `event`): descarte repetições pelo `webhook-id`.",
)
