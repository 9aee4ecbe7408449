"""What Redis knows of an account, as values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

STATES = ("logged in", "logging in", "resting", "quarantine", "not yet")


class LoginLockResult(StrEnum):
    """Whether a process may log an account in: the words of `scripts/acquire.lua`."""

    # The caller logs in, and reports the result.
    ACQUIRED = "acquired"
    # There is a later login than the one that the caller saw logged out.
    NEWER = "newer"
    # The last login failed, and the account rests.
    RESTING = "resting"
    # The last login began less than `login.every` ago.
    TOO_SOON = "too_soon"
    # Another process logs in.
    BUSY = "busy"


@dataclass(frozen=True, slots=True)
class AccountStatus:
    """Times are seconds from now."""

    generation: int = 0
    sealed: bytes = b""
    revision: int = 0
    expires_us: int = 0
    expires_in_s: float | None = None
    locked_s: float = 0.0
    tried_ago_s: float | None = None
    rest_s: float = 0.0
    quarantined: bool = False
    kind: str = ""
    why: str = ""
    proven: bool = False
    logins: int = 0
    failures: int = 0
    age_s: float | None = None

    @property
    def state(self) -> str:
        """The account's state, one of STATES."""
        if self.quarantined:
            return "quarantine"
        if self.locked_s:
            return "logging in"
        if self.rest_s:
            return "resting"
        return "logged in" if self.generation else "not yet"

    @property
    def known(self) -> bool:
        """False before the first login, and after an operator had the account forgotten."""
        return bool(self.generation or self.failures or self.locked_s)


def parse_status(now_us: int, flat: Sequence[Any]) -> AccountStatus:
    """Reads an account's hash, names and values in turn, as `scripts/common.lua` describes it."""
    fields = {
        name.decode("utf-8", "replace"): value
        for name, value in zip(flat[::2], flat[1::2], strict=True)
    }

    def read_number(name: str) -> int:
        text = fields.get(name, b"0")
        # The next script removes what no script wrote.
        return int(text) if text.isdigit() and len(text) <= 16 else 0

    generation, expires = read_number("generation"), read_number("expires")
    return AccountStatus(
        generation=generation,
        sealed=fields.get("sealed", b""),
        revision=read_number("revision"),
        expires_us=expires,
        expires_in_s=(expires - now_us) / 1e6 if expires else None,
        locked_s=max(0.0, (read_number("locked") - now_us) / 1e6),
        tried_ago_s=(now_us - read_number("tried")) / 1e6 if "tried" in fields else None,
        rest_s=max(0.0, (read_number("rest") - now_us) / 1e6),
        quarantined=fields.get("quarantined") == b"1" and read_number("rest") > now_us,
        kind=fields.get("kind", b"").decode("utf-8", "replace"),
        why=fields.get("why", b"").decode("utf-8", "replace"),
        proven=generation != 0 and read_number("proven") == generation,
        logins=read_number("logins"),
        failures=read_number("failures"),
        age_s=(now_us - generation) / 1e6 if generation else None,
    )
