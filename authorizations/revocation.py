"""The holder's own revocation, on the page of an accepted session."""

from django.utils import timezone

from authorizations import codes, sessions

#: The name stored for a revocation by the holder, and its reason.
BY_HOLDER = "titular"
REASON = "pedido do titular na página da autorização"


def revoke_by_holder(authorization_id: str, page_round: int | None, code: str) -> None:
    """Revoke an accepted session, while its page offers that (`Session.holder_may_revoke`). Otherwise does nothing: the
    page shows the state.

    If the partner's registration requires codes, so does the revocation: a code sent after the acceptance, and an
    answered page of ours (`page_round`). Raises NotFound, NotFromPage, PageUsed, WrongCode and TooManyCodes.
    """
    with sessions.refusals_committed():
        session, now = sessions.locked(authorization_id), timezone.now()
        if not session.holder_may_revoke(now):
            return
        if session.partner.sms_code:
            sessions.use_page(session, page_round)
        confirmation = codes.check(session, code, now)
        how = f", confirmado por código enviado a {confirmation['number']}" if confirmation else ""
        session.revoke(BY_HOLDER, REASON + how)
