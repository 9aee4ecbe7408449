"""Reads fetched pages: on the event loop if that is certainly quick, else in a subprocess with a
deadline, so that no page delays others.

The pool starts at most two subprocesses, when a page needs them, and keeps them. It kills a
subprocess that a page overloads. Subprocesses end with this process, because their sockets close.
"""

from __future__ import annotations

import asyncio
import pickle
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from uuid import UUID

import structlog

from scraper.domain import Extracted, Fetched, Kind
from scraper.extract import ON_LOOP, Extractor, FunctionFailed, ReadElsewhere, TooSlow
from scraper.extract.bounds import ISOLATED, ISOLATED_SITEMAP, ReadLimits
from scraper.extract.subprocess.wire import (
    ReadRequest,
    ReadResult,
    load_result,
    read_frame,
    write_frame,
)

log = structlog.get_logger()

PROCESSES_MAX = 2
START_S = 30.0


class ExtractionPool:
    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(PROCESSES_MAX, thread_name_prefix="extraction")
        self._lock = threading.Lock()
        self._idle: list[_Process] = []
        self._all: set[_Process] = set()

    async def read(
        self,
        extractor: Extractor,
        kind: Kind,
        page: Fetched,
        page_url: str,
        depth: int,
        last_content: UUID | None = None,
    ) -> Extracted:
        """Returns the result of `Extractor.extract`. Raises `FunctionFailed`, `TooSlow`, and
        `RuntimeError` for a bug in the subprocess."""
        try:
            return extractor.extract(
                kind,
                page,
                page_url=page_url,
                depth=depth,
                last_content=last_content,
                limits=ON_LOOP,
            )
        except ReadElsewhere:
            limits = ISOLATED_SITEMAP if kind is Kind.SITEMAP else ISOLATED
            asked = (kind, page, page_url, depth, last_content, limits)
            request = ReadRequest(extractor.site, extractor.allowed, *asked)
        result = await asyncio.get_running_loop().run_in_executor(
            self._threads, self._request_read, request
        )
        if result.failed is not None:
            raise FunctionFailed(*result.failed.split(": ", 1))
        if result.crashed is not None:
            raise RuntimeError(result.crashed)
        if result.extracted is None:
            raise TooSlow(result.too_slow or "reading the page ended without a result")
        return result.extracted

    def close(self) -> None:
        """Kills all subprocesses."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        for process in list(self._all):
            process.kill()

    def _request_read(self, request: ReadRequest) -> ReadResult:
        with self._lock:
            process = self._idle.pop() if self._idle else None
        if process is None:
            process = _Process()
            self._all.add(process)
        try:
            result = process.request(request)
        except (OSError, pickle.UnpicklingError) as error:
            process.kill()
            self._all.discard(process)
            log.warning("extraction subprocess killed", url=request.page_url, error=str(error))
            return ReadResult(too_slow=_describe_end(error, request.limits))
        with self._lock:
            self._idle.append(process)
        return result


def _describe_end(error: Exception, limits: ReadLimits) -> str:
    if isinstance(error, TimeoutError):
        return f"reading the page took longer than {limits.deadline_s:g} s"
    return "reading the page took more time or memory than a page may, and ended the process"


class _Process:
    """A subprocess. Raises `OSError` if it fails to start, to answer in time, or to stay alive."""

    def __init__(self) -> None:
        self._socket, other = socket.socketpair()
        with other:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "scraper.extract.subprocess", str(other.fileno())],
                stdin=subprocess.DEVNULL,
                # A site function may print; stdout is not used for results.
                stdout=2,
                pass_fds=[other.fileno()],
            )
        self._ready = False

    def request(self, request: ReadRequest) -> ReadResult:
        if not self._ready:
            self._socket.settimeout(START_S)
            if not self._socket.recv(1):
                raise ConnectionError("the subprocess did not start")
            self._ready = True
        deadline = time.monotonic() + request.limits.deadline_s
        self._socket.settimeout(request.limits.deadline_s)
        write_frame(self._socket, pickle.dumps(request, pickle.HIGHEST_PROTOCOL))
        self._socket.settimeout(max(0.1, deadline - time.monotonic()))
        frame = read_frame(self._socket)
        if frame is None:
            raise ConnectionError("the subprocess ended")
        return load_result(frame)

    def kill(self) -> None:
        with suppress(OSError):
            self._process.kill()
        self._socket.close()
        self._process.wait()
