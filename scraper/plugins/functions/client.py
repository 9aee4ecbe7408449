"""Runs your own functions on the workers, in the style of `concurrent.futures` or `asyncio`.

    from scraper.plugins.functions.client import Client

    for title in Client().map("shop_checks:title", urls, queue="browser"):
        ...
    titles = await Client().map("shop_checks:title", urls)

The function is an async function of a module that SCRAPER_FUNCTIONS names: `async def title(client,
url)`. It runs on the workers of a queue, with a client that keeps to the rate limits of the fleet;
docs/how-to/functions.md is the guide.

Importing this module is cheap: the first call imports what speaks to servers, in its own thread.
"""

from __future__ import annotations

import asyncio
import threading
import time
import weakref
from collections.abc import AsyncIterator, Generator, Iterable, Iterator
from contextlib import ExitStack, suppress
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Generic, Literal, TypedDict, TypeVar, Unpack, overload

from scraper.errors import (
    CallError,
    CallTimeoutError,
    FunctionRefusedError,
    ServerUnavailableError,
    quote_command,
)

if TYPE_CHECKING:
    from scraper.plugins.functions.sender import CallSender, Send
    from scraper.plugins.functions.store import CallStore
    from scraper.runtime.fleet import LocalWorker
    from scraper.settings import Settings

__all__ = [
    "Call",
    "CallError",
    "CallTimeoutError",
    "Client",
    "FunctionRefusedError",
    "ServerUnavailableError",
]

# With this many inputs in flight whose results are not taken, `inputs` is not read further.
OUT_MAX = 2000
# A worker restarts in less than this, also with a Chromium.
UNSERVED_S = 20.0
ASK_S = 2.0

T = TypeVar("T")


class _MapOptions(TypedDict, total=False):
    """The options of `Client.map` that do not change the type of its results."""

    queue: str
    region: str | None
    return_exceptions: bool
    timeout_s: float | None
    input_timeout_s: float | None
    site: str | None
    proxy: str | None
    rate: str | None
    concurrency: int | None
    priority: str


