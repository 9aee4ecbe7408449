"""Waiting for servers and states, bounded. A database that is away for a moment has not answered yet."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from redis.exceptions import RedisError
from sqlalchemy.exc import DBAPIError

T = TypeVar("T")

EVERY_S = 0.2
AWAY_S = 30.0
# What ends by itself may take this long.
LEFT_S = 20.0


def waited(true: Callable[[], object], seconds: float) -> bool:
    """Whether it came true within that time."""
    deadline = time.monotonic() + seconds
    while True:
        with suppress(DBAPIError, RedisError, OSError):
            if true():
                return True
        if time.monotonic() > deadline:
            return False
        time.sleep(EVERY_S)


def patient(look: Callable[[], T]) -> T:
    """An answer, from servers that may be on their way back."""
    deadline = time.monotonic() + AWAY_S
    while True:
        try:
            return look()
        except (DBAPIError, RedisError, OSError):
            if time.monotonic() > deadline:
                raise
            time.sleep(EVERY_S)


def until_none(look: Callable[[], list[str]], seconds: float = LEFT_S) -> list[str]:
    """What is still found once that time is over."""
    waited(lambda: not look(), seconds)
    return patient(look)
