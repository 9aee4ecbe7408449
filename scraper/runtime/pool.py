"""Celery's `threads` pool, with `scraper.runtime.admission` deciding which batch begins when.

Whoever asks for another pool (`-P solo`, `-P processes`) gets batches in the order in which the
broker gives them out.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from celery.concurrency import thread
from celery.concurrency.base import apply_target

from scraper.infra.slots import LEAST_COST
from scraper.rules.routing import PRIORITY_LEVELS
from scraper.runtime.admission import Admission


class TaskPool(thread.TaskPool):  # type: ignore[misc] # Celery has no types
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.executor = thread.ThreadPoolExecutor(
            max_workers=int(self.limit / LEAST_COST) * PRIORITY_LEVELS
        )
        self.admission = Admission(int(self.limit), self.executor)

    def on_apply(
        self,
        target: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
        callback: Any = None,
        accept_callback: Any = None,
        **_: Any,
    ) -> Any:
        # Celery hands over (task name, id, request, body …); the request knows how the message
        # came.
        request = args[2] if len(args) > 2 and isinstance(args[2], Mapping) else {}
        delivery = request.get("delivery_info") or {}
        work = partial(apply_target, target, args, kwargs, callback, accept_callback)
        future = self.admission.submit(
            str(delivery.get("routing_key") or ""), delivery.get("priority"), work
        )
        return thread.ApplyResult(future)

    def on_stop(self) -> None:
        """What waits here was not acknowledged and goes back; what is under way ends."""
        self.admission.close()
        super().on_stop()
