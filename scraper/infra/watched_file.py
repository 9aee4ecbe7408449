"""A secret file that is read again when it has changed. One that has become wrong or unreadable
leaves the last one that was right in use, and is logged by line numbers alone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar

import structlog

from scraper.errors import ConfigError
from scraper.settings import readable_by_all

log = structlog.get_logger()


class WatchedFile(ABC):
    """`version` grows with each change that was taken over. With no path there is nothing."""

    # The file and its entries, for people.
    label: ClassVar[str]
    entries: ClassVar[str]

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.version = 0
        self._state: tuple[int, int, int] | None = None

    @abstractmethod
    def _take(self, path: Path) -> int:
        """Takes the file over, and returns the number of its entries. Raises `ConfigError` before
        anything changes."""

    def refresh(self) -> None:
        """Takes over the file if it has changed since the last call. Never raises."""
        if self.path is None:
            return
        try:
            stat = self.path.stat()
            state = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
        except OSError as error:
            if self._state != (0, 0, 0):
                log.error(
                    f"the {self.label} cannot be read; the last one stays", reason=error.strerror
                )
            self._state = (0, 0, 0)
            return
        if state == self._state:
            return
        self._state = state
        try:
            count = self._take(self.path)
        except ConfigError as error:
            log.error(
                f"the {self.label} is wrong; the last one stays",
                problems=str(error).splitlines()[:20],
            )
            return
        self.version += 1
        log.info(f"{self.label} read", **{self.entries: count})
        if readable_by_all(self.path):
            log.warning(
                f"the {self.label} can be read by every user of this machine (fix: chmod 600)"
            )
