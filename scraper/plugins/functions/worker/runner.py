"""Runs a group of calls on a worker: a user's async function for each input, within its deadline.

Inputs of a group go through a few lanes, and their results leave in small batches. An error of one
input is that input's failure only. A group ends when its last result is in Redis. A worker that
stops sends back the inputs that it has not begun, and those that do not end in time. Another worker
repeats the inputs of a worker that dies: each runs at least once, and the caller takes each result
once.

This module imports nothing that a message names: the caller of `run` passes the function.
"""

from __future__ import annotations

import asyncio
import traceback
from collections import deque
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass, field
from typing import Any

import httpx
import orjson
import structlog
from redis.exceptions import RedisError

from scraper.domain import Blame, Outcome
from scraper.errors import DeferredError, FetchError, FunctionRefusedError
from scraper.infra.slots import SlotCost
from scraper.plugins.functions.group import Failure, Group
from scraper.plugins.functions.settings import FunctionsSettings
from scraper.plugins.functions.store import CANCELLED, DONE, FULL, GONE, GroupLeases
from scraper.plugins.functions.worker.allowed_functions import Function
from scraper.plugins.functions.worker.browser_pages import CallPages
from scraper.plugins.functions.worker.clients import Clients
from scraper.plugins.functions.worker.context import CallContext
from scraper.plugins.functions.worker.transport import CallInput, current_input
from scraper.rules.routing import is_browser_queue
from scraper.rules.verdict import outcome_of_status
from scraper.settings import Settings

log = structlog.get_logger()

# The number of a group's inputs that run at once.
LANES = 16
# A group's lease is renewed, and its call checked, this often.
KEEP_S = 2.0
# Results wait this long for others, to be sent together.
GATHER_S = 0.1
ENTRY_MAX_BYTES = 1_000_000
UNSENT_MAX_BYTES = 4_000_000
# A group ends if Redis does not know its call for this long.
GONE_S = 10.0
# Results wait this long for a Redis that does not answer.
AWAY_S = 60.0
RETRY_S = 0.5
# A cancelled function has this long to end.
LET_GO_S = 2.0
MESSAGE_CHARS = 1000
TRACEBACK_CHARS = 4000


@dataclass(slots=True)
class RunningGroup:
    """A group that runs on this worker."""

    group: Group
    context: CallContext
    function: Function
    slot: SlotCost | None
    timeout_s: float
    queued: deque[tuple[int, Any]]
    under_way: dict[asyncio.Task[Any], CallInput] = field(default_factory=dict)
    # Results to be sent, each with its size.
    ready: list[tuple[int, orjson.Fragment]] = field(default_factory=list)
    back: list[int] = field(default_factory=list)
    unsent_bytes: int = 0
    # The caller no longer waits for it.
    over: bool = False
    handed_back: bool = False
    # Its last input has ended.
    ended: bool = False
    wake: asyncio.Event = field(default_factory=asyncio.Event)

    def put(self, index: int, ok: bool, value: bytes) -> None:
        entry = b"[%d,%d,%b]" % (index, ok, value)
        self.ready.append((len(entry), orjson.Fragment(entry)))
        self.unsent_bytes += len(entry)
        self.wake.set()

    def take(self) -> list[orjson.Fragment]:
        """Removes and returns the results that fit into one entry."""
        size = taken = 0
        while taken < len(self.ready) and (
            not taken or size + self.ready[taken][0] <= ENTRY_MAX_BYTES
        ):
            size += self.ready[taken][0]
            taken += 1
        batch, self.ready = self.ready[:taken], self.ready[taken:]
        self.unsent_bytes -= size
        return [fragment for _, fragment in batch]

    def take_back(self) -> list[int]:
        back, self.back = self.back, []
        return back

    def drop(self) -> None:
        """Begins no further input, and ends those that wait for a host's permit."""
        self.over = True
        self.queued.clear()
        self.cancel(waiting_only=True)

    def cancel(self, *, waiting_only: bool) -> None:
        for task, by in self.under_way.items():
            if not waiting_only or by.clock.waiting:
                task.cancel()


