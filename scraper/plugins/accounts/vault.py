"""Seals logins for Redis and opens them. A login that cannot be opened counts as
none, and is logged once."""

from __future__ import annotations

import json

import structlog

from scraper.crawl.context import CrawlContext
from scraper.http.account_session import AccountSession
from scraper.plugins.accounts.file import Account
from scraper.plugins.accounts.login.attempt import make_account_session
from scraper.plugins.accounts.sealing import Seal, make_seal
from scraper.plugins.accounts.status import AccountStatus
from scraper.settings import Settings

log = structlog.get_logger()


class LoginVault:
    """The vault of one process. It reads or makes the key when it is first needed."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._seal_made: Seal | None = None
        self._unreadable: set[tuple[str, str]] = set()

    def marks(self, account: Account) -> list[str]:
        """Returns the marks by which Redis recognizes a changed account. Raises `ConfigError` for a
        wrong key."""
        return self._seal.marks(account.whole())

    @property
    def _seal(self) -> Seal:
        if self._seal_made is None:
            self._seal_made = make_seal(self._settings)
        return self._seal_made

    def open_session(
        self, site: str, account: Account, standing: AccountStatus, context: CrawlContext
    ) -> AccountSession | None:
        """Returns the stored login of an account; None if it cannot be read, which is logged once,
        or belongs to another account."""
        text = self._seal.open(standing.sealed)
        if text is None:
            if (site, account.name) not in self._unreadable:
                self._unreadable.add((site, account.name))
                log.error(
                    "a login in Redis was sealed with another key, and counts as none (fix: the "
                    "same SCRAPER_SECRET_KEY for all workers)",
                    site=site,
                    account=account.name,
                )
            return None
        try:
            kept = json.loads(text)
            if (kept["site"], kept["account"]) != (site, account.name):
                return None
            identity = make_account_session(context, account)
            identity.headers = dict(kept["headers"])
            identity.jar.load(kept["cookies"])
        except (ValueError, KeyError, TypeError):
            return None
        identity.generation = standing.generation
        return identity

    def seal_session(self, identity: AccountSession) -> bytes:
        kept = {
            "site": identity.site,
            "account": identity.account,
            "cookies": identity.jar.dump(),
            "headers": dict(identity.headers),
        }
        return self._seal.seal(json.dumps(kept).encode())

    def merge(self, identity: AccountSession, standing: AccountStatus) -> bool:
        """Takes over the cookies that another process has written. Returns False if they cannot be
        opened, or are another account's."""
        text = self._seal.open(standing.sealed)
        if text is None:
            return False
        try:
            kept = json.loads(text)
            if (kept["site"], kept["account"]) != (identity.site, identity.account):
                return False
            identity.jar.load(kept["cookies"])
        except (ValueError, KeyError, TypeError):
            return False
        return True

    def opens(self, standing: AccountStatus) -> bool:
        return self._seal.open(standing.sealed) is not None
