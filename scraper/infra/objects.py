"""Files that are kept outside PostgreSQL, under keys: in a folder, or in a bucket of S3 or what
speaks like it.

A place is written as a folder, `file:///srv/archive`, or `s3://bucket/prefix`. An object appears
whole or not at all, and is durable once `put` returns; it is never changed afterwards. Everything
here blocks: call it from a thread.

S3 is reached with boto3, rather than a smaller client, since it is the one that knows every way in
which machines get their credentials (environment, `~/.aws`, roles of containers and virtual
machines) and the usual variables (`AWS_ENDPOINT_URL`, `AWS_REGION` …), so that none of them is a
setting of ours, and no secret passes through our hands. It costs the processes that use it 0.4
CPU-seconds and 40 MB, and is imported by no other.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit
from uuid import uuid4

from scraper.errors import ConfigError, ObjectsError

# S3 allows 1,024 bytes, the prefix included; this leaves room for the prefix.
KEY_MAX = 900
# A larger file (bytes) goes up in parts.
SINGLE_PUT_MAX = 32_000_000
# S3 deletes no more keys in one request.
DELETE_MAX = 1000
CONNECT_S, READ_S, TRIES = 10, 60, 4
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
    which says what could not be done, where, and why, and shows no credentials;
    `ObjectsError.missing` tells an object that is not there."""

    where: str

    def put(self, key: str, source: Path) -> None:
        """Stores a file's content under `key`, whole or not at all; over what is there already."""

    def read(self, key: str, offset: int = 0, length: int | None = None) -> bytes:
        """`length` bytes from `offset` on, fewer where the object ends before; None: to its end."""

    def listed(self, prefix: str = "") -> Iterator[StoredObject]:
        """The objects whose keys begin with `prefix`, in the order of their keys."""

    def delete(self, keys: Sequence[str]) -> None:
        """Those that are gone already are no error."""


def place(where: str, variable: str) -> Objects:
    """The place that `where` names; nothing is asked of it yet. `variable` is where the user wrote
    it, for the error: raises `ConfigError` where it cannot be one, or the `s3` extra is missing."""
    scheme, separator, _ = where.partition("://")
    match scheme.lower() if separator else "file":
        case "s3":
            url = urlsplit(where)
            if not url.netloc or "@" in url.netloc or url.query or url.fragment:
                raise ConfigError(
                    f"{variable}: a bucket is written s3://bucket or s3://bucket/prefix; its "
                    "credentials come from where "
                    "AWS's own tools have them (fix: AWS_ACCESS_KEY_ID and "
                    "AWS_SECRET_ACCESS_KEY, or ~/.aws)"
                )
            return Bucket(url.netloc, url.path.strip("/"))
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


def place_of_file(where: str, variable: str) -> tuple[Objects, str]:
    """Where one object goes that `where` names whole (`s3://bucket/feeds/today.parquet`, or a
    path), and its key there."""
    folder, slash, name = where.rpartition("/")
    if not name or folder.endswith(":/"):
        raise ConfigError(f"{variable}: no name of a file in {where}")
    return place(folder if slash and folder else "/" if slash else ".", variable), checked_key(name)


def _failure(verb: str, key: str, where: str, why: str, *, missing: bool = False) -> ObjectsError:
    return ObjectsError(
        f"cannot {verb} {key or 'what is there'} in {where}: {why}", missing=missing
    )