class CallRunner:
    """Runs the groups of a worker process, on its event loop."""

    def __init__(
        self, *, groups: GroupLeases, clients: Clients, pages: CallPages | None, settings: Settings
    ) -> None:
        self._groups = groups
        self._clients = clients
        self._pages = pages
        self._settings = settings
        self._running: list[RunningGroup] = []
        self._stopping = False

    @property
    def active(self) -> bool:
        return bool(self._running)

    def slot_loads(self) -> list[tuple[SlotCost | None, int, int, int]]:
        """Returns for each group: its slot, the inputs that are left, how many of them only wait
        for a host's permit, and how many would fill a slot."""
        full = self._settings.batch_pages
        return [
            (
                running.slot,
                len(running.queued) + len(running.under_way),
                sum(by.clock.waiting > 0 for by in running.under_way.values()),
                self._count_lanes(running.group) if is_browser_queue(running.group.queue) else full,
            )
            for running in self._running
        ]

    async def refuse(self, group: Group, why: str) -> None:
        """Reports to the caller that this worker cannot run the function."""
        if await self._groups.claim(group.call, group.number):
            log.warning("call refused", function=group.function, why=why)
            await self._push_entry(None, group, {"refused": why, "end": True})

    async def run(
        self, group: Group, context: CallContext, function: Function, slot: SlotCost | None
    ) -> None:
        """Returns when the last result has been sent, or the call has ended."""
        if not await self._groups.claim(group.call, group.number):
            return
        if self._stopping:
            await self._push_entry(
                None, group, {"b": [index for index, _ in group.inputs], "end": True}
            )
            return
        wish_s, limit_s = (
            group.options.input_timeout_s,
            self._settings.of(FunctionsSettings).input_timeout_s,
        )
        timeout_s = min(limit_s, wish_s) if wish_s else limit_s
        running = RunningGroup(group, context, function, slot, timeout_s, deque(group.inputs))
        self._running.append(running)
        lanes = [
            asyncio.ensure_future(self._run_lane(running))
            for _ in range(min(self._count_lanes(group), len(running.queued)))
        ]
        keeper = asyncio.ensure_future(self._renew_lease(running))
        sender = asyncio.ensure_future(self._send_results(running))
        if slot is not None:
            asyncio.get_running_loop().call_soon(slot.started)
        try:
            await asyncio.gather(*lanes)
            running.ended = True
            running.wake.set()
            await sender
        finally:
            keeper.cancel()
            self._running.remove(running)

    def hand_back(self) -> None:
        """Hands back inputs that have not started or wait for a host's permit."""
        self._stopping = True
        for running in self._running:
            running.handed_back = True
            running.back += [index for index, _ in running.queued]
            running.queued.clear()
            running.cancel(waiting_only=True)
            running.wake.set()

    def cut_short(self) -> None:
        """Hands back all other inputs."""
        for running in self._running:
            running.cancel(waiting_only=False)

    async def aclose(self) -> None:
        await self._clients.aclose()

    def _count_lanes(self, group: Group) -> int:
        if not is_browser_queue(group.queue):
            return LANES
        return self._pages.at_once if self._pages is not None else 1

    async def _run_lane(self, running: RunningGroup) -> None:
        while running.queued:
            if running.unsent_bytes > UNSENT_MAX_BYTES:
                await asyncio.sleep(GATHER_S)
                continue
            index, value = running.queued.popleft()
            await self._run_input(running, index, value)

    async def _run_input(self, running: RunningGroup, index: int, value: Any) -> None:
        """Runs one input, and records its result or failure, or hands it back."""
        by = CallInput(running.context, running.group.priority)
        task = asyncio.ensure_future(
            self._run_function(
                running.function, by, value, browser=is_browser_queue(running.group.queue)
            )
        )
        running.under_way[task] = by
        try:
            while not task.done() and (left_s := running.timeout_s - by.clock.spent_s) > 0:
                await asyncio.wait([task], timeout=left_s)
            if not task.done():
                task.cancel()
                await asyncio.wait([task], timeout=LET_GO_S)
                message = (
                    f"not done within {running.timeout_s:g} s, without waits for hosts' permits "
                    "(SCRAPER_INPUT_TIMEOUT_S)"
                )
                self._put_failure(running, index, _by_function("TimeoutError", message))
                if not task.done():
                    log.error(
                        "a cancelled function does not end",
                        function=running.group.function,
                    )
                    task.add_done_callback(_retrieve_error)
            elif task.cancelled() and (running.over or running.handed_back):
                running.back.append(index)
            else:
                self._finish_input(running, index, task)
        finally:
            del running.under_way[task]

    async def _run_function(
        self, function: Function, by: CallInput, value: Any, *, browser: bool
    ) -> Any:
        # A task has a context of its own.
        current_input.set(by)
        async with self._lend_argument(by, value, browser=browser) as client:
            try:
                return await function(client, value)
            except (SystemExit, KeyboardInterrupt, GeneratorExit) as error:
                # These would end the loop.
                raise _EndedItselfError from error

    def _lend_argument(
        self, by: CallInput, value: Any, *, browser: bool
    ) -> AbstractAsyncContextManager[Any]:
        """Lends the function's first argument: a client, or a browser's page."""
        if not browser:
            return self._clients.lend_client(by.context.policy)
        if self._pages is None:
            raise FunctionRefusedError("this worker has no browser (fix: `scraper plugins`)")
        return self._pages.lend_page(by, value)

    def _finish_input(self, running: RunningGroup, index: int, task: asyncio.Task[Any]) -> None:
        error = (
            asyncio.CancelledError("it cancelled itself") if task.cancelled() else task.exception()
        )
        if error is not None:
            self._put_failure(running, index, failure_of(error))
            return
        limit = self._settings.of(FunctionsSettings).result_max_bytes
        try:
            encoded = orjson.dumps(task.result())
        except (TypeError, ValueError, RecursionError) as wrong:
            message = (
                f"its result is not JSON: {wrong} "
                "(fix: return text, numbers, lists, mappings of them)"
            )
            self._put_failure(running, index, _by_function("TypeError", message))
            return
        if len(encoded) > limit:
            message = (
                f"it returned {len(encoded)} bytes of JSON, more than {limit} "
                "(the limit is SCRAPER_RESULT_MAX_BYTES)"
            )
            failure = _by_function("ValueError", message, Outcome.TOO_LARGE)
            self._put_failure(running, index, failure)
            return
        running.put(index, True, encoded)

    @staticmethod
    def _put_failure(running: RunningGroup, index: int, failure: Failure) -> None:
        running.put(
            index,
            False,
            orjson.dumps({name: _make_encodable(text) for name, text in asdict(failure).items()}),
        )

    async def _renew_lease(self, running: RunningGroup) -> None:
        """Renews the lease, and drops the group when its call has ended."""
        gone_since: float | None = None
        while True:
            await asyncio.sleep(KEEP_S)
            try:
                state = await self._groups.renew(running.group.call, running.group.number)
            except RedisError:
                continue
            now = asyncio.get_running_loop().time()
            gone_since = (gone_since or now) if state == GONE else None
            if state == CANCELLED or (gone_since is not None and now - gone_since > GONE_S):
                running.drop()
                return

    async def _send_results(self, running: RunningGroup) -> None:
        while not running.over:
            await running.wake.wait()
            if not running.ended:
                await asyncio.sleep(GATHER_S)
            running.wake.clear()
            while running.ready and not running.over:
                await self._push_entry(running, running.group, {"r": running.take()})
            # The last input may end while an entry is pushed.
            ended = running.ended
            if ended or running.back:
                await self._push_entry(
                    running, running.group, {"b": running.take_back(), "end": ended}
                )
            if ended:
                return

    async def _push_entry(
        self, running: RunningGroup | None, group: Group, entry: dict[str, Any]
    ) -> None:
        """Retries until Redis has the entry, or the call has ended; then the group is over."""
        loop = asyncio.get_running_loop()
        entry = {"g": group.number, **entry}
        gone_by, away_by = loop.time() + GONE_S, loop.time() + AWAY_S
        while running is None or not running.over:
            try:
                state = await self._groups.push(group.call, entry)
            except RedisError as error:
                if loop.time() > away_by:
                    log.error(
                        "results lost; Redis does not accept them",
                        call=group.call,
                        error=type(error).__name__,
                    )
                    break
                await asyncio.sleep(RETRY_S)
                continue
            away_by = loop.time() + AWAY_S
            if state == DONE:
                return
            if state == CANCELLED or (state == GONE and loop.time() > gone_by):
                break
            if state == FULL:
                gone_by = loop.time() + GONE_S
            await asyncio.sleep(RETRY_S)
        if running is not None:
            running.drop()


