"""Celery's `threads` pool, in which `scraper.runtime.admission` decides which batch begins when.

Other pools (`-P solo`, `-P processes`) take batches in the broker's order.
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
        # Celery passes (task name, id, request, body …); the request has the delivery info.
        request = args[2] if len(args) > 2 and isinstance(args[2], Mapping) else {}
        delivery = request.get("delivery_info") or {}
        work = partial(apply_target, target, args, kwargs, callback, accept_callback)
        future = self.admission.submit(
            str(delivery.get("routing_key") or ""), delivery.get("priority"), work
        )
        return thread.ApplyResult(future)

    def on_stop(self) -> None:
        """Stops the pool: waiting messages were not acknowledged and go back to the broker, and
        batches under way end."""
        self.admission.close()
        super().on_stop()
