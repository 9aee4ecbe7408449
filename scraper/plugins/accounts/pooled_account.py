"""What a worker process knows of one account."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass, field

from scraper.http.account_session import AccountSession
from scraper.plugins.accounts.file import Account
from scraper.plugins.accounts.policy import SessionState, SessionTrust
from scraper.plugins.accounts.status import AccountStatus

# A login is renewed when this part of its time is left.
RENEW_EARLY = 0.02


@dataclass(slots=True)
class PooledAccount:
    """Times are the loop's. `marks` identify the account's entry in the secrets file."""

    account: Account
    marks: list[str]
    session: AccountSession | None = None
    trust: SessionTrust = field(default_factory=SessionTrust)
    expires_at: float = math.inf
    # The same by Redis's clock, 0 if unknown.
    expires_us: int = 0
    revision: int = 0
    # The generation that was used last, or that cannot be opened.
    seen_generation: int = 0
    # No login is attempted before this time, for this reason.
    ask_at: float = 0.0
    why: str = ""
    quarantined: bool = False
    # The start of the last request that fetched a good page.
    good_began: float = -math.inf
    used_at: float = 0.0
    saved_at: float = -math.inf
    login: asyncio.Task[None] | None = None

    @property
    def logged_in(self) -> bool:
        return self.session is not None and self.trust.state is not SessionState.OVER

    def is_usable(self, now: float) -> bool:
        return self.logged_in and now < self.expires_at

    def use_session(self, session: AccountSession, status: AccountStatus, now: float) -> None:
        """Takes a session over from the store. It has fetched no page here yet, and is renewed
        early: before the store lets it expire."""
        session.proven = status.proven
        self.session = session
        self.seen_generation = session.generation
        self.trust = SessionTrust(SessionState.TRUSTED)
        self.good_began = -math.inf
        self.revision = status.revision
        self.expires_us = status.expires_us
        self.expires_at = math.inf
        if status.expires_in_s is not None:
            self.expires_at = now + status.expires_in_s * (1 - RENEW_EARLY)
        self.quarantined = False
        self.why = ""
        self.ask_at = 0.0

    def end_session(self) -> None:
        self.trust = self.trust.after_login_ended()

    def forget_session(self) -> None:
        self.session, self.seen_generation, self.ask_at = None, 0, 0.0
        self.trust = SessionTrust()

    def record_good_page(self, began: float) -> None:
        self.good_began = max(self.good_began, began)
        self.trust = self.trust.after_good_page(began)