def checked_key(key: str) -> str:
    """`key`, if it stays below its place on every system. ValueError is a fault of ours: keys are
    never a shop's words."""
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
        target = self.root / checked_key(key)
        part = target.with_name(f"{PART}{uuid4().hex}")
        with self._translating_errors("write", key):
            for left in reversed(range(_PUT_TRIES)):
                try:
                    self._make(target.parent)
                    self._write(source, part, target)
                    return
                except FileNotFoundError:
                    # Another process has just emptied the folder and removed it.
                    if not left or not source.exists():
                        raise
                finally:
                    with suppress(OSError):
                        part.unlink(missing_ok=True)

    def read(self, key: str, offset: int = 0, length: int | None = None) -> bytes:
        with (
            self._translating_errors("read", key),
            (self.root / checked_key(key)).open("rb") as file,
        ):
            file.seek(offset)
            return file.read(-1 if length is None else length)

    def listed(self, prefix: str = "") -> Iterator[StoredObject]:
        with self._translating_errors("list", prefix):
            paths = sorted(
                (path.relative_to(self.root).as_posix(), path)
                for path in self._within(prefix).rglob("*")
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
        paths = {key: self.root / checked_key(key) for key in keys}
        # It is rather another machine's, or not mounted, than empty.
        if keys and not self.root.is_dir():
            raise _failure("delete", keys[0], self.where, "there is no such folder here")
        for key, path in paths.items():
            with self._translating_errors("delete", key):
                path.unlink(missing_ok=True)
            for folder in path.parents:
                if folder == self.root:
                    break
                try:
                    folder.rmdir()
                except OSError:  # not empty, or gone
                    break

    def _within(self, prefix: str) -> Path:
        folder = prefix.rpartition("/")[0]
        return self.root / checked_key(folder) if folder else self.root

    def _make(self, folder: Path) -> None:
        """Every folder that is new, made durable in the one above it."""
        if folder.is_dir():
            return
        self._make(folder.parent)
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
            _sync(folder.parent)

    @staticmethod
    def _write(source: Path, part: Path, target: Path) -> None:
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(handle, "wb") as file, source.open("rb") as given:
            shutil.copyfileobj(given, file, 1 << 20)
            file.flush()
            os.fsync(handle)
        part.replace(target)
        _sync(target.parent)

    @contextmanager
    def _translating_errors(self, verb: str, key: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            missing, why = isinstance(error, FileNotFoundError), str(error.strerror or error)
            raise _failure(verb, key, self.where, why, missing=missing) from error


class Bucket:
    """A bucket, or the keys in it that begin with a prefix."""

    def __init__(self, bucket: str, prefix: str = "") -> None:
        try:
            import boto3  # noqa: F401 - only those who use it pay for it
        except ImportError:
            raise ConfigError(
                f"s3://{bucket} needs an extra that is not installed (fix: pip install "
                "'celery-scraper[s3]')"
            ) from None
        self.bucket = bucket
        self.prefix = f"{prefix}/" if prefix else ""
        self.where = f"s3://{bucket}/{prefix}".rstrip("/")
        self._lock = threading.Lock()
        self._made: Any = None

    def put(self, key: str, source: Path) -> None:
        with self._translating_errors("write", key):
            if source.stat().st_size > SINGLE_PUT_MAX:
                self._client.upload_file(str(source), self.bucket, self._full(key))
            else:
                with source.open("rb") as body:
                    self._client.put_object(Bucket=self.bucket, Key=self._full(key), Body=body)

    def read(self, key: str, offset: int = 0, length: int | None = None) -> bytes:
        if length == 0:
            return b""
        until = "" if length is None else offset + length - 1
        with self._translating_errors("read", key):
            answer = self._client.get_object(
                Bucket=self.bucket, Key=self._full(key), Range=f"bytes={offset}-{until}"
            )
            with answer["Body"] as body:
                content: bytes = body.read()
                return content

    def listed(self, prefix: str = "") -> Iterator[StoredObject]:
        with self._translating_errors("list", prefix):
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self.bucket, Prefix=self.prefix + prefix
            )
            for page in pages:
                for entry in page.get("Contents", ()):
                    yield StoredObject(
                        entry["Key"].removeprefix(self.prefix), entry["Size"], entry["LastModified"]
                    )

    def delete(self, keys: Sequence[str]) -> None:
        for start in range(0, len(keys), DELETE_MAX):
            batch = keys[start : start + DELETE_MAX]
            with self._translating_errors("delete", batch[0]):
                objects = [{"Key": self._full(key)} for key in batch]
                answer = self._client.delete_objects(
                    Bucket=self.bucket, Delete={"Objects": objects, "Quiet": True}
                )
            for error in answer.get("Errors", ()):
                raise _failure("delete", error.get("Key"), self.where, error.get("Code"))

    def _full(self, key: str) -> str:
        return self.prefix + checked_key(key)

    @property
    def _client(self) -> Any:
        """Made once: a client may be used by several threads, the making of one may not."""
        with self._lock:
            if self._made is None:
                import boto3
                from botocore.config import Config

                config = Config(
                    connect_timeout=CONNECT_S,
                    read_timeout=READ_S,
                    retries={"mode": "standard", "max_attempts": TRIES},
                )
                self._made = boto3.session.Session().client("s3", config=config)
            return self._made

    @contextmanager
    def _translating_errors(self, verb: str, key: str) -> Iterator[None]:
        from boto3.exceptions import Boto3Error
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            yield
        except ClientError as error:
            code = str(error.response.get("Error", {}).get("Code", ""))
            missing = code in ("InvalidRange", "NoSuchKey", "404", "NotFound")
            why = "it ends before" if code == "InvalidRange" else code or "refused"
            raise _failure(verb, key, self.where, why, missing=missing) from error
        except (BotoCoreError, Boto3Error, OSError) as error:
            raise _failure(verb, key, self.where, _why(error)) from error


def _why(error: Exception) -> str:
    """boto's own words, of which none holds a secret: its credentials are never in them, and URLs
    are without queries."""
    text = str(error).splitlines()[0] if str(error) else type(error).__name__
    return text.split("?")[0][:300]


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
