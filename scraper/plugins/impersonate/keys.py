"""`impersonate:` in a definition: the browser whose TLS, HTTP/2 and headers are sent. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from scraper.rules.browsers import BROWSER
from scraper.sites.grammar.model import Problems
from scraper.sites.plugin_keys import DefinitionKeys

if TYPE_CHECKING:
    from scraper.sites.definition import Site


class ImpersonateKeys(DefinitionKeys):
    reading_keys: ClassVar[frozenset[str]] = frozenset({"impersonate", "http2"})
    impersonate: Literal["chrome", "firefox", "safari", "any"] | None = Field(
        None,
        description="the browser whose TLS, HTTP/2 and headers are sent",
    )
    http2: bool = Field(False, description="use HTTP/2 if the host supports it")

    @classmethod
    def check(cls, site: Site, problems: Problems) -> None:
        browser = site.of(cls).impersonate
        if browser is not None and site.user_agent not in (None, BROWSER):
            problems.add(
                "user_agent",
                f"does not go with `impersonate: {browser}`, which sends the User-Agent that fits "
                "its TLS (fix: remove it)",
            )
