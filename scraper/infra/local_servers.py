"""Servers of this machine that a plug-in starts, as commands that need some see them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from scraper.settings import Settings


class LocalServer(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def running(self) -> bool: ...
    @property
    def address(self) -> str: ...


class LocalServers(Protocol):
    """A service of the plug-in that brings servers."""

    def up(self, settings: Settings) -> Sequence[LocalServer]:
        """Starts what is not running, and waits until it answers."""
        ...

    def down(self, settings: Settings) -> Sequence[LocalServer]:
        """Stops what runs."""
        ...

    def status(self, settings: Settings) -> Sequence[LocalServer]: ...
