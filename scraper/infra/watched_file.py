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

    what: ClassVar[str]  # the file, for people
    # what there are so many of in it
    counted: ClassVar[str]

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.version = 0
        self._state: tuple[int, int, int] | None = None

    @abstractmethod
    def _take(self, path: Path) -> int:
        """Takes the file over, and returns how many there are in it. Raises `ConfigError` before
        anything changes."""

    def look(self) -> None:
        """Takes over the file if it has changed since the last look. Never raises."""
        if self.path is None:
            return
        try:
            found = self.path.stat()
            state = (found.st_mtime_ns, found.st_size, found.st_ino)
        except OSError as error:
            if self._state != (0, 0, 0):
                log.error(
                    f"the {self.what} cannot be read; the last one stays", reason=error.strerror
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
                f"the {self.what} is wrong; the last one stays",
                problems=str(error).splitlines()[:20],
            )
            return
        self.version += 1
        log.info(f"{self.what} read", **{self.counted: count})
        if readable_by_all(self.path):
            log.warning(
                f"the {self.what} can be read by every user of this machine (mend: chmod 600)"
            )