class _EndedItselfError(Exception):
    """The function raised an exception that ends programs, which is the cause."""


def _by_function(kind: str, message: str, outcome: Outcome = Outcome.FUNCTION_FAILED) -> Failure:
    return Failure(kind, message, Blame.PARSER.value, outcome.value)


def failure_of(error: BaseException) -> Failure:
    """Returns what the caller sees of an exception. Known causes decide whom to blame."""
    if isinstance(error, _EndedItselfError):
        error = error.__cause__ or error
    outcome = Outcome.FUNCTION_FAILED
    for cause in _list_causes(error):
        if isinstance(cause, FetchError):
            outcome = cause.outcome
            break
        if isinstance(cause, httpx.HTTPStatusError):
            response = cause.response
            outcome = outcome_of_status(
                response.status_code, retry_after="retry-after" in response.headers
            )
            break
        # The worker lacks a browser, or lost it.
        if isinstance(cause, DeferredError):
            outcome = Outcome.DEFERRED
            break
        if isinstance(cause, FunctionRefusedError):
            outcome = Outcome.CRASHED
            break
    if outcome is Outcome.FETCHED:
        outcome = Outcome.FUNCTION_FAILED
    trace = ""
    if isinstance(error, Exception):
        trace = "".join(traceback.format_exception(error, limit=-8))
    message = str(error) or type(error).__name__
    return Failure(
        type(error).__name__,
        message[:MESSAGE_CHARS],
        outcome.blame.value,
        outcome.value,
        trace[-TRACEBACK_CHARS:],
    )


def _list_causes(error: BaseException) -> Sequence[BaseException]:
    causes: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and len(causes) < 10:
        causes.append(cause)
        cause = cause.__cause__
    return causes


def _make_encodable(text: str) -> str:
    """Replaces lone surrogates, which JSON cannot hold."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _retrieve_error(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()
