"""Destinations of an export: the terminal, a file, or S3 (`s3://bucket/key`). A file or object
appears completely or not at all.

A file is written under a temporary name in its folder and renamed, with the mode of the one it
replaces; a link leads to the file that is meant. A pipe or device is written directly. An object is
written to the temporary folder (TMPDIR, which needs the space), and uploaded in parts if it is
large.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO

from scraper.errors import ConfigError, ScraperError
from scraper.infra import objects
from scraper.infra.redaction import mask_passwords, redact

S3 = "s3://"


@contextmanager
def open_destination(where: str | None) -> Iterator[IO[bytes]]:
    """Yields a binary file, which becomes `where` if the block ends without an error; otherwise
    `where` is unchanged. Raises `ConfigError` before the block for an invalid destination."""
    if where is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
    elif "\0" in where:
        raise _make_name_error(where)
    elif where.lower().startswith(S3):
        with _for_bucket(where) as file:
            yield file
    else:
        with _for_file(where) as file:
            yield file


def mask_credentials(where: str) -> str:
    """Returns the destination without the credentials that a user has put into it."""
    return mask_passwords(redact(where))


def _make_name_error(where: str) -> ConfigError:
    return ConfigError(f"--output: {mask_credentials(where)!r} is not a name for a file")


@contextmanager
def as_text(file: IO[bytes]) -> Iterator[IO[str]]:
    """Yields the file as UTF-8 text without newline translation, and leaves it open."""
    text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=False)
    try:
        yield text
        text.flush()
    finally:
        with suppress(ValueError, BrokenPipeError):
            text.detach()


@contextmanager
def _for_file(path: str) -> Iterator[IO[bytes]]:
    given, target = Path(path), Path(os.path.realpath(path))
    try:
        if given.exists() and not given.is_file():
            # A device or a pipe stays what it is: as root, renaming would replace it.
            with given.open("wb") as file:
                yield file
            return
        with NamedTemporaryFile(
            "wb", dir=target.parent, prefix=f".{target.name[:100]}.", delete=False
        ) as temporary:
            try:
                yield temporary.file
                temporary.flush()
                os.fsync(temporary.fileno())
                os.chmod(temporary.name, _mode_for(target))
                os.replace(temporary.name, target)
            except BaseException:
                os.unlink(temporary.name)
                raise
    except OSError as error:
        raise ScraperError(
            f"cannot write {mask_credentials(path)}: {error.strerror or error}"
        ) from error


def _mode_for(target: Path) -> int:
    if target.exists():
        return target.stat().st_mode & 0o777
    umask = os.umask(0)
    os.umask(umask)
    return 0o666 & ~umask


@contextmanager
def _for_bucket(where: str) -> Iterator[IO[bytes]]:
    try:
        bucket, key = objects.split_object_name(where, "--output")
    except ValueError:
        raise _make_name_error(where) from None
    try:
        with NamedTemporaryFile("w+b", prefix="scraper-export-") as temporary:
            yield temporary.file
            temporary.flush()
            bucket.put(key, Path(temporary.name))
    except OSError as error:
        raise ScraperError(f"cannot write a temporary file: {error.strerror or error}") from error
