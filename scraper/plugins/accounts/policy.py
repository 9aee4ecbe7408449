"""How often an account may try to log in, what follows when it cannot, and when a login counts as
over. Pure.

Shops lock accounts after a few wrong passwords. So the fleet makes one try at a time, none during
the rest that follows a failure, and a rejected account gets the tries of `RULES` until an operator
fixes it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum

QUARANTINE_S = 6 * 3600.0
# A host that does not answer is asked for a quarter of an hour, as for pages.
PATIENCE_S = 900.0
# A page that was logged out with up to this many logins is retried without charge.
FREE_TIMES = 4
# A changed password counts at once. Two passwords that workers disagree about do not replace each
# other more often than this.
CHANGE_EVERY_S = 300.0


class Trouble(StrEnum):
    """Why an account is not logged in."""

    # The host answered and refused the account.
    REJECTED = "rejected"
    # The host did not answer, or the fault was the host's or a proxy's.
    UNAVAILABLE = "unavailable"
    # The definition does not fit the site.
    MISFIT = "misfit"
    # The login worked, but pages still look logged out.
    USELESS = "useless"


@dataclass(frozen=True, slots=True)
class Rule:
    """`rests_s`: the rest after the first failure, the second and so on. After `tries` in a row the
    account is quarantined (0: never by count)."""

    rests_s: tuple[float, ...]
    tries: int


RULES = {
    Trouble.REJECTED: Rule((60.0,), 2),
    Trouble.UNAVAILABLE: Rule((5.0, 15.0, 30.0, 60.0), 0),
    Trouble.MISFIT: Rule((10.0, 60.0), 3),
    Trouble.USELESS: Rule((10.0, 60.0), 3),
}


class SessionState(StrEnum):
    """Whether pages are fetched with a session."""

    # The process has no session.
    NONE = "none"
    TRUSTED = "trusted"
    # One page was logged out; the session stays in use.
    DOUBTED = "doubted"
    OVER = "over"


@dataclass(frozen=True, slots=True)
class SessionTrust:
    """A session's state and its transitions. `began` is when a page's request left.

    >>> trust = SessionTrust(SessionState.TRUSTED).after_logged_out_page(now=10.0)
    >>> trust.state.value, trust.is_confirmed_by(began=9.0), trust.is_confirmed_by(began=11.0)
    ('doubted', False, True)
    >>> trust.after_good_page(began=11.0).state.value
    'trusted'
    """

    state: SessionState = SessionState.NONE
    doubted_at: float = math.inf

    def is_confirmed_by(self, began: float) -> bool:
        """Returns whether a logged-out page confirms the doubt: only if it was requested after
        it."""
        return began >= self.doubted_at

    def after_good_page(self, began: float) -> SessionTrust:
        if not self.is_confirmed_by(began):
            return self
        over = self.state is SessionState.OVER
        return SessionTrust(SessionState.OVER if over else SessionState.TRUSTED)

    def after_logged_out_page(self, now: float) -> SessionTrust:
        if self.doubted_at < math.inf:
            return self
        trusted = self.state is SessionState.TRUSTED
        return SessionTrust(SessionState.DOUBTED if trusted else self.state, now)

    def after_login_ended(self) -> SessionTrust:
        return replace(self, state=SessionState.OVER)
