from __future__ import annotations

import getpass
import sys
from typing import Any

from django.core.management.base import CommandError

from authorizations import endings, sessions
from foundation import audit
from foundation.errors import NotFound
from partners.management.base import JSONCommand


class Command(JSONCommand):
    """The authorization_id is not an argument: it opens the holder's page, and process lists and the shell's history
    keep arguments."""

    help = "Revoga uma autorização, a pedido do titular. O authorization_id vem da entrada padrão, não como argumento."

    arguments = {
        "--by": {"metavar": "NAME", "required": True, "help": "quem revoga, para o registro"},
        "--reason": {"metavar": "TEXT", "required": True, "help": "por quê, sem dados pessoais"},
    }

    def act(self, *, by: str, reason: str, **options: Any) -> dict[str, Any]:
        """Returns `{session, evidence, revoked_at, revoked_by}`. `evidence` is null for a session that was pending. A
        second call returns the values of the first revocation."""
        try:
            session = sessions.locked(_read_id())
        except NotFound:
            raise CommandError("A entrada padrão não tem o authorization_id de uma sessão.") from None
        audit.concerns(session)
        endings.revoke(session, by, reason)
        return {
            "session": session.pk,
            "evidence": session.evidence.number if hasattr(session, "evidence") else None,
            "revoked_at": session.revoked_at,
            "revoked_by": session.revoked_by,
        }


def _read_id() -> str:
    typed = getpass.getpass("authorization_id: ") if sys.stdin.isatty() else sys.stdin.read()
    return typed.strip()
