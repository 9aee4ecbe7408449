"""Settings that the plug-in `accounts` adds."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, Field


class AccountsSettings(BaseModel):
    accounts: Path | None = Field(
        None, description="a secret file of the accounts that sites log in with"
    )
    secret_key: str | None = Field(
        None,
        repr=False,
        description="seals logins in Redis, the same for all workers; "
        "unset: made once, in SCRAPER_HOME",
    )
