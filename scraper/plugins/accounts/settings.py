"""Settings that the plug-in `accounts` adds."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, Field


class AccountsSettings(BaseModel):
    accounts: Path | None = Field(
        None, description="a secret file of accounts for sites with a login"
    )
    secret_key: str | None = Field(
        None,
        repr=False,
        description=(
            "the key that encrypts logins in Redis, the same for all workers; unset: "
            "generated once, in SCRAPER_HOME"
        ),
    )
