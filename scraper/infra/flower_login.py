"""The login of Flower, as the commands that start servers show it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from scraper.settings import Settings


@dataclass(frozen=True, slots=True)
class Credentials:
    """Flower's user and password. `where` names the password's place, not the password."""

    user: str
    password: str = field(repr=False)
    where: str
    # Whether the password was generated and is stored in a file; otherwise it is a setting.
    generated: bool = False


class FlowerLogin(Protocol):
    """A service of the plug-in that adds Flower."""

    def read_login(self, settings: Settings) -> Credentials:
        """Reads the login; generates its password on first use."""
        ...
