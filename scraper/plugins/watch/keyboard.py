"""The keys that `scraper watch` understands."""

from __future__ import annotations

import os
import re
import select
import sys
import termios
import time
import tty
from typing import Self

from scraper.cli.crawl.screen import SORTS, Choice

_PAGE_KEYS = {"\x1b[6~": "n", "\x1b[B": "n", "\x1b[5~": "p", "\x1b[A": "p"}
_KEYS = re.compile("|".join((*map(re.escape, _PAGE_KEYS), ".")), re.DOTALL)


class Keyboard:
    """Reads single keys, and restores the terminal at the end. Without a terminal it reads none."""

    def __enter__(self) -> Self:
        self._file: int | None = sys.stdin.fileno() if sys.stdin.isatty() else None
        if self._file is not None:
            self._before = termios.tcgetattr(self._file)
            tty.setcbreak(self._file)
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            termios.tcsetattr(self._file, termios.TCSADRAIN, self._before)

    def read(self, timeout_s: float) -> str:
        """Returns what is typed within the time; an empty text if nothing is."""
        if self._file is None:
            time.sleep(max(0.0, timeout_s))
            return ""
        if not select.select([self._file], [], [], max(0.0, timeout_s))[0]:
            return ""
        typed = os.read(self._file, 64)
        if not typed:
            # The terminal was closed.
            self._file = None
        return typed.decode(errors="ignore")


def press_keys(choice: Choice, typed: str) -> bool:
    """Applies typed keys to the choice. Returns False when the operator quits."""
    for key in _KEYS.findall(typed):
        if key in _PAGE_KEYS:
            choice.typing = False
            key = _PAGE_KEYS[key]
        if key == "\x1b":
            choice.typing, choice.search, choice.first = False, "", 0
        elif choice.typing:
            if key in "\r\n":
                choice.typing = False
            else:
                choice.search = choice.search[:-1] if key in "\x7f\b" else choice.search + key
                choice.first = 0
        elif key == "q":
            return False
        elif key == "/":
            choice.typing, choice.search, choice.first = True, "", 0
        elif key == "s":
            choice.sort = SORTS[(SORTS.index(choice.sort) + 1) % len(SORTS)]
            choice.first = 0
        elif key == "n":
            choice.first += choice.shown
        elif key == "p":
            choice.first = max(0, choice.first - max(choice.shown, 1))
    return True
