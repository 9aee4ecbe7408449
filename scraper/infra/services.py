"""Protocols of the services that plug-ins bring: servers of this machine, the login of Flower, and
clients that find Redis by its sentinels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from scraper.registry import find_service

if TYPE_CHECKING:
    import redis
    import redis.asyncio as aredis

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


class Sentinels(Protocol):
    """A service of the plug-in that finds Redis by its sentinels, from URLs with `sentinel://`."""

    def broker_url(self, url: str) -> str:
        """Returns kombu's spelling. Raises `ValueError` for a wrong URL."""
        ...

    def broker_options(self, url: str) -> Mapping[str, Any]: ...
    def connect(self, url: str, **options: Any) -> redis.Redis: ...
    def connect_async(self, url: str, **options: Any) -> aredis.Redis: ...


def find_sentinels() -> Sentinels:
    """Raises `ValueError` if the plug-in is off."""
    sentinels = find_service(Sentinels)  # type: ignore[type-abstract]
    if sentinels is None:
        raise ValueError("names sentinels, but the plug-in sentinel is off (see scraper plugins)")
    return sentinels


class ServersOwner(Protocol):
    """A service of the plug-in that keeps the servers running."""

    def find_process(self, settings: Settings) -> int | None:
        """Returns the process that would start stopped servers again, or None."""
        ...
