"""Writes files that people edit, such as definitions, whole or not at all."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path


def write_whole(file: Path, text: str, *, new: bool = False, mode: int = 0o666) -> None:
    """Writes a file without newline translation. `new`: it must not exist, and gets the `mode`,
    less the umask; another keeps its own. Raises `OSError`."""
    # A link leads to the file that is meant.
    target = file.resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    if not new:
        mode = target.stat().st_mode & 0o777
    draft = target.parent / f".{target.name}.{secrets.token_hex(4)}"
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as output:
            output.write(text.encode("utf-8"))
            output.flush()
            os.fsync(output.fileno())
        if new:
            # Unlike a rename, a link never takes the place of a file.
            os.link(draft, target)
        else:
            draft.chmod(mode)
            draft.replace(target)
    finally:
        with suppress(OSError):
            draft.unlink()
