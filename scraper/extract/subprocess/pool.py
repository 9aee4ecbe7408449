"""A fetched page to what it says: on the event loop where that is surely quick, else in a process
of its own with a deadline, so that no page keeps others waiting.

Processes are started when the first page needs one, two at the most, and kept; one that a page was
too much for is killed. They end with this process: their socket does.
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
DEADLINE_S = 4.5


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
        """As `Extractor.extract`. Raises `FunctionFailed` and `TooSlow`, and `RuntimeError` for a
        fault of ours in the other process."""
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
            asked = (kind, page, page_url, depth, last_content)
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
        """Ends the processes, whatever they do."""
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
            log.warning("a page was too much to read", url=request.page_url, error=str(error))
            return ReadResult(too_slow=_describe_end(error))
        with self._lock:
            self._idle.append(process)
        return result


def _describe_end(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"reading the page took longer than {DEADLINE_S:g} s"
    return "reading the page took more time or memory than a page may, and ended the process"


class _Process:
    """Raises `OSError` where it does not start, does not result in time, or breaks off."""

    def __init__(self) -> None:
        self._socket, other = socket.socketpair()
        with other:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "scraper.extract.subprocess", str(other.fileno())],
                stdin=subprocess.DEVNULL,
                # What a site's function prints is no result.
                stdout=2,
                pass_fds=[other.fileno()],
            )
        self._ready = False

    def request(self, request: ReadRequest) -> ReadResult:
        if not self._ready:
            self._socket.settimeout(START_S)
            if not self._socket.recv(1):
                raise ConnectionError("it did not start")
            self._ready = True
        deadline = time.monotonic() + DEADLINE_S
        self._socket.settimeout(DEADLINE_S)
        write_frame(self._socket, pickle.dumps(request, pickle.HIGHEST_PROTOCOL))
        self._socket.settimeout(max(0.1, deadline - time.monotonic()))
        frame = read_frame(self._socket)
        if frame is None:
            raise ConnectionError("it is gone")
        return load_result(frame)

    def kill(self) -> None:
        with suppress(OSError):
            self._process.kill()
        self._socket.close()
        self._process.wait()
