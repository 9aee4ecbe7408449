"""Files that hold secrets: read whole or not at all, and with errors that show nothing of what is
in them."""

from __future__ import annotations

import stat
from pathlib import Path

from scraper.errors import ConfigError


def read_text(path: Path, variable: str, max_bytes: int) -> str:
    """The file's text. Raises `ConfigError`, which names the environment variable that names the
    file."""
    try:
        if path.stat().st_size > max_bytes:
            raise ConfigError(f"{path}: larger than {max_bytes:,} bytes ({variable})")
        return path.read_text("utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or 'cannot be read'} ({variable})") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: not a text in UTF-8 ({variable})") from None


def open_to_all(path: Path) -> bool:
    """True where others than its owner and group may read it."""
    try:
        return bool(path.stat().st_mode & stat.S_IROTH)
    except OSError:
        return False
