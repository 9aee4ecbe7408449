"""Ends what `scraper start` has started, once it was killed.

Workers watch their parent by themselves and hand back their pages (`scraper.celery`); here Flower
does. The embedded servers are stopped last, by a process that waits until all others have ended:
it reads a pipe whose other end each of them holds open.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from scraper.process.parent import end_with_command


def load_app(arguments: Sequence[str]) -> None:
    """Ends Flower, started by a command, with that command. Called when Celery loads the
    application."""
    if "flower" in arguments:
        end_with_command()


class Survivors:
    """The pipe that all processes hold open, and the process that reads it. `held_end` is passed to
    each process."""

    def __init__(self, lock: Path) -> None:
        read_end, self.held_end = os.pipe()
        # -I: the script's folder must not precede the standard library.
        script = str(Path(__file__).with_name("stop_servers.py"))
        self._reader = subprocess.Popen(
            [sys.executable, "-I", script, str(lock)],
            stdin=read_end,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(read_end)

    def dismiss(self) -> None:
        """Ends the reader: this process stops the servers itself."""
        self._reader.kill()
        self._reader.wait()
        os.close(self.held_end)