class Client:
    """CallStore functions on the workers to which the settings lead (DATABASE_URL, REDIS_URL,
    BROKER_URL).

    With `local`, the client starts a worker on this machine if no worker serves the queue, and ends
    it on `close`; by default it does so only with the embedded servers. The client is thread-safe,
    and a context manager whose use is optional.
    """

    def __init__(self, *, local: bool | None = None) -> None:
        self._local = local
        self._stack = ExitStack()
        self._starting = threading.Lock()
        self._started: dict[str, list[LocalWorker]] = {}
        self._close = weakref.finalize(self, self._stack.close)

    @overload
    def map(
        self,
        function: str,
        inputs: Iterable[Any],
        *,
        ordered: Literal[True] = ...,
        **options: Unpack[_MapOptions],
    ) -> Call[Any]: ...
    @overload
    def map(
        self,
        function: str,
        inputs: Iterable[Any],
        *,
        ordered: Literal[False],
        **options: Unpack[_MapOptions],
    ) -> Call[tuple[int, Any]]: ...
    def map(
        self,
        function: str,
        inputs: Iterable[Any],
        *,
        queue: str = "datacenter",
        region: str | None = None,
        ordered: bool = True,
        return_exceptions: bool = False,
        timeout_s: float | None = None,
        input_timeout_s: float | None = None,
        site: str | None = None,
        proxy: str | None = None,
        rate: str | None = None,
        concurrency: int | None = None,
        priority: str = "normal",
    ) -> Call[Any]:
        """CallStore `MODULE:FUNCTION` once for each input, which is a JSON value, and starts at
        once.

        - `queue`, `region`: which workers run the function. On `browser` its first argument is a
          Playwright page.
        - `ordered`: results come in the order of the inputs. With `False` they come as pairs
          (index, result) as soon as they are there.
        - `return_exceptions`: a failed input gives its `CallError` as its result. Otherwise the
          error is raised and cancels the rest.
        - `timeout_s`: the limit for the whole call, after which it raises `CallTimeoutError`.
        - `input_timeout_s`: the limit for one input, without its waits for hosts.
        - `site`: the function's requests use this site's rate, headers and proxies.
        - `rate` ("60/m", per host and for the whole fleet), `concurrency`, `proxy`
          ("residential"): the limits and proxies without a site.
        - `priority`: as for a site, relative to its crawls.

        Raises `FunctionRefusedError`, and `ServerUnavailableError` if a server does not answer or
        no worker serves the queue.
        """
        from scraper import settings
        from scraper.plugins.functions.group import CallOptions, check_call
        from scraper.plugins.functions.sender import CallSender
        from scraper.plugins.functions.settings import FunctionsSettings
        from scraper.rules.routing import queue_name

        loaded = settings.load()
        allowed = loaded.of(FunctionsSettings).function_modules
        number = check_call(function, allowed, queue, priority)
        name = queue_name(queue, region or "")
        unserved = _Unserved(self, loaded, name)
        sender = CallSender(
            connect=lambda call: _open_call_store(loaded, call),
            send=_load_send,
            unserved=unserved,
            function=function,
            queue=name,
            priority=number,
            options=CallOptions(site, region, proxy, rate, concurrency, input_timeout_s),
            timeout_s=timeout_s,
        )
        return Call(sender, inputs, ordered=ordered, return_exceptions=return_exceptions)

    def close(self) -> None:
        """Ends the workers that this client started."""
        self._close()

    def starts_workers(self, settings: Settings) -> bool:
        return settings.embedded if self._local is None else self._local

    def has_started(self, queue: str) -> bool:
        return queue in self._started

    def start_worker(self, settings: Settings, queue: str) -> None:
        """Starts a worker for the queue, once. Raises `ServerUnavailableError` if it has ended."""
        from scraper.runtime import fleet

        with self._starting:
            if queue not in self._started:
                self._started[queue] = self._stack.enter_context(
                    fleet.local_workers(settings, {queue})
                )
            for worker in self._started[queue]:
                worker.keep_running()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Call(Generic[T]):
    """The calls of one `Client.map`. Iterate over it with `for` or `async for`, or await it for
    the list of the remaining results.

    Leaving it early (`cancel`, the end of `with`, an error, garbage collection) cancels the inputs
    that have not started.
    """

    def __init__(
        self, sender: CallSender, inputs: Iterable[Any], *, ordered: bool, return_exceptions: bool
    ) -> None:
        from scraper.plugins.functions.group import GROUP_MAX, GROUPS_OF_FEW, group_size

        self._sender, self._inbox = sender, sender.inbox
        self._ordered, self._return_exceptions = ordered, return_exceptions
        numbered = enumerate(inputs)
        first = list(islice(numbered, GROUP_MAX * GROUPS_OF_FEW))
        self._group_size = group_size(len(first))
        self._inputs: Iterator[tuple[int, Any]] | None = chain(first, numbered)
        self._left_over: list[tuple[int, Any]] = []
        # The inputs whose results are not taken yet: errors name them.
        self._open: dict[int, Any] = {}
        self._taken = self._sent = 0
        self._over = False
        self._cancel = weakref.finalize(self, sender.cancel)
        self._feed_groups()
        sender.start()

    @property
    def sent(self) -> int:
        """The number of inputs sent so far."""
        return self._sent

    @property
    def messages(self) -> int:
        """The number of messages that carried them."""
        return self._sender.messages

    def cancel(self) -> None:
        """Cancels the inputs that have not started, and ends the results."""
        self._over = True
        self._cancel()

    def __enter__(self) -> Call[T]:
        return self

    def __exit__(self, *_: object) -> None:
        self.cancel()

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        self._feed_groups()
        with self._inbox.changed:
            while not self._is_ready():
                self._inbox.changed.wait()
        if self._is_at_end():
            raise StopIteration
        return self._take_next()

    def __aiter__(self) -> AsyncIterator[T]:
        return self

    async def __anext__(self) -> T:
        self._feed_groups()
        while not self._is_ready():
            await self._wait_for_change()
        if self._is_at_end():
            raise StopAsyncIteration
        return self._take_next()

    def __await__(self) -> Generator[Any, None, list[T]]:
        return self._collect_results().__await__()

    async def _collect_results(self) -> list[T]:
        return [result async for result in self]

    async def _wait_for_change(self) -> None:
        loop, changed = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            # The loop has ended.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(changed.set)

        with self._inbox.changed:
            self._inbox.wake = wake
            if self._is_ready():
                return
        await changed.wait()

    def _feed_groups(self) -> None:
        """Hands over inputs, group by group, as far as results are taken. Runs in the caller's
        thread."""
        while self._inputs is not None and not self._over and self._sent - self._taken < OUT_MAX:
            try:
                group = self._next_group(self._inputs)
            except BaseException:
                self.cancel()
                raise
            if group:
                self._open.update(group)
                self._sent += len(group)
                self._sender.feed(group)
            else:
                self._inputs = None
                self._sender.end_inputs()

    def _next_group(self, inputs: Iterator[tuple[int, Any]]) -> dict[int, Any]:
        """Returns as many inputs as fit into one message; an empty dict after the last input."""
        from scraper.plugins.functions.group import GROUP_MAX_BYTES, input_size

        group: dict[int, Any] = {}
        size = 0
        for index, value in chain(self._left_over, inputs):
            self._left_over = []
            size += input_size(index, value)
            if group and size > GROUP_MAX_BYTES:
                self._left_over = [(index, value)]
                break
            group[index] = value
            if len(group) >= self._group_size:
                break
        return group

    def _is_at_end(self) -> bool:
        return self._over or (self._inputs is None and self._taken == self._sent)

    def _is_ready(self) -> bool:
        return self._is_at_end() or self._next_index() is not None or self._inbox.error is not None

    def _next_index(self) -> int | None:
        """Returns the index of the next result, or None if it is not there yet."""
        if not self._ordered:
            return self._inbox.order[0] if self._inbox.order else None
        return self._taken if self._taken in self._inbox.results else None

    def _take_next(self) -> T:
        from scraper.plugins.functions.group import Failure

        index = self._next_index()
        if index is None:
            assert self._inbox.error is not None
            self.cancel()
            raise self._inbox.error
        if not self._ordered:
            self._inbox.order.popleft()
        value, given = self._inbox.results.pop(index), self._open.pop(index)
        self._taken += 1
        if isinstance(value, Failure):
            f = value
            value = CallError(
                index,
                given,
                f.type,
                f.message,
                blame=f.blame,
                outcome=f.outcome,
                traceback=f.traceback,
            )
            if not self._return_exceptions:
                self.cancel()
                raise value
        return value if self._ordered else (index, value)  # type: ignore[return-value]


