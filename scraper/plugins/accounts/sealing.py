"""Seals texts that only this application's processes may read. The key is never stored with them.

The key is `SCRAPER_SECRET_KEY`, or is made once in `SCRAPER_HOME`. Workers on several machines need
the same one. Of several keys, separated by commas, the first seals and all open, so that a key can
be replaced without losing sealed texts.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets

from cryptography.fernet import Fernet, InvalidToken, MultiFernet

from scraper.errors import ConfigError
from scraper.infra.secret_files import make_secret
from scraper.plugins.accounts.settings import AccountsSettings
from scraper.settings import Settings

KEY_MIN_CHARS = 32
FILE = "secret-key"


class Seal:
    """Fernet (AES-128-CBC with HMAC-SHA256, by `cryptography`) over keys of any spelling."""

    def __init__(self, keys: list[str]) -> None:
        self._keys = [hashlib.sha256(b"scraper sealing " + key.encode()).digest() for key in keys]
        self._ids = [hashlib.sha256(b"id " + key).hexdigest()[:12] for key in self._keys]
        self._fernet = MultiFernet([Fernet(base64.urlsafe_b64encode(key)) for key in self._keys])

    def seal(self, text: bytes) -> bytes:
        return self._fernet.encrypt(text)

    def open(self, sealed: bytes) -> bytes | None:
        """Returns None if none of the keys opens it."""
        try:
            return self._fernet.decrypt(sealed)
        except InvalidToken:
            return None

    def marks(self, text: bytes) -> list[str]:
        """Returns `KEY:MARK` for each key. Equal texts have equal marks, and only the holder of a
        key can compute them."""
        return [
            f"{key_id}:{hmac.new(key, text, 'sha256').hexdigest()[:24]}"
            for key_id, key in zip(self._ids, self._keys, strict=True)
        ]

    def __repr__(self) -> str:
        return f"<Seal {', '.join(self._ids)}>"


def make_seal(settings: Settings) -> Seal:
    """Raises `ConfigError`, whose message shows no key."""
    own = settings.of(AccountsSettings)
    if own.secret_key is None:
        return Seal([_read_or_make_key(settings)])
    keys = [key.strip() for key in own.secret_key.split(",") if key.strip()]
    if not keys or any(len(key) < KEY_MIN_CHARS for key in keys):
        raise ConfigError(
            f"environment variable SCRAPER_SECRET_KEY: a key has at least "
            f"{KEY_MIN_CHARS} characters (fix: make one "
            "with `openssl rand -hex 32`)"
        )
    return Seal(keys)


def _read_or_make_key(settings: Settings) -> str:
    """Returns the key in `SCRAPER_HOME`, made on first use."""
    path = settings.home_dir / FILE
    try:
        if not path.exists():
            make_secret(path, secrets.token_hex(32))
        key = path.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "cannot be read"
        raise ConfigError(
            f"{path}: {reason} (fix: its permissions, or set SCRAPER_SECRET_KEY)"
        ) from None
    if len(key) < KEY_MIN_CHARS:
        raise ConfigError(f"{path}: no key (fix: remove it, and a new one is made)")
    return key
