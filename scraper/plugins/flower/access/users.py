"""The users of Flower: names with a role and the hash of a password or of a token, in
`SCRAPER_HOME/users.json`. No password or token is stored.

Passwords are hashed with scrypt, which is slow: a user's successful login is remembered in this
process until the file changes, and failed ones are limited in number. A token is random and long,
so SHA-256 is enough.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import json
import os
import re
import secrets
import time
from base64 import b64decode
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from scraper.errors import ConfigError, NotFoundError

Role = Literal["read", "operate", "edit"]
# Each role may also do what those before it may.
ROLES: tuple[Role, ...] = get_args(Role)
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@+-]{0,63}").fullmatch
PASSWORD_MIN = 8
TOKEN_PREFIX = "scr_"  # noqa: S105 - the beginning of each token
# About 50 ms and 16 MB.
SCRYPT = {"n": 2**14, "r": 8, "p": 1}
# Each failed check of a password takes Flower's time: more than these in these seconds are refused
# unread.
FAILURES_MAX, FAILURES_S = 20, 10.0
REMEMBERED_MAX = 1000


class User(NamedTuple):
    """`salt`: empty for a user with a token, which has no password. `digest`: empty too for one who
    logs in by OAuth."""

    name: str
    role: Role
    salt: str
    digest: str

    @property
    def has_token(self) -> bool:
        return bool(self.digest) and not self.salt


class LoggedIn(str):
    """The name of a user with a role, as Flower's handlers hold it. `by_token`: a token alone let
    the user in."""

    role: Role
    by_token: bool

    def __new__(cls, user: User) -> LoggedIn:
        name = super().__new__(cls, user.name)
        name.role, name.by_token = user.role, user.has_token
        return name


def users_file(home: Path) -> Path:
    return home / "users.json"


def may(role: Role, needed: Role) -> bool:
    """Returns whether the role includes what is needed."""
    return ROLES.index(role) >= ROLES.index(needed)


def with_password(name: str, role: Role, password: str) -> User:
    """Returns a user with this password. Raises `ConfigError` for a short one."""
    if len(password) < PASSWORD_MIN:
        raise ConfigError(f"a password has at least {PASSWORD_MIN} characters")
    salt = secrets.token_hex(16)
    return User(name, role, salt, hash_password(password, salt))


def with_token(name: str, role: Role) -> tuple[User, str]:
    """Returns a user, and the token to show once."""
    token = TOKEN_PREFIX + secrets.token_urlsafe(32)
    return User(name, role, "", _hash_token(token)), token


def hash_password(password: str, salt: str) -> str:
    key = hashlib.scrypt(password.encode(), salt=bytes.fromhex(salt), **SCRYPT)
    return key.hex()


def _hash_token(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


def load_users(file: Path) -> dict[str, User]:
    """Returns the users by name. Raises `ConfigError` for a file of another form."""
    try:
        rows = json.loads(file.read_text("utf-8"))
        users = {name: User(name, **row) for name, row in rows.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise ConfigError(f"{file}: cannot be read as users: {type(error).__name__}") from None
    for user in users.values():
        if user.role not in ROLES or not re.fullmatch("[0-9a-f]*", f"{user.salt}{user.digest}"):
            raise ConfigError(f"{file}: {user.name!r} has no valid role or hash")
    return users


@contextmanager
def change_users(home: Path) -> Iterator[dict[str, User]]:
    """Yields the users by name, and writes what became of them: whole, one writer at a time, in a
    file that only its owner may read."""
    home.mkdir(parents=True, exist_ok=True)
    file = users_file(home)
    with (home / "users.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        users = load_users(file)
        yield users
        rows = {
            name: {"role": user.role, "salt": user.salt, "digest": user.digest}
            for name, user in users.items()
        }
        draft = file.with_name(f".users.{secrets.token_hex(4)}")
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as output:
            json.dump(rows, output, indent=2)
            output.flush()
            os.fsync(output.fileno())
        draft.replace(file)


def require_user(users: Mapping[str, User], name: str) -> User:
    if name not in users:
        raise NotFoundError(f"no user is named {name!r}; `scraper users list` shows them")
    return users[name]


class Logins:
    """Finds the user of the file who sends a request."""

    def __init__(self, file: Path, now: Callable[[], float] = time.monotonic) -> None:
        self._file, self._now = file, now
        self._stamp: tuple[int, ...] | None = None
        self._users: dict[str, User] = {}
        self._key = secrets.token_bytes(32)
        self._remembered: dict[bytes, User] = {}
        self._failures: deque[float] = deque(maxlen=FAILURES_MAX)

    def find_user(self, authorization: str) -> User | None:
        """Returns the user of a header `Authorization`; None for any other. Raises `ConfigError` if
        the file has another form."""
        users = self._read_users()
        scheme, _, text = authorization.partition(" ")
        if not users or not text:
            return None
        if scheme.lower() == "bearer":
            return self._find_token(users, text.strip())
        if scheme.lower() != "basic":
            return None
        try:
            name, _, password = b64decode(text, validate=True).decode("utf-8").partition(":")
        except ValueError:
            return None
        return self._check_password(users.get(name), password)

    def find_address(self, address: str, otherwise: Role) -> User:
        """Returns the user whose e-mail address Flower's OAuth has proved, with the role of the
        file, or the other role. Raises `ConfigError` as `find_user` does."""
        named = {name.lower(): user for name, user in self._read_users().items()}
        known = named.get(address.lower())
        return User(address, otherwise if known is None else known.role, "", "")

    def _read_users(self) -> dict[str, User]:
        try:
            status = self._file.stat()
            stamp: tuple[int, ...] = (status.st_mtime_ns, status.st_ino, status.st_size)
        except OSError:
            stamp = ()
        if stamp != self._stamp:
            # An invalid file lets none of its users in.
            self._users, self._remembered, self._stamp = {}, {}, None
            self._users = load_users(self._file)
            self._stamp = stamp
        return self._users

    def _find_token(self, users: Mapping[str, User], token: str) -> User | None:
        digest, sender = _hash_token(token), None
        for user in users.values():
            if user.has_token and hmac.compare_digest(user.digest, digest):
                sender = user
        return sender

    def _check_password(self, user: User | None, password: str) -> User | None:
        name = "" if user is None else user.name
        seal = hmac.digest(self._key, f"{name}\0{password}".encode(), "sha256")
        if seal in self._remembered:
            return self._remembered[seal]
        now = self._now()
        if len(self._failures) == FAILURES_MAX and now - self._failures[0] < FAILURES_S:
            return None
        # An unknown name takes as long as a known one.
        if user is not None and not user.salt:
            user = None
        salt, digest = (user.salt, user.digest) if user else ("00" * 16, "")
        if hmac.compare_digest(hash_password(password, salt), digest) and user:
            if len(self._remembered) >= REMEMBERED_MAX:
                self._remembered.clear()
            self._remembered[seal] = user
            return user
        self._failures.append(now)
        return None
