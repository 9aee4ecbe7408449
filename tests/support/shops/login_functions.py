"""Login functions as a site's own module has them, for tests/integration/plugins/accounts/test_logins.py."""

from __future__ import annotations

from typing import Any

from scraper.plugins.accounts.file import Account
from scraper.plugins.accounts.login.form import LoginClient


async def by_form(client: LoginClient, account: Account) -> dict[str, Any]:
    """Fills in the form by hand, in two steps."""
    page = await client.get(account.values["where"])
    csrf = page.selector.css("input[name=csrf]::attr(value)").get() or ""
    answer = await client.post(
        account.values["where"],
        data={
            "csrf": csrf,
            "lang": "en",
            "stay": "1",
            "email": account.username,
            "pass": account.password,
        },
    )
    if not answer.selector.css("a.logout"):
        raise PermissionError(f"no {account.password} for {account.username}")
    return {"expires": 3600}


async def by_header(client: LoginClient, account: Account) -> dict[str, Any]:
    base = account.values["where"].removesuffix("/login")
    answer = await client.post(
        f"{base}/api/token", json_={"user": account.username, "pass": account.password}
    )
    return {
        "headers": {"Authorization": f"Bearer {answer.json()['data']['token']}"},
        "cookies": {"hello": "1"},
    }


async def broken(client: LoginClient, account: Account) -> None:
    raise RuntimeError(f"what about {account.password}?")
