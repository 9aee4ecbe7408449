"""Where the login of Flower's Crawls tab is found, as the commands that start servers show it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from scraper.settings import Settings


@dataclass(frozen=True, slots=True)
class Login:
    """`where` says where the password is found, not what it is."""

    user: str
    password: str = field(repr=False)
    where: str
    # The password was made here and is kept in a file; otherwise a setting gives it.
    generated: bool = False


class FlowerLogin(Protocol):
    """A service of the plug-in that brings Flower."""

    def get(self, settings: Settings) -> Login:
        """The login, with a password that is made on first use."""
        ...
