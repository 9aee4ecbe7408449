"""What a crawl knows of a site's logged-out pages, from whatever logs in to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class LoginSigns(Protocol):
    """The signs by which a page shows that it was answered to a logged-out visitor."""

    def logged_out(
        self, status: int, headers: Mapping[str, str], body: bytes, url: str
    ) -> str | None:
        """Returns the sign that an answer shows, in words; None: it shows none."""
        ...

    def leads_out(self, url: str) -> str | None:
        """Returns the sign that a redirect to this URL is; None: the redirect may be followed."""
        ...
