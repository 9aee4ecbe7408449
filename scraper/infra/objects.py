"""Stores files outside PostgreSQL under keys: in a folder, or in a bucket, which a plug-in opens.

A place is written as a folder, `file:///srv/archive`, or `s3://bucket/prefix`. An object appears
completely or not at all, is durable once `put` returns, and never changes afterwards. All calls
block, so make them in a thread.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urlsplit
from uuid import uuid4

from scraper.errors import ConfigError, ObjectsError
from scraper.infra.redaction import redact
from scraper.registry import require_service

# S3 allows 1,024 bytes, the prefix included; this leaves room for the prefix.
KEY_MAX = 900
# The prefix marks files that are still being written.
PART = ".part-"
_PUT_TRIES = 5


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object as a listing shows it: its size in bytes, and when it was put there."""

    key: str
    size: int
    modified_at: datetime


class Objects(Protocol):
    """A place for objects. Keys are relative paths with `/`. All methods raise `ObjectsError`,
    which names the operation, the place and the reason, without credentials;
    `ObjectsError.missing` is set if the object does not exist."""

    where: str

    def put(self, key: str, source: Path) -> None:
        """Stores a file's content under `key`, completely or not at all; replaces an object."""

    def read(self, key: str, offset: int = 0, length: int | None = None) -> bytes:
        """Reads up to `length` bytes from `offset`; None: to the object's end."""

    def listed(self, prefix: str = "") -> Iterator[StoredObject]:
        """Yields the objects whose keys begin with `prefix`, sorted by key."""

    def delete(self, keys: Sequence[str]) -> None:
        """Deletes the objects that exist; missing ones are ignored."""


class Buckets(Protocol):
    """A service of a plug-in: opens a bucket, or the keys in it that begin with `prefix/`."""

    def __call__(self, bucket: str, prefix: str) -> Objects: ...


def open_place(where: str, variable: str) -> Objects:
    """Returns the place that `where` names, without using it yet. Raises `ConfigError`, which names
    the `variable`, for an invalid place or if the plug-in for buckets is off."""
    scheme, separator, _ = where.partition("://")
    match scheme.lower() if separator else "file":
        case "s3":
            url = urlsplit(where)
            login = "@" in url.netloc or (":" in url.netloc and not url.netloc.startswith("arn:"))
            if not url.netloc or login or url.query or url.fragment or "/.." in url.path:
                raise ConfigError(
                    f"{variable}: a bucket is written s3://bucket or s3://bucket/prefix, without "
                    "credentials and `..` (fix: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
                    "or use ~/.aws)"
                )
            buckets = require_service(Buckets, f"{variable}: {where}")  # type: ignore[type-abstract]
            return buckets(url.netloc, url.path.strip("/"))
        case "file" if separator:
            url = urlsplit(where)
            if url.netloc not in ("", "localhost") or not url.path.strip("/"):
                raise ConfigError(
                    f"{variable}: a folder is written as its path, or file:///its/path"
                )
            return Folder(Path(unquote(url.path)))
        case "file" if where.strip():
            return Folder(Path(where).expanduser())
        case _:
            raise ConfigError(f"{variable}: neither a folder nor s3://bucket/prefix")


def split_object_name(where: str, variable: str) -> tuple[Objects, str]:
    """Splits the whole name of an object (`s3://bucket/feeds/today.parquet`, or a path) into its
    place and its key there."""
    folder, slash, name = where.rpartition("/")
    is_query = where.lower().startswith("s3://") and ("?" in name or "#" in name)
    if not name or is_query or folder.endswith(":/"):
        raise ConfigError(redact(f"{variable}: no name of a file in {where}"))
    if not slash:
        folder = "."
    return open_place(folder or "/", variable), check_key(name)


def make_error(verb: str, key: str, where: str, why: str, *, missing: bool = False) -> ObjectsError:
    return ObjectsError(
        f"cannot {verb} {key or 'what is there'} in {where}: {why}", missing=missing
    )


def check_key(key: str) -> str:
    """Returns `key` if it stays below its place on every system. Raises ValueError, which means a
    bug, since keys never come from a shop."""
    parts = key.split("/")
    if (
        any(part in ("", ".", "..") for part in parts)
        or not key.isprintable()
        or "\\" in key
        or len(key) > KEY_MAX
    ):
        raise ValueError(f"not a key: {key[:100]!r}")
    return key


class Folder:
    """A folder of this machine, or one that several have mounted. What is made in it is for its
    owner alone."""

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self.where = str(self.root)

    def put(self, key: str, source: Path) -> None:
        target = self.root / check_key(key)
        part = target.with_name(f"{PART}{uuid4().hex}")
        with self._translating_errors("write", key):
            for left in reversed(range(_PUT_TRIES)):
                try:
                    self._make_folders(target.parent)
                    self._write_part(source, part, target)
                    return
                except FileNotFoundError:
                    # Another process has just emptied the folder and removed it.
                    if not left or not source.exists():
                        raise
                finally:
                    with suppress(OSError):
                        part.unlink(missing_ok=True)

    def read(self, key: str, offset: int = 0, length: int | None = None) -> bytes:
        with self._translating_errors("read", key), (self.root / check_key(key)).open("rb") as file:
            file.seek(offset)
            return file.read(-1 if length is None else length)

    def listed(self, prefix: str = "") -> Iterator[StoredObject]:
        with self._translating_errors("list", prefix):
            paths = sorted(
                (path.relative_to(self.root).as_posix(), path)
                for path in self._folder_of_prefix(prefix).rglob("*")
                if path.is_file() and not path.is_symlink() and not path.name.startswith(PART)
            )
        for key, path in paths:
            if key.startswith(prefix):
                with suppress(FileNotFoundError):
                    state = path.stat()
                    yield StoredObject(
                        key, state.st_size, datetime.fromtimestamp(state.st_mtime, UTC)
                    )

    def delete(self, keys: Sequence[str]) -> None:
        paths = {key: self.root / check_key(key) for key in keys}
        # A missing folder is more likely on another machine, or not mounted, than empty.
        if keys and not self.root.is_dir():
            raise make_error("delete", keys[0], self.where, "the folder does not exist here")
        for key, path in paths.items():
            with self._translating_errors("delete", key):
                path.unlink(missing_ok=True)
            for folder in path.parents:
                if folder == self.root:
                    break
                try:
                    folder.rmdir()
                except OSError:
                    # The folder is missing or not empty.
                    break

    def _folder_of_prefix(self, prefix: str) -> Path:
        folder = prefix.rpartition("/")[0]
        return self.root / check_key(folder) if folder else self.root

    def _make_folders(self, folder: Path) -> None:
        """Makes missing folders, each durable in its parent."""
        if folder.is_dir():
            return
        self._make_folders(folder.parent)
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
            _sync_folder(folder.parent)

    @staticmethod
    def _write_part(source: Path, part: Path, target: Path) -> None:
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(handle, "wb") as file, source.open("rb") as given:
            shutil.copyfileobj(given, file, 1 << 20)
            file.flush()
            os.fsync(handle)
        part.replace(target)
        _sync_folder(target.parent)

    @contextmanager
    def _translating_errors(self, verb: str, key: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            missing, why = isinstance(error, FileNotFoundError), str(error.strerror or error)
            raise make_error(verb, key, self.where, why, missing=missing) from error


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
