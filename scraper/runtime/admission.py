"""Admits batches to a worker: decides which queue's messages to read, and which batch may begin. A
batch has a thread of its own until its last page is stored.

A thread costs next to nothing, so an urgent batch never waits for lesser ones to end: each priority
has all the slots, less those of batches that are at least as urgent. With 8 slots and 8 batches of
low priority under way, one of high priority begins at once, and the next one of low priority waits
until fewer than 8 are under way in all. Messages that wait here (read, not yet acknowledged) go by
priority, then by arrival. While an urgent one is being claimed, a lesser one that arrived just
after it does not overtake it.

A batch takes up a whole slot at first, and less as it goes on (`scraper.infra.slots.SlotCost`):
pages that wait for slow hosts leave room for others. So at most 256 batches are under way in 8
slots.

Only a few messages of a level wait here (`wants`), since another worker can take those that stay in
the broker. The worker's consumer hands `wants` to the Redis transport (`scraper.runtime.consumer`),
which calls it before it reads.

Batches for browsers have a few slots of their own (`browser_slots`): they are claimed only if a
browser can show them soon, and never keep out other batches.
"""

from __future__ import annotations

import heapq
import threading
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from scraper import settings
from scraper.http.page_browser import BrowserFactory
from scraper.infra.slots import SlotCost, occupy_slot
from scraper.registry import find_service
from scraper.rules.routing import is_browser_queue, may_begin_batch, message_level

# This many messages of a level and above wait for a slot. Any worker may take the others.
READ_AHEAD = 2


@dataclass(order=True, slots=True)
class _Waiting:
    """A message that waits for a slot, ordered by which begins first."""

    minus_level: int
    number: int
    work: Callable[[], Any] = field(compare=False)
    result: Future[Any] = field(compare=False, default_factory=Future)


class Admission:
    """The admission of one process. Thread-safe. Work that may begin runs in `executor`."""

    def __init__(self, slots: int, executor: Executor) -> None:
        self._slots = slots
        self._executor = executor
        self._zero_is_first = not settings.load().broker_is_amqp
        self._lock = threading.Lock()
        self._numbers = count()
        # Keyed by whether they are for browsers.
        self._waiting: dict[bool, list[_Waiting]] = {False: [], True: []}
        self._under_way: set[SlotCost] = set()
        self._browser_slots = 0

    def wants(self, queue: str, priority: int) -> bool:
        """Returns whether to read a message of this queue and broker priority, rather than leave it
        to another worker."""
        waiting = self._waiting[is_browser_queue(queue)]
        if len(waiting) < READ_AHEAD:
            return True
        level = message_level(priority, zero_is_first=self._zero_is_first)
        with self._lock:
            return sum(-message.minus_level >= level for message in waiting) < READ_AHEAD

    def submit(self, queue: str, priority: int | None, work: Callable[[], Any]) -> Future[Any]:
        """Begins the work of a message as soon as a slot is free."""
        level = message_level(priority, zero_is_first=self._zero_is_first)
        with self._lock:
            message = _Waiting(-level, next(self._numbers), work)
            heapq.heappush(self._waiting[is_browser_queue(queue)], message)
        self._begin_waiting()
        return message.result

    def close(self) -> None:
        """Discards the waiting messages, so that no further work begins."""
        with self._lock:
            for waiting in self._waiting.values():
                waiting.clear()

    def _begin_waiting(self) -> None:
        with self._lock:
            for browser, waiting in self._waiting.items():
                while waiting and self._may_begin(-waiting[0].minus_level, browser):
                    message = heapq.heappop(waiting)
                    slot = SlotCost(-message.minus_level, self._begin_waiting, browser=browser)
                    self._under_way.add(slot)
                    self._executor.submit(self._run_message, slot, message)

    def _may_begin(self, level: int, browser: bool) -> bool:
        begun: dict[int, float] = defaultdict(float)
        for slot in self._under_way:
            if slot.browser is browser:
                if slot.starting and slot.level > level:
                    return False
                begun[slot.level] += slot.cost
        return may_begin_batch(level, begun, self._slots_for(browser))

    def _slots_for(self, browser: bool) -> int:
        if not browser:
            return self._slots
        if not self._browser_slots:
            factory = find_service(BrowserFactory)  # type: ignore[type-abstract]
            pages = factory.pages_here(settings.load()) if factory is not None else 1
            self._browser_slots = browser_slots(pages)
        return self._browser_slots

    def _run_message(self, slot: SlotCost, message: _Waiting) -> None:
        try:
            with occupy_slot(slot):
                message.result.set_result(message.work())
        except BaseException as error:  # noqa: BLE001 - the result's reader gets it
            message.result.set_exception(error)
        finally:
            with self._lock:
                self._under_way.discard(slot)
            self._begin_waiting()


def browser_slots(pages: int) -> int:
    """Returns the slots for browser batches of five pages if `pages` are open at once: two or three
    rounds of them are claimed ahead.

    >>> [browser_slots(pages) for pages in (1, 2, 4, 8)]
    [1, 2, 3, 5]
    """
    return 1 + pages // 2
