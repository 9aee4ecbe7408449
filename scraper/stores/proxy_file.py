"""The list of proxies on disk, read again when it has changed. The one place that sees the file; its text goes nowhere.

A list that has become wrong or unreadable keeps the last one that was right in use, and is logged by line numbers alone.
"""

from __future__ import annotations

import stat
from pathlib import Path

import structlog

from scraper.errors import ConfigError
from scraper.policy import proxies
from scraper.policy.proxies import ListError, Proxy

log = structlog.get_logger()

SIZE_MAX = 20_000_000


class ProxyFile:
    """`version` grows with each change that was taken over. With no path there are no proxies."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.proxies: list[Proxy] = []
        self.version = 0
        self._state: tuple[int, int, int] | None = None

    def look(self) -> None:
        """Takes over the file if it has changed since the last look. Never raises."""
        if self.path is None:
            return
        try:
            found = self.path.stat()
            state = (found.st_mtime_ns, found.st_size, found.st_ino)
        except OSError as error:
            if self._state != (0, 0, 0):
                log.error("the list of proxies cannot be read; the last one stays", reason=error.strerror)
            self._state = (0, 0, 0)
            return
        if state == self._state:
            return
        self._state = state
        try:
            self.proxies = read(self.path)
        except ConfigError as error:
            log.error("the list of proxies is wrong; the last one stays", problems=str(error).splitlines()[:20])
            return
        self.version += 1
        log.info("list of proxies read", proxies=len(self.proxies))
        if open_to_all(self.path):
            log.warning("the list of proxies can be read by every user of this machine (mend: chmod 600)")


def read(path: Path) -> list[Proxy]:
    """Raises `ConfigError` with one line a problem, none of which shows what the file holds."""
    try:
        if path.stat().st_size > SIZE_MAX:
            raise ConfigError(f"{path}: larger than {SIZE_MAX:,} bytes")
        text = path.read_text("utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or 'cannot be read'} (PROXY_LIST)") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: not a text in UTF-8 (PROXY_LIST)") from None
    try:
        return proxies.parse(text, str(path))
    except ListError as error:
        raise ConfigError(str(error)) from None


def open_to_all(path: Path) -> bool:
    """True where others than its owner and group may read it."""
    try:
        return bool(path.stat().st_mode & stat.S_IROTH)
    except OSError:
        return False
