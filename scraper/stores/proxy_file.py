"""The list of proxies on disk, read again when it has changed. The one place that sees the file; its text goes nowhere.

A list that has become wrong or unreadable keeps the last one that was right in use, and is logged by line numbers alone.
"""

from __future__ import annotations

from pathlib import Path

import structlog

from scraper.errors import ConfigError
from scraper.policy import proxies
from scraper.policy.proxies import ListError, Proxy
from scraper.secret_files import open_to_all, read_text

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
    text = read_text(path, "PROXY_LIST", SIZE_MAX)
    try:
        return proxies.parse(text, str(path))
    except ListError as error:
        raise ConfigError(str(error)) from None
