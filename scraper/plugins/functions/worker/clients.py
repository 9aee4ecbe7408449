"""The first argument of a user's function: an httpx client, or the object that SCRAPER_CLIENT_INIT
makes.

Each input has an httpx client of its own, so that inputs never share cookies. The operator's init
makes one client per process, when it is first needed; it is closed with the process. It receives
the transport that keeps to the budgets; a client without that transport has no limits.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any

import httpx
import structlog

from scraper.errors import FunctionRefusedError
from scraper.http.policy import FetchPolicy
from scraper.plugins.functions.worker.allowed_functions import resolve_client_init

log = structlog.get_logger()

# A failed init is retried after this time.
AGAIN_S = 30.0

Init = Callable[[httpx.AsyncBaseTransport], Any]


class Clients:
    """The clients of a worker process, on its event loop. `init` names a function that takes the
    transport: an async function that returns the client, or an async context manager
    (`contextlib.asynccontextmanager`) that yields it."""

    def __init__(self, transport: httpx.AsyncBaseTransport, init: str | None = None) -> None:
        self._transport = transport
        self._init = init
        self._making = asyncio.Lock()
        self._stack = AsyncExitStack()
        self._client: Any = None
        self._failed: FunctionRefusedError | None = None
        self._failed_at = 0.0

    @asynccontextmanager
    async def lend_client(self, policy: FetchPolicy) -> AsyncIterator[Any]:
        """Lends a client. Raises `FunctionRefusedError` if the init fails."""
        if self._init is not None:
            yield self._client if self._client is not None else await self._init_client()
            return
        client = httpx.AsyncClient(
            transport=self._transport,
            follow_redirects=True,
            max_redirects=policy.redirects_max,
            timeout=httpx.Timeout(policy.read_timeout_s, connect=policy.connect_timeout_s),
            trust_env=False,
        )
        # The transport adds the headers, since they depend on the proxy of the request.
        client.headers.clear()
        async with client:
            yield client

    async def aclose(self) -> None:
        """Closes the init's client. Raises nothing."""
        try:
            await self._stack.aclose()
        except Exception:
            log.exception("the client of SCRAPER_CLIENT_INIT could not be closed")

    async def _init_client(self) -> Any:
        async with self._making:
            now = asyncio.get_running_loop().time()
            if self._failed is not None and now - self._failed_at < AGAIN_S:
                raise self._failed
            if self._client is None:
                try:
                    self._client = await self._make_client()
                except Exception as error:
                    message = f"SCRAPER_CLIENT_INIT failed: {type(error).__name__}: {error}"
                    self._failed, self._failed_at = FunctionRefusedError(message), now
                    log.exception("the client of SCRAPER_CLIENT_INIT could not be made")
                    raise self._failed from error
            return self._client

    async def _make_client(self) -> Any:
        assert self._init is not None
        init: Init = await asyncio.to_thread(resolve_client_init, self._init)
        client = init(self._transport)
        if isinstance(client, AbstractAsyncContextManager) and not isinstance(
            client, httpx.AsyncClient
        ):
            client = await self._stack.enter_async_context(client)
        elif inspect.isawaitable(client):
            client = await client
            close = getattr(client, "aclose", None) or getattr(client, "close", None)
            if close is not None:
                self._stack.push_async_callback(_close_client, close)
        if client is None:
            raise TypeError("it returned None instead of a client")
        return client


async def _close_client(close: Callable[[], Any]) -> None:
    result = close()
    if inspect.isawaitable(result):
        await result
