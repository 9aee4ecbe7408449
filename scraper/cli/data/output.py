"""Where an export goes: to the terminal, to a file, or to S3 (`s3://bucket/key`). It is there whole
or not at all.

A file is written beside its place and renamed; what goes to S3 is written to the temporary folder
first (TMPDIR, which needs the room), and sent in parts where it is large.
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

S3 = "s3://"


@contextmanager
def open_destination(where: str | None) -> Iterator[IO[bytes]]:
    """A file to write bytes to. When the block ends well it is where it belongs; otherwise nothing
    is there that was not before. Raises `ConfigError` before the block where the place cannot be
    one."""
    if where is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
    elif where.lower().startswith(S3):
        with _for_bucket(where) as file:
            yield file
    else:
        with _for_file(where) as file:
            yield file


@contextmanager
def as_text(file: IO[bytes]) -> Iterator[IO[str]]:
    """UTF-8, line ends as they are written; what is below stays open."""
    text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=False)
    try:
        yield text
        text.flush()
    finally:
        with suppress(ValueError, BrokenPipeError):
            text.detach()


@contextmanager
def _for_file(path: str) -> Iterator[IO[bytes]]:
    target = Path(path)
    try:
        with NamedTemporaryFile(
            "wb", dir=target.parent, prefix=f".{target.name[:100]}.", delete=False
        ) as temporary:
            try:
                yield temporary.file
                temporary.flush()
                os.fsync(temporary.fileno())
                umask = os.umask(0)
                os.umask(umask)
                os.chmod(temporary.name, 0o666 & ~umask)
                os.replace(temporary.name, target)
            except BaseException:
                os.unlink(temporary.name)
                raise
    except OSError as error:
        raise ScraperError(f"cannot write {path}: {error.strerror or error}") from error


@contextmanager
def _for_bucket(where: str) -> Iterator[IO[bytes]]:
    try:
        bucket, key = objects.place_of_file(where, "--output")
    except ValueError:
        raise ConfigError(f"--output: {where!r} is no key that every tool could read") from None
    try:
        with NamedTemporaryFile("w+b", prefix="scraper-export-") as temporary:
            yield temporary.file
            temporary.flush()
            bucket.put(key, Path(temporary.name))
    except OSError as error:
        raise ScraperError(f"cannot write a temporary file: {error.strerror or error}") from error
