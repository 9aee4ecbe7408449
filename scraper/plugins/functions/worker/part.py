"""The plug-in `functions` in a worker: runs users' functions with the parts that fetch pages."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import cast

from scraper.errors import FunctionRefusedError
from scraper.frontier.control import poll_frontier
from scraper.infra import slots
from scraper.plugin import WorkerPart
from scraper.plugins.functions.group import Group
from scraper.plugins.functions.settings import FunctionsSettings
from scraper.plugins.functions.store import GroupLeases
from scraper.plugins.functions.worker.allowed_functions import resolve_function
from scraper.plugins.functions.worker.browser_pages import CallPages
from scraper.plugins.functions.worker.clients import Clients
from scraper.plugins.functions.worker.context import CallContexts
from scraper.plugins.functions.worker.request_sender import RequestSender
from scraper.plugins.functions.worker.runner import CallRunner
from scraper.plugins.functions.worker.transport import PoliteTransport
from scraper.worker.host import SlotLoad, WorkerHost

NAME = "functions"


class FunctionsPart(WorkerPart):
    def __init__(self, host: WorkerHost) -> None:
        super().__init__(host)
        self.contexts = CallContexts(host.settings)
        self._sender = RequestSender()
        transport = PoliteTransport(
            sender=self._sender,
            limiters=host.limiters,
            robots=host.robots,
            rotation=host.rotation,
        )
        browser = host.browser
        self.runner = CallRunner(
            groups=GroupLeases(host.redis, host.settings.lease_s),
            clients=Clients(transport, host.settings.of(FunctionsSettings).client_init),
            pages=CallPages(browser, transport, host.proxies) if browser is not None else None,
            settings=host.settings,
        )

    def slot_loads(self) -> Sequence[SlotLoad]:
        return self.runner.slot_loads()

    def hand_back(self) -> None:
        self.runner.hand_back()

    def cut_short(self) -> None:
        self.runner.cut_short()

    async def aclose(self, within_s: float) -> None:
        await self.runner.aclose()
        await self._sender.aclose()


def call_functions(host: WorkerHost, message: str) -> None:
    """Runs a user's function for a group of inputs. Returns when the last result has been sent."""
    part = cast(FunctionsPart, host.parts[NAME])
    group, asked = Group.parse(message), time.monotonic()
    try:
        function = resolve_function(
            group.function, host.settings.of(FunctionsSettings).function_modules
        )
        with host.engine.begin() as connection:
            control = poll_frontier(connection, ()).control
            context = part.contexts.context_for(group.options, connection)
    except FunctionRefusedError as refused:
        work = part.runner.refuse(group, str(refused))
    else:
        host.loop.call_soon_threadsafe(host.apply_control, control, asked)
        work = part.runner.run(group, context, function, slots.current_slot())
    asyncio.run_coroutine_threadsafe(work, host.loop).result()
