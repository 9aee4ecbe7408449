"""The places of a worker, given out by urgency. A batch waits in a thread of its own until its last
page is stored.

A thread costs next to nothing, so an urgent batch never waits for lesser ones to end: each priority
has all the places, less those of batches that are at least as urgent. With 8 places and 8 batches
of low priority under way, one of high priority begins at once, and the next one of low priority
waits until fewer than 8 are under way in all. Messages that wait here (read, not yet acknowledged)
go by priority, then in the order in which they came; and while an urgent one is being claimed, a
lesser one that came right behind it does not overtake it.

A batch takes up a whole place at first, and less as it goes on (`scraper.infra.slots.SlotCost`): what
waits for slow hosts leaves room for what could be fetched meanwhile. So 256 batches may be under
way in 8 places, at the most.

Only a few messages of a level wait here (`wants`): what the broker keeps, another worker can take.

Batches for browsers have places of their own, few of them (`browser_places`): what a browser cannot
show soon shall not be claimed, nor keep out what needs none.

This is Celery's `threads` pool but for that order. Whoever asks for another (`-P solo`, `-P
processes`) gets batches in the order in which the broker gives them out.
"""

from __future__ import annotations

import heapq
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from itertools import count
from typing import Any

from celery.concurrency import thread
from celery.concurrency.base import apply_target

from scraper import settings
from scraper.infra import slots
from scraper.infra.slots import LEAST_COST, SlotCost
from scraper.rules.routing import (
    PRIORITY_LEVELS,
    for_browsers,
    level_of_message,
    may_begin,
)

# Messages of a level and above that wait for a place: the next batch is at hand, and the others
# anybody's.
READ_AHEAD = 2

Call = Callable[[], Any]
# its level below zero, when it came, its answer, and what it does
_Waiting = tuple[int, int, Future[Any], Call]

# this process's, once it is there
_pool: TaskPool | None = None


def wants(queue: str, priority: int) -> bool:
    """Whether a message of this queue, with this priority of the broker's, would not just wait
    here. For the transport that is about to ask for it; from the thread that reads messages."""
    return _pool is None or _pool.wants(queue, priority)


class TaskPool(thread.TaskPool):  # type: ignore[misc] # Celery has no types
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.executor = thread.ThreadPoolExecutor(
            max_workers=int(self.limit / LEAST_COST) * PRIORITY_LEVELS
        )
        self._zero_is_first = not settings.load().broker_is_amqp
        self._lock = threading.Lock()
        self._came = count()
        self._waiting: dict[bool, list[_Waiting]] = {browser: [] for browser in (False, True)}
        self._browser_places = 0
        self._under_way: set[SlotCost] = set()

    def on_start(self) -> None:
        global _pool
        super().on_start()
        _pool = self

    def wants(self, queue: str, priority: int) -> bool:
        level = level_of_message(priority, zero_is_first=self._zero_is_first)
        waiting = self._waiting[for_browsers(queue)]
        if len(waiting) < READ_AHEAD:
            return True
        with self._lock:
            return sum(-below >= level for below, *_ in waiting) < READ_AHEAD

    def on_apply(
        self,
        target: Any,
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
        callback: Any = None,
        accept_callback: Any = None,
        **_: Any,
    ) -> Any:
        level, browser = self._level(args or ()), for_browsers(_queue(args or ()))
        future: Future[Any] = Future()

        def call() -> Any:
            return apply_target(target, args, kwargs, callback, accept_callback)

        with self._lock:
            heapq.heappush(self._waiting[browser], (-level, next(self._came), future, call))
        self._begin()
        return thread.ApplyResult(future)

    def on_stop(self) -> None:
        """What waits here was not acknowledged and goes back; what is under way ends."""
        global _pool
        _pool = None
        with self._lock:
            for waiting in self._waiting.values():
                waiting.clear()
        super().on_stop()

    def _begin(self) -> None:
        with self._lock:
            for browser, waiting in self._waiting.items():
                while waiting and self._may_begin(-waiting[0][0], browser):
                    below, _, future, call = heapq.heappop(waiting)
                    place = SlotCost(-below, self._begin, browser=browser)
                    self._under_way.add(place)
                    self.executor.submit(self._run, place, future, call)

    def _may_begin(self, level: int, browser: bool) -> bool:
        beside = [place for place in self._under_way if place.browser is browser]
        if any(place.starting and place.level > level for place in beside):
            return False
        begun: dict[int, float] = defaultdict(float)
        for place in beside:
            begun[place.level] += place.cost
        return may_begin(level, begun, self._places(browser))

    def _places(self, browser: bool) -> int:
        if not browser:
            return int(self.limit)
        if not self._browser_places:
            from scraper.browser import chromium

            self._browser_places = browser_places(chromium.pages_here(settings.load()))
        return self._browser_places

    def _run(self, place: SlotCost, future: Future[Any], call: Call) -> None:
        try:
            with slots.occupied(place):
                future.set_result(call())
        except BaseException as error:  # noqa: BLE001 - whoever asked for the result gets it
            future.set_exception(error)
        finally:
            with self._lock:
                self._under_way.discard(place)
            self._begin()

    def _level(self, args: tuple[Any, ...]) -> int:
        """Celery hands over (task name, id, request, body …); the request knows how the message
        came."""
        request = args[2] if len(args) > 2 and isinstance(args[2], Mapping) else {}
        priority = (request.get("delivery_info") or {}).get("priority")
        return level_of_message(priority, zero_is_first=self._zero_is_first)


def browser_places(pages: int) -> int:
    """For batches of five pages, where so many are open at once: two or three rounds of them are
    claimed ahead.

    >>> [browser_places(pages) for pages in (1, 2, 4, 8)] [1, 2, 3, 5]
    """
    return 1 + pages // 2


def _queue(args: tuple[Any, ...]) -> str:
    """Where the message came from, by what Celery hands over."""
    request = args[2] if len(args) > 2 and isinstance(args[2], Mapping) else {}
    return str((request.get("delivery_info") or {}).get("routing_key") or "")
