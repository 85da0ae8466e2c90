"""Opening and finding sessions."""

from __future__ import annotations

import re

from django.db import transaction
from django.utils import timezone

from authorizations.models import ID_LENGTH, VALIDITY, Session, Terms
from foundation.encryption import blind_index
from foundation.errors import NotFound
from partners.models import Partner

_ID_SHAPE = re.compile(rf"[A-Za-z0-9]{{{ID_LENGTH}}}", re.ASCII)


def open_session(partner: Partner, *, cpf: str, name: str, phone: str) -> tuple[Session, bool]:
    """The partner's live pending session for this CPF, and whether it was made just now.

    `name` and `phone` count for a new session only. However many calls race, also at the very end of the old
    session's life, one session comes out: the unique index lets one pending row in, the others find it.
    """
    now = timezone.now()
    index = blind_index("cpf", cpf)
    new = Session(
        partner=partner,
        cpf=cpf,
        cpf_index=index,
        name=name,
        phone=phone,
        terms=Terms.current(),
        created_at=now,
        expires_at=now + VALIDITY,
    )
    pending = Session.objects.select_related("terms").filter(
        partner=partner, cpf_index=index, status=Session.Status.PENDING
    )
    while True:
        with transaction.atomic():
            pending.filter(expires_at__lte=now).update(status=Session.Status.EXPIRED)
            Session.objects.bulk_create([new], ignore_conflicts=True)
            session = pending.first()
        if session is not None:
            return session, session.authorization_id == new.authorization_id
        # The one in our way was accepted since the insert: the next pass gets ours in.


def find(authorization_id: str, partner: Partner | None = None) -> Session:
    """The session of that id, of that partner where one is given. Raises NotFound."""
    sessions = Session.objects.select_related("partner", "terms", "evidence")
    if partner is not None:
        sessions = sessions.filter(partner=partner)
    # The id comes out of a URL: PostgreSQL would choke on a NUL in it.
    if not _ID_SHAPE.fullmatch(authorization_id):
        raise NotFound("Autorização não encontrada.")
    try:
        return sessions.get(authorization_id=authorization_id)
    except Session.DoesNotExist:
        raise NotFound("Autorização não encontrada.") from None


def locked(authorization_id: str) -> Session:
    """The session, locked until the transaction ends: the second of two acceptances sees the first one's.

    Asked for anew after the lock is there: what was joined before the wait would be of before the wait, and the
    session may be gone. Raises NotFound.
    """
    found = find(authorization_id)
    Session.objects.select_for_update().only("pk").filter(pk=found.pk).first()
    return find(authorization_id)
