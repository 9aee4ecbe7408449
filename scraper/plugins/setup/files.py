"""Writes definition files, whole or not at all, and logs each change with its author.

A writer says which text it has seen: what another has changed since is never overwritten. One
writer writes at a time, over all processes with this database.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Callable
from difflib import unified_diff
from pathlib import Path
from typing import Any, NamedTuple

import sqlalchemy as sa

from scraper import settings
from scraper.errors import ConfigError, NotFoundError, ScraperError
from scraper.plugins.setup.settings import SetupSettings
from scraper.sites.whole_files import write_whole

SHOWN = 30
# Larger texts are not compared: the time grows faster than the size.
DIFF_LINES_MAX = 4000
_READ_ONLY = (errno.EROFS, errno.EACCES, errno.EPERM)
# A number of this plug-in's own among advisory locks.
LOCK = sa.text("SELECT pg_advisory_xact_lock(7319402)")
LOG = sa.text("""
INSERT INTO definition_changes (changed_by, site, action, file, before, after, masked)
VALUES (:by, :site, :action, :file, :before, :after, :masked)
""")
LIST = sa.text("""
SELECT id, at, changed_by AS by, site, action, file, masked FROM definition_changes
 WHERE CAST(:site AS text) IS NULL OR site = :site ORDER BY id DESC LIMIT :most
""")
READ = sa.text("""
SELECT id, at, changed_by AS by, site, action, file, before, after, masked
  FROM definition_changes
 WHERE id = :id
""")
NEWEST = sa.text("SELECT max(id) FROM definition_changes WHERE site = :site")


class ReadOnlyFolderError(ScraperError):
    """The folder of the definitions cannot be written. The message says why."""


class Author(NamedTuple):
    """Who changes a site, and what the log calls it."""

    by: str
    site: str
    action: str


def hash_text(text: str | None) -> str:
    """Returns the hash by which a writer names the text that it has seen; "" for a missing file."""
    return "" if text is None else hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


def compare_texts(before: str, after: str) -> list[str]:
    """Returns the lines of a diff, without its head; [] if nothing differs or it is too large."""
    old, new = before.splitlines(), after.splitlines()
    if max(len(old), len(new)) > DIFF_LINES_MAX:
        return []
    return list(unified_diff(old, new, lineterm="", n=2))[2:]


def read_file(file: Path) -> str | None:
    """Returns a file's text, or None without it."""
    try:
        return file.read_bytes().decode("utf-8-sig", "replace")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}") from None


def is_writable(folder: Path) -> bool:
    """Returns whether definitions can be saved."""
    nearest = next(parent for parent in (folder, *folder.parents) if parent.exists())
    return nearest.is_dir() and os.access(
        nearest, os.W_OK, effective_ids=os.access in os.supports_effective_ids
    )


def save_file(
    engine: sa.Engine,
    file: Path,
    text: str | None,
    seen: str,
    author: Author,
    *,
    mask: Callable[[str], str] | None = None,
) -> None:
    """Writes a file, or removes it with None. `seen`: the hash of the text that the author has
    seen. `mask`: for a file with secrets, what the log keeps of a text; only its owner may read a
    new one. Raises `ConfigError` if the text has changed, `ReadOnlyFolderError`."""
    with engine.begin() as connection:
        connection.execute(LOCK)
        before = read_file(file)
        if hash_text(before) != seen:
            if not seen:
                raise ConfigError(f"{file} is there already (fix: choose another name)")
            raise ConfigError(f"{file} has changed since you loaded it (fix: load the page again)")
        logged = [
            content if mask is None or content is None else mask(content)
            for content in (before, text)
        ]
        values = {"file": str(file), "before": logged[0], "after": logged[1]}
        connection.execute(LOG, {**author._asdict(), **values, "masked": mask is not None})
        try:
            if text is None:
                file.resolve().unlink()
            else:
                mode = 0o666 if mask is None else 0o600
                write_whole(file, text, new=before is None, mode=mode)
        except FileExistsError:
            raise ConfigError(f"{file} is there already (fix: choose another name)") from None
        except OSError as error:
            if error.errno in _READ_ONLY:
                raise ReadOnlyFolderError(f"{file} cannot be written: {error.strerror}") from None
            raise ConfigError(f"{file} cannot be written: {error.strerror}") from None


def undo_change(engine: sa.Engine, change: sa.Row[Any], by: str) -> None:
    """Restores the text before a change, if nothing has changed the file since. Raises as
    `save_file` does, and `ConfigError` for a change whose text the log does not have."""
    if change.masked:
        raise ConfigError(
            f"the log has no secrets, so change {change.id} of {change.file} cannot be undone "
            "(fix: add or remove the line yourself)"
        )
    author = Author(by, change.site, "undone")
    save_file(engine, Path(change.file), change.before, hash_text(change.after), author)


def read_change(connection: sa.Connection, id_: int) -> sa.Row[Any]:
    """Returns a change with both texts. Raises `NotFoundError`."""
    row = connection.execute(READ, {"id": id_}).one_or_none()
    if row is None:
        raise NotFoundError(f"change {id_} is not in the log")
    return row


def list_changes(connection: sa.Connection, site: str | None = None) -> list[dict[str, Any]]:
    """Returns the newest changes, of one site or of all, the newest first."""
    rows = connection.execute(LIST, {"site": site, "most": SHOWN})
    return [dict(row) for row in rows.mappings()]


class FileWriter:
    """Files of other plug-ins, which are written and logged as definitions are, and may lead to the
    own network where definitions may."""

    read_file = staticmethod(read_file)
    hash_text = staticmethod(hash_text)
    compare_texts = staticmethod(compare_texts)
    is_writable = staticmethod(is_writable)

    @staticmethod
    def allows_private() -> bool:
        return settings.load().of(SetupSettings).setup_private

    @staticmethod
    def save_file(
        engine: sa.Engine,
        file: Path,
        text: str,
        seen: str,
        author: tuple[str, str, str],
        mask: Callable[[str], str] | None = None,
    ) -> str | None:
        """Saves a file as `save_file` does. Returns why it cannot be written, or None."""
        try:
            save_file(engine, file, text, seen, Author(*author), mask=mask)
        except ReadOnlyFolderError as error:
            return str(error)
        return None


FILES = FileWriter()
