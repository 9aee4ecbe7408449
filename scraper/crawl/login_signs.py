"""The signs of a site's logged-out pages, as the plug-in that logs in provides them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class LoginSigns(Protocol):
    """Recognises pages for a logged-out visitor."""

    def logged_out(
        self, status: int, headers: Mapping[str, str], body: bytes, url: str
    ) -> str | None:
        """Returns the sign that an answer shows, in words, or None."""
        ...

    def leads_out(self, url: str) -> str | None:
        """Returns the sign that a redirect to this URL is, or None if it may be followed."""
        ...
