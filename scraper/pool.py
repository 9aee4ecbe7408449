"""The places of a worker, given out by urgency. A batch waits in a thread of its own until its last page is stored.

A thread costs next to nothing, so an urgent batch never waits for lesser ones to end: each priority has all the places,
less those of batches that are at least as urgent. With 16 places and 16 batches of low priority under way, one of high
priority begins at once, and the next one of low priority waits until fewer than 16 are under way in all. Messages that wait
here (read, not yet acknowledged) go by priority, then in the order in which they came; and while an urgent one is being
claimed, a lesser one that came right behind it does not overtake it.

A batch takes up a whole place at first, and less as it goes on (`scraper.places.Place`): what waits for slow hosts leaves
room for what could be fetched meanwhile. So 256 batches may be under way in 32 places, at the most.

This is Celery's `threads` pool but for that order. Whoever asks for another (`-P solo`, `-P processes`) gets batches in the
order in which the broker gives them out.
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

from scraper import places, settings
from scraper.places import LEAST_COST, Place
from scraper.policy.routing import PRIORITY_LEVELS, level_of_message, may_begin

Call = Callable[[], Any]


class TaskPool(thread.TaskPool):  # type: ignore[misc] # Celery has no types
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.executor = thread.ThreadPoolExecutor(max_workers=int(self.limit / LEAST_COST) * PRIORITY_LEVELS)
        self._zero_is_first = not settings.load().broker_is_amqp
        self._lock = threading.Lock()
        self._came = count()
        self._waiting: list[tuple[int, int, Future[Any], Call]] = []
        self._under_way: set[Place] = set()

    def on_apply(
        self,
        target: Any,
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
        callback: Any = None,
        accept_callback: Any = None,
        **_: Any,
    ) -> Any:
        level = self._level(args or ())
        future: Future[Any] = Future()

        def call() -> Any:
            return apply_target(target, args, kwargs, callback, accept_callback)

        with self._lock:
            heapq.heappush(self._waiting, (-level, next(self._came), future, call))
        self._begin()
        return thread.ApplyResult(future)

    def on_stop(self) -> None:
        """What waits here was not acknowledged and goes back; what is under way ends."""
        with self._lock:
            self._waiting.clear()
        super().on_stop()

    def _begin(self) -> None:
        with self._lock:
            while self._waiting and self._may_begin(-self._waiting[0][0]):
                below, _, future, call = heapq.heappop(self._waiting)
                place = Place(-below, self._begin)
                self._under_way.add(place)
                self.executor.submit(self._run, place, future, call)

    def _may_begin(self, level: int) -> bool:
        if any(place.coming and place.level > level for place in self._under_way):
            return False
        return may_begin(level, self._begun(), self.limit)

    def _begun(self) -> Mapping[int, float]:
        begun: dict[int, float] = defaultdict(float)
        for place in self._under_way:
            begun[place.level] += place.cost
        return begun

    def _run(self, place: Place, future: Future[Any], call: Call) -> None:
        try:
            with places.taken(place):
                future.set_result(call())
        except BaseException as error:  # noqa: BLE001 - whoever asked for the result gets it
            future.set_exception(error)
        finally:
            with self._lock:
                self._under_way.discard(place)
            self._begin()

    def _level(self, args: tuple[Any, ...]) -> int:
        """Celery hands over (task name, id, request, body …); the request knows how the message came."""
        request = args[2] if len(args) > 2 and isinstance(args[2], Mapping) else {}
        priority = (request.get("delivery_info") or {}).get("priority")
        return level_of_message(priority, zero_is_first=self._zero_is_first)
