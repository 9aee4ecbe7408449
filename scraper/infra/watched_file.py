"""A secret file that is read again when it has changed. If it becomes invalid or unreadable, the
last valid content stays in use, and the log names line numbers only."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar

import structlog

from scraper.errors import ConfigError
from scraper.settings import readable_by_all

log = structlog.get_logger()


class WatchedFile(ABC):
    """`version` grows with each change that is loaded. Without a path nothing is loaded."""

    # The names of the file and its entries in logs.
    label: ClassVar[str]
    entries: ClassVar[str]

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.version = 0
        self._state: tuple[int, int, int] | None = None

    @abstractmethod
    def _load_entries(self, path: Path) -> int:
        """Loads the file and returns the number of its entries. Raises `ConfigError` before
        anything changes."""

    def refresh(self) -> None:
        """Loads the file if it has changed since the last call. Never raises."""
        if self.path is None:
            return
        try:
            stat = self.path.stat()
            state = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
        except OSError as error:
            if self._state != (0, 0, 0):
                log.error(
                    f"the {self.label} cannot be read; the last content stays in use",
                    reason=error.strerror,
                )
            self._state = (0, 0, 0)
            return
        if state == self._state:
            return
        self._state = state
        try:
            count = self._load_entries(self.path)
        except ConfigError as error:
            log.error(
                f"the {self.label} is invalid; the last content stays in use",
                problems=str(error).splitlines()[:20],
            )
            return
        self.version += 1
        log.info(f"{self.label} read", **{self.entries: count})
        if readable_by_all(self.path):
            log.warning(
                f"the {self.label} can be read by every user of this machine (fix: chmod 600)"
            )
