"""Functions of your own on the workers: what programs outside import. Used as `concurrent.futures`
is, or as `asyncio`.

    from scraper.plugins.functions.client import Client

    for title in Client().map("shop_checks:title", urls, queue="browser"):
        ...
    titles = await Client().map("shop_checks:title", urls)

The function is an async function of a module that SCRAPER_FUNCTIONS names: `async def title(client,
url)`. It runs on the workers of a queue, with a client that keeps to the fleet's budgets;
docs/how-to/functions.md says all of it.

Importing this costs next to nothing: what speaks to servers is imported by the first call, in a
thread of its own.
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

from scraper.errors import CallError, CallTimeoutError, FunctionRefusedError, ServerUnavailableError

if TYPE_CHECKING:
    from scraper.plugins.functions.sender import CallSender, Send
    from scraper.plugins.functions.store import Calls
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

# With so many inputs out whose results nobody has taken, no more are taken from `inputs`.
OUT_MAX = 2000
# A worker that starts anew, with a Chromium too, takes less than this.
UNSERVED_S = 20.0
ASK_S = 2.0

T = TypeVar("T")


class _Options(TypedDict, total=False):
    """Those of `Client.map` that say nothing of the type of what it gives."""

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
    """Calls functions on the workers that the environment's settings lead to (DATABASE_URL,
    REDIS_URL, BROKER_URL).

    `local`: starts a worker here where nobody serves the queue, and ends it with the client; by
    default only where the servers are the embedded ones. Thread-safe. A context manager, but may be
    left to itself.
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
        **options: Unpack[_Options],
    ) -> Call[Any]: ...
    @overload
    def map(
        self,
        function: str,
        inputs: Iterable[Any],
        *,
        ordered: Literal[False],
        **options: Unpack[_Options],
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
        """Calls `MODULE:FUNCTION` once for each input, a JSON value each. The calls begin at once.

        Gives results in the order of the inputs, each as soon as it and those before it are there;
        with `ordered=False` pairs (index, result) as they come. An input that fails raises
        `CallError` where its result would be, and the rest is cancelled; with `return_exceptions`
        the error stands in its place.

        `timeout_s`: for all of it, else `CallTimeoutError`. `input_timeout_s`: for one input, waits
        for its hosts' turns not counted. `site`: in that site's name, with its rate, headers and
        proxies; else `rate` (of a host, for the whole fleet: "60/m"), `concurrency` and `proxy`
        ("residential") may be given. Raises `FunctionRefusedError`, and `ServerUnavailableError`
        where a server does not answer or no worker serves the queue.
        """
        from scraper import settings
        from scraper.domain import Kind
        from scraper.plugins.functions.group import Options, parts_of
        from scraper.plugins.functions.sender import CallSender
        from scraper.rules.routing import COORDINATOR, page_priority, queue_name
        from scraper.sites.grammar.scalars import priority_number

        loaded = settings.load()
        try:
            parts_of(function, loaded.function_modules)
            number = page_priority(priority_number(priority), Kind.PRODUCT)
            if queue == COORDINATOR:
                raise ValueError(f"{queue!r} is the coordinators' own queue (fix: another one)")
        except ValueError as error:
            raise FunctionRefusedError(str(error)) from None
        name = queue_name(queue, region or "")
        unserved = _Unserved(self, loaded, name)
        sender = CallSender(
            connect=lambda call: _connected(loaded, call),
            send=_sender,
            unserved=unserved,
            function=function,
            queue=name,
            priority=number,
            options=Options(site, region, proxy, rate, concurrency, input_timeout_s),
            timeout_s=timeout_s,
        )
        return Call(sender, inputs, ordered=ordered, return_exceptions=return_exceptions)

    def close(self) -> None:
        """Ends the workers that were started here, if any."""
        self._close()

    def starts_workers(self, settings: Settings) -> bool:
        return settings.embedded if self._local is None else self._local

    def start_worker(self, settings: Settings, queue: str) -> None:
        """One for that queue, once. Raises `ServerUnavailableError` where it has ended."""
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
    """Calls that are under way: iterate over it, with `for` or `async for`, or await it for the
    list of what is left.

    Leaving it before its end (`cancel`, `with`, an error, or nobody holds it any more) cancels what
    is not begun.
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
        # These are the inputs whose results nobody has taken: errors name them.
        self._open: dict[int, Any] = {}
        self._given = self._sent = 0
        self._over = False
        self._cancel = weakref.finalize(self, sender.cancel)
        self._feed()
        sender.start()

    @property
    def sent(self) -> int:
        """Inputs that were sent so far."""
        return self._sent

    @property
    def messages(self) -> int:
        """Messages that brought them."""
        return self._sender.messages

    def cancel(self) -> None:
        """What is not begun will not be, and there are no further results."""
        self._over = True
        self._cancel()

    def __enter__(self) -> Call[T]:
        return self

    def __exit__(self, *_: object) -> None:
        self.cancel()

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        self._feed()
        with self._inbox.changed:
            while not self._ready():
                self._inbox.changed.wait()
        if self._at_end():
            raise StopIteration
        return self._next()

    def __aiter__(self) -> AsyncIterator[T]:
        return self

    async def __anext__(self) -> T:
        self._feed()
        while not self._ready():
            await self._change()
        if self._at_end():
            raise StopAsyncIteration
        return self._next()

    def __await__(self) -> Generator[Any, None, list[T]]:
        return self._all().__await__()

    async def _all(self) -> list[T]:
        return [result async for result in self]

    async def _change(self) -> None:
        loop, changed = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            # The loop has ended.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(changed.set)

        with self._inbox.changed:
            self._inbox.wake = wake
            if self._ready():
                return
        await changed.wait()

    def _feed(self) -> None:
        """Takes inputs and hands them over, group by group, as far as results are taken. In the
        caller's own thread."""
        while self._inputs is not None and not self._over and self._sent - self._given < OUT_MAX:
            try:
                group = self._group(self._inputs)
            except BaseException:
                self.cancel()
                raise
            if group:
                self._open.update(group)
                self._sent += len(group)
                self._sender.feed(group)
            else:
                self._inputs = None
                self._sender.fed()

    def _group(self, inputs: Iterator[tuple[int, Any]]) -> dict[int, Any]:
        """As many inputs as go into one message; none where there are no more."""
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

    def _at_end(self) -> bool:
        return self._over or (self._inputs is None and self._given == self._sent)

    def _ready(self) -> bool:
        return self._at_end() or self._at() is not None or self._inbox.error is not None

    def _at(self) -> int | None:
        """Whose result is given next, if it is there."""
        if not self._ordered:
            return self._inbox.order[0] if self._inbox.order else None
        return self._given if self._given in self._inbox.results else None

    def _next(self) -> T:
        from scraper.plugins.functions.group import Failure

        index = self._at()
        if index is None:
            assert self._inbox.error is not None
            self.cancel()
            raise self._inbox.error
        if not self._ordered:
            self._inbox.order.popleft()
        value, given = self._inbox.results.pop(index), self._open.pop(index)
        self._given += 1
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
    """What is done while nobody takes up messages: looks whether a worker serves the queue, starts
    one, or gives up."""

    def __init__(self, client: Client, settings: Settings, queue: str) -> None:
        self._client, self._settings, self._queue = client, settings, queue
        self._asked_at = float("-inf")
        # These are looks at which nobody served it, one after the other.
        self._seen = 0

    def __call__(self, idle_s: float) -> None:
        from scraper.runtime import fleet

        if time.monotonic() - self._asked_at < ASK_S:
            return
        served = self._queue in fleet.served_queues()
        self._asked_at = time.monotonic()
        self._seen = 0 if served else self._seen + 1
        if served:
            return
        if self._client.starts_workers(self._settings):
            self._client.start_worker(self._settings, self._queue)
        elif idle_s > UNSERVED_S and self._seen > 1:
            raise ServerUnavailableError(
                f"no worker serves the queue {self._queue!r}: type "
                f"`celery -A scraper worker -Q {self._queue}`, "
                "or Client(local=True) to have one started here"
            )


def _connected(settings: Settings, call: str) -> Calls:
    import redis

    from scraper.infra import servers
    from scraper.plugins.functions.store import Calls

    servers.require_redis(settings)
    if settings.broker_url is not None:
        servers.require_broker(settings)
    client = redis.Redis.from_url(settings.valkey_url, socket_connect_timeout=3, socket_timeout=10)
    return Calls(client, call)


def _sender() -> Send:
    from scraper.runtime.send import send

    return send
