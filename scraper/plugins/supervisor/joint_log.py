"""One log of several processes: each line begins with the name of its process. It goes to standard
output and to `SCRAPER_HOME/log/start.log`."""

from __future__ import annotations

import re
import sys
from datetime import UTC, datetime
from logging import Handler, LogRecord, StreamHandler
from logging.handlers import RotatingFileHandler
from pathlib import Path

OWN_NAME = "start"
NAME_WIDTH = 11
FILE_MAX_BYTES = 10_000_000
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class _ForgivingStream(StreamHandler):  # type: ignore[type-arg]
    def handleError(self, record: LogRecord) -> None:  # noqa: N802 - the name is logging's
        """Ignores a terminal that was closed: the work goes on, and the file has every line."""


class _ForgivingFile(RotatingFileHandler):
    def handleError(self, record: LogRecord) -> None:  # noqa: N802 - the name is logging's
        """Ignores a full disk, which must not end a crawl."""


class JointLog:
    """The log. Several threads may write."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._handlers: list[Handler] = [
            _ForgivingStream(sys.stdout),
            _ForgivingFile(path, maxBytes=FILE_MAX_BYTES, backupCount=1, encoding="utf-8"),
        ]

    def write(self, name: str, line: str) -> None:
        """Writes a line of the process `name`. Colours and control characters are removed."""
        text = "".join(
            char if char.isprintable() or char == "\t" else "?" for char in _COLOUR.sub("", line)
        )
        record = LogRecord(name, 0, "", 0, f"{name:<{NAME_WIDTH}} | {text}", None, None)
        for handler in self._handlers:
            handler.handle(record)

    def tell(self, sentence: str) -> None:
        """Writes a line of this process's own, with the time."""
        for line in sentence.splitlines():
            self.write(OWN_NAME, f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} {line}")

    def close(self) -> None:
        for handler in self._handlers:
            handler.close()