class _Unserved:
    """Called while no worker takes messages: checks whether a worker serves the queue, starts one,
    or gives up."""

    def __init__(self, client: Client, settings: Settings, queue: str) -> None:
        self._client, self._settings, self._queue = client, settings, queue
        self._asked_at = float("-inf")
        # Consecutive checks that found no worker.
        self._seen = 0

    def __call__(self, idle_s: float) -> None:
        from scraper.runtime import fleet

        if time.monotonic() - self._asked_at < ASK_S:
            return
        starts_workers = self._client.starts_workers(self._settings)
        if starts_workers:
            decides = not self._client.has_started(self._queue)
        else:
            decides = idle_s > UNSERVED_S and self._seen > 0
        queues = {self._queue}
        # A worker that replies late is waited for only if something depends on it: no results are
        # read in this time.
        unserved = (
            fleet.find_unserved(self._settings, queues)
            if decides
            else queues - fleet.served_queues()
        )
        self._asked_at = time.monotonic()
        self._seen = self._seen + 1 if unserved else 0
        if not unserved:
            return
        if starts_workers:
            self._client.start_worker(self._settings, self._queue)
        elif decides:
            raise ServerUnavailableError(
                f"no worker serves the queue {self._queue!r}: type "
                f"`{quote_command('celery -A scraper worker -Q', self._queue)}`, "
                "or Client(local=True) to have one started here"
            )


def _open_call_store(settings: Settings, call: str) -> CallStore:
    from scraper.infra import redis_clients
    from scraper.plugins.functions.store import CallStore
    from scraper.process import servers

    servers.require_redis(settings)
    if settings.broker_url is not None:
        servers.require_broker(settings)
    return CallStore(redis_clients.connect(settings.valkey_url), call)


def _load_send() -> Send:
    from scraper.runtime.send import send

    return send
