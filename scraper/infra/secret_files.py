"""Files that hold secrets: made, and read again when they have changed. Errors and
logs show nothing of their text."""

from __future__ import annotations

import os
import secrets
import stat
from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

import structlog

from scraper.errors import ConfigError

log = structlog.get_logger()


def make_secret(path: Path, text: str) -> None:
    """Makes a file with one line, which only its owner may read, unless the file exists. It is
    complete before it has its name. Raises `OSError`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    _write_new(draft, text)
    try:
        with suppress(FileExistsError):
            _give_name(draft, path, text)
    finally:
        draft.unlink()


def _write_new(path: Path, text: str) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "w") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(handle)
    except OSError:
        path.unlink()
        raise


def _give_name(draft: Path, path: Path, text: str) -> None:
    """Gives a complete file its name. Raises `FileExistsError`. On a file system without hard
    links, such as exFAT, the file is written under its name."""
    try:
        os.link(draft, path)
    except FileExistsError:
        raise
    except OSError:
        _write_new(path, text)


def readable_by_all(path: Path) -> bool:
    """Returns whether users apart from the file's owner and group may read it."""
    try:
        return bool(path.stat().st_mode & stat.S_IROTH)
    except OSError:
        return False


class WatchedFile(ABC):
    """A file that is read again when it has changed. `version` grows with each change. While it is
    invalid or unreadable, the last valid content stays in use. Without a path nothing is loaded."""

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
            found = self.path.stat()
            state = (found.st_mtime_ns, found.st_size, found.st_ino)
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
