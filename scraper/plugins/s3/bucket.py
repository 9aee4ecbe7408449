"""Buckets of S3 or a compatible service, as places for objects.

S3 is used through boto3 instead of a smaller client, since only boto3 supports every source of
credentials (environment, `~/.aws`, roles of containers and virtual machines) and the usual
variables (`AWS_ENDPOINT_URL`, `AWS_REGION` …). So none of these is a setting here, and this code
handles no secrets. boto3 costs the processes that use it 0.4 CPU-seconds and 40 MB.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
from boto3.exceptions import Boto3Error
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from scraper.infra.objects import StoredObject, check_key, make_error

# A larger file (bytes) goes up in parts.
SINGLE_PUT_MAX = 32_000_000
# S3 deletes no more keys in one request.
DELETE_MAX = 1000
CONNECT_S, READ_S, TRIES = 10, 60, 4


class Bucket:
    """A bucket, or the keys in it that begin with a prefix."""

    def __init__(self, bucket: str, prefix: str = "") -> None:
        self.bucket = bucket
        self.prefix = f"{prefix}/" if prefix else ""
        self.where = f"s3://{bucket}/{prefix}".rstrip("/")
        self._lock = threading.Lock()
        self._made: Any = None

    def put(self, key: str, source: Path) -> None:
        with self._translating_errors("write", key):
            if source.stat().st_size > SINGLE_PUT_MAX:
                self._s3_client.upload_file(str(source), self.bucket, self._full_key(key))
            else:
                with source.open("rb") as body:
                    self._s3_client.put_object(
                        Bucket=self.bucket, Key=self._full_key(key), Body=body
                    )

    def read(self, key: str, offset: int = 0, length: int | None = None) -> bytes:
        if length == 0:
            return b""
        until = "" if length is None else offset + length - 1
        with self._translating_errors("read", key):
            answer = self._s3_client.get_object(
                Bucket=self.bucket, Key=self._full_key(key), Range=f"bytes={offset}-{until}"
            )
            with answer["Body"] as body:
                content: bytes = body.read()
                return content

    def listed(self, prefix: str = "") -> Iterator[StoredObject]:
        with self._translating_errors("list", prefix):
            pages = self._s3_client.get_paginator("list_objects_v2").paginate(
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
                objects = [{"Key": self._full_key(key)} for key in batch]
                answer = self._s3_client.delete_objects(
                    Bucket=self.bucket, Delete={"Objects": objects, "Quiet": True}
                )
            for error in answer.get("Errors", ()):
                raise make_error("delete", error.get("Key"), self.where, error.get("Code"))

    def _full_key(self, key: str) -> str:
        return self.prefix + check_key(key)

    @property
    def _s3_client(self) -> Any:
        """The client, made once under a lock: threads may share one, but not make one at once."""
        with self._lock:
            if self._made is None:
                config = Config(
                    connect_timeout=CONNECT_S,
                    read_timeout=READ_S,
                    retries={"mode": "standard", "max_attempts": TRIES},
                )
                self._made = boto3.session.Session().client("s3", config=config)
            return self._made

    @contextmanager
    def _translating_errors(self, verb: str, key: str) -> Iterator[None]:
        try:
            yield
        except ClientError as error:
            code = str(error.response.get("Error", {}).get("Code", ""))
            missing = code in ("InvalidRange", "NoSuchKey", "404", "NotFound")
            why = "it ends before" if code == "InvalidRange" else code or "refused"
            raise make_error(verb, key, self.where, why, missing=missing) from error
        except (BotoCoreError, Boto3Error, OSError) as error:
            raise make_error(verb, key, self.where, _explain_error(error)) from error


def _explain_error(error: Exception) -> str:
    """Returns boto's message without URLs' queries; it never contains credentials."""
    text = str(error).splitlines()[0] if str(error) else type(error).__name__
    return text.split("?")[0][:300]
