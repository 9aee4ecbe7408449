"""The wire format between a worker and its extraction subprocess: frames of a length and a pickle.
A request's body is a frame of its own, as it is.

A request comes from the worker's own code and is trusted. A result comes from a process that read a
hostile page, so its pickle may only name the classes of a result.
"""

from __future__ import annotations

import io
import pickle
import socket
from dataclasses import replace
from typing import Any, NamedTuple
from uuid import UUID

from scraper.domain import Extracted, Fetched, Kind
from scraper.extract.adapter import Adapter
from scraper.extract.bounds import ReadLimits
from scraper.sites.definition import Site

FRAME_MAX_BYTES = 256_000_000
_RESULT_TYPES = {
    ("scraper.extract.subprocess.wire", "ReadResult"),
    *(
        ("scraper.domain", name)
        for name in ("Extracted", "ItemsRead", "Kind", "Link", "Product", "SitemapUrl", "Vote")
    ),
    ("decimal", "Decimal"),
    *(("datetime", name) for name in ("date", "datetime", "timedelta", "timezone")),
}


class ReadRequest(NamedTuple):
    """`adapter`: the site's, which the worker asked its plug-ins for."""

    site: Site
    adapter: Adapter | None
    allowed: tuple[str, ...]
    kind: Kind
    page: Fetched
    page_url: str
    depth: int
    last_content: UUID | None
    limits: ReadLimits


class ReadResult(NamedTuple):
    """Exactly one of the fields is set."""

    extracted: Extracted | None = None
    failed: str | None = None
    too_slow: str | None = None
    crashed: str | None = None


class _ResultUnpickler(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str) -> Any:
        if (module_name, global_name) not in _RESULT_TYPES:
            raise pickle.UnpicklingError(f"{module_name}.{global_name} is not part of a result")
        return super().find_class(module_name, global_name)


def load_result(frame: bytearray) -> ReadResult:
    """Returns the result in a frame. Raises `pickle.UnpicklingError`."""
    result = _ResultUnpickler(io.BytesIO(frame)).load()
    if not isinstance(result, ReadResult):
        raise pickle.UnpicklingError("not a result")
    return result


def write_request(other: socket.socket, request: ReadRequest) -> None:
    page = request.page
    head = request._replace(page=replace(page, body=b""))
    write_frame(other, pickle.dumps(head, pickle.HIGHEST_PROTOCOL))
    write_frame(other, page.body)


def read_request(other: socket.socket) -> ReadRequest | None:
    head = read_frame(other)
    body = None if head is None else read_frame(other)
    if head is None or body is None:
        return None
    request: ReadRequest = pickle.loads(head)  # noqa: S301 - our own worker's
    return request._replace(page=replace(request.page, body=bytes(body)))


def write_frame(other: socket.socket, data: bytes) -> None:
    other.sendall(len(data).to_bytes(8, "big"))
    other.sendall(data)


def read_frame(other: socket.socket) -> bytearray | None:
    """Returns the next frame, or None if the other side closed. Raises `OSError`."""
    head = _receive_exactly(other, 8)
    if head is None:
        return None
    length = int.from_bytes(head, "big")
    if length > FRAME_MAX_BYTES:
        raise OSError(f"a frame of {length:,} bytes")
    return _receive_exactly(other, length)


def _receive_exactly(other: socket.socket, length: int) -> bytearray | None:
    data = bytearray(length)
    view, at = memoryview(data), 0
    while at < length:
        received = other.recv_into(view[at:])
        if not received:
            return None
        at += received
    return data
