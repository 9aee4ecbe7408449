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
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from uuid import UUID

import structlog

from scraper.domain import Extracted, Fetched, Kind
from scraper.extract import ON_LOOP, Extractor, FunctionFailed, ReadElsewhere, TooSlow
from scraper.extract.bounds import (
    ISOLATED,
    ISOLATED_SITEMAP,
    PARSE_MAX_S,
    CpuBudget,
    ParseElsewhere,
    ReadLimits,
)
from scraper.extract.document import Document
from scraper.extract.subprocess.wire import (
    ReadRequest,
    ReadResult,
    load_result,
    read_frame,
    write_request,
)

log = structlog.get_logger()

PROCESSES_MAX = 2
PARSERS_MAX = 2
START_S = 30.0


class ExtractionPool:
    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(PROCESSES_MAX, thread_name_prefix="extraction")
        self._parsers = ThreadPoolExecutor(PARSERS_MAX, thread_name_prefix="parsing")
        self._overdue = 0
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
        read = partial(
            extractor.extract,
            kind,
            page,
            page_url=page_url,
            depth=depth,
            last_content=last_content,
            limits=ON_LOOP,
        )
        try:
            return await self._read_here(read)
        except ReadElsewhere:
            limits = ISOLATED_SITEMAP if kind is Kind.SITEMAP else ISOLATED
            asked = (kind, page, page_url, depth, last_content, limits)
            request = ReadRequest(extractor.site, extractor.adapter, extractor.allowed, *asked)
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

    async def _read_here(self, read: Callable[..., Extracted]) -> Extracted:
        """Reads the page on the loop. Raises `ReadElsewhere`."""
        document: Document | None = None
        while True:
            try:
                return read(document=document)
            except ParseElsewhere as error:
                document = error.document
                await self._parse_in_thread(error.parse)
                document.budget = CpuBudget(ON_LOOP)

    async def _parse_in_thread(self, parse: Callable[[], float]) -> None:
        """Raises `ReadElsewhere` if the page is not like those of shops. lexbor cannot be stopped:
        no page waits for a thread that parses on."""
        if self._overdue >= PARSERS_MAX:
            raise ReadElsewhere
        parsing = self._parsers.submit(parse)
        waiting = asyncio.wrap_future(parsing)
        await asyncio.wait([waiting], timeout=ISOLATED.deadline_s)
        if not waiting.done():
            if not parsing.cancel():
                self._overdue += 1
                waiting.add_done_callback(self._end_overdue)
            raise ReadElsewhere
        if waiting.result() > PARSE_MAX_S:
            raise ReadElsewhere

    def _end_overdue(self, waiting: asyncio.Future[float]) -> None:
        self._overdue -= 1
        if not waiting.cancelled():
            waiting.exception()

    def close(self) -> None:
        """Kills all subprocesses."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._parsers.shutdown(wait=False, cancel_futures=True)
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
        write_request(self._socket, request)
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
