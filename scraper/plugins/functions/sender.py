"""Sends a call's inputs to the workers and receives their results, in one thread per call in the
caller's process.

The caller's thread adds inputs group by group (`feed`) and takes results (`Inbox`). This thread
sends messages, reads results, renews the call, and sends lost groups again: those whose worker fell
silent, whose message no worker claimed, or that a worker gave back. Each input's result is passed
on once, from the first worker that has it.

An input that repeatedly loses workers is sent in ever smaller groups, at last alone, and then given
up. So an input that kills workers does not kill all of them, and no other input loses its result.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from scraper.domain import Blame, Message, Outcome
from scraper.errors import (
    CallTimeoutError,
    FunctionRefusedError,
    ScraperError,
    ServerUnavailableError,
)
from scraper.plugins.functions.group import (
    LOSSES_MAX,
    CallOptions,
    Failure,
    Group,
    size_after,
)
from scraper.plugins.functions.store import CallStore, Look

LOOK_S = 1.0
# The call fails after this time without Redis or the broker.
AWAY_S = 60.0
RETRY_S = 0.5
# A message that no worker has claimed is sent again after this time, which doubles each time.
UNCLAIMED_S, UNCLAIMED_MAX_S = 20.0, 160.0
# After Redis was emptied, workers have this time to report their groups.
FORGOTTEN_S = 5.0
# A message expires after this; workers refuse a stale one by its number before.
EXPIRES_S = 3600.0
CLOSE_S = 3.0

Send = Callable[[Sequence[Message]], None]


@dataclass(slots=True)
class CallGroup:
    """Inputs that are sent together and have no result yet. `losses`: the workers that were lost
    with them."""

    open: dict[int, Any]
    losses: int = 0
    patience_s: float = UNCLAIMED_S
    sent_at: float = 0.0
    claimed: bool = False

    @property
    def suspect(self) -> bool:
        return size_after(self.losses) == 1


@dataclass(slots=True)
class Inbox:
    """Results for the caller's thread or event loop. `changed` is notified, and `wake` called, at
    each change."""

    changed: threading.Condition = field(default_factory=threading.Condition)
    # By index: a value, or a Failure.
    results: dict[int, Any] = field(default_factory=dict)
    # Indexes in the order in which results came.
    order: deque[int] = field(default_factory=deque)
    error: BaseException | None = None
    wake: Callable[[], None] | None = None

    def put(self, index: int, value: Any) -> None:
        self.results[index] = value
        self.order.append(index)

    def notify_caller(self) -> None:
        with self.changed:
            self.changed.notify_all()
            wake = self.wake
        if wake is not None:
            wake()


class CallSender:
    """The sending side of a call. `unserved` is called with the seconds for which no worker has
    claimed any waiting message; it may start a worker, or raise."""

    def __init__(
        self,
        *,
        connect: Callable[[str], CallStore],
        send: Callable[[], Send],
        unserved: Callable[[float], None],
        function: str,
        queue: str,
        priority: int,
        options: CallOptions,
        timeout_s: float | None,
    ) -> None:
        self.call = uuid4().hex
        self.inbox = Inbox()
        self.messages = 0
        self._connect, self._sender, self._unserved = connect, send, unserved
        self._function, self._options = function, options
        self._queue, self._priority = queue, priority
        self._timeout_s = timeout_s
        self._deadline_at = None if timeout_s is None else time.monotonic() + timeout_s
        self._unsent: deque[CallGroup] = deque()
        # Groups of one input that may kill workers: one is sent at a time.
        self._suspects: deque[CallGroup] = deque()
        self._out: dict[int, CallGroup] = {}
        # The numbers of groups that workers must not run.
        self._stale: list[int] = []
        self._groups = 0
        self._seen: set[int] = set()
        self._all_fed = self._cancelled = False
        # Since then no worker has claimed a waiting message.
        self._idle_since = time.monotonic()
        self._thread = threading.Thread(
            target=self._run_thread, name=f"call {self.call[:8]}", daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    def feed(self, inputs: dict[int, Any]) -> None:
        self._unsent.append(CallGroup(inputs))

    def end_inputs(self) -> None:
        """Marks the last input as added."""
        self._all_fed = True

    def cancel(self) -> None:
        """Cancels the inputs that have not started. Returns once Redis has it, or after some
        seconds."""
        self._cancelled = True
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(CLOSE_S)

    # The methods below run in the thread.

    def _run_thread(self) -> None:
        try:
            self._exchange_messages()
        except BaseException as error:  # noqa: BLE001 - the caller raises it
            self.inbox.error = error
        self.inbox.notify_caller()

    def _exchange_messages(self) -> None:
        calls, send = self._connect(self.call), self._sender()
        looked_at, away_since = 0.0, None
        try:
            while not self._cancelled and not self._is_done():
                self._check_timeout()
                now = time.monotonic()
                try:
                    self._send_what_waits(calls, send)
                    if now - looked_at >= LOOK_S:
                        looked_at = now
                        look = calls.look(list(self._out))
                        # Results that were pushed before the look are read first.
                        self._read_entries(calls, 0.0)
                        self._find_lost_groups(look, now)
                    self._read_entries(calls, min(LOOK_S, 0.2))
                    away_since = None
                except ScraperError:
                    raise
                except Exception as error:
                    if not _is_outage(error):
                        raise
                    away_since = away_since or now
                    if now - away_since > AWAY_S:
                        raise ServerUnavailableError(
                            f"Redis or the broker has not answered for {AWAY_S:.0f} s: "
                            f"{type(error).__name__}: {error}"
                        ) from error
                    time.sleep(RETRY_S)
        finally:
            self._close_call(calls)

    def _is_done(self) -> bool:
        return self._all_fed and not (self._unsent or self._suspects or self._out)

    def _check_timeout(self) -> None:
        if self._deadline_at is not None and time.monotonic() > self._deadline_at:
            raise CallTimeoutError(
                f"the calls of {self._function} did not end within {self._timeout_s:g} s"
            )

    def _send_what_waits(self, calls: CallStore, send: Send) -> None:
        while not self._cancelled:
            if self._unsent:
                waiting = self._unsent
            elif self._suspects and not any(group.suspect for group in self._out.values()):
                waiting = self._suspects
            else:
                return
            if not self._out:
                self._idle_since = time.monotonic()
            group = waiting[0]
            self._groups += 1
            number = self._groups
            calls.record_sent(number, self._stale)
            # The number stays stale if sending fails.
            self._stale = [number]
            send([self._make_message(number, group.open)])
            self._stale = []
            self.messages += 1
            waiting.popleft()
            group.sent_at, group.claimed = time.monotonic(), False
            self._out[number] = group

    def _make_message(self, number: int, inputs: dict[int, Any]) -> Message:
        group = Group(
            self.call,
            number,
            self._function,
            self._queue,
            self._priority,
            self._options,
            list(inputs.items()),
        )
        kwargs = {"message": group.message()}
        return Message("call_functions", self._queue, kwargs, self._priority, EXPIRES_S)

    def _read_entries(self, calls: CallStore, wait_s: float) -> None:
        while entries := calls.read(wait_s):
            for entry in entries:
                self._apply_entry(entry.content())
            calls.remove_entries(entries)
            self.inbox.notify_caller()
            wait_s = 0.0

    def _apply_entry(self, content: dict[str, Any]) -> None:
        if "refused" in content:
            raise FunctionRefusedError(
                f"{self._function} is refused by a worker of {self._queue}: {content['refused']}"
            )
        self._idle_since = time.monotonic()
        for index, ok, value in content.get("r", ()):
            self._record_result(index, value if ok else Failure(**value))
        group = self._out.get(content["g"])
        if group is None:
            return
        self._drop_seen(group)
        back = {
            index: group.open.pop(index) for index in content.get("b", ()) if index in group.open
        }
        if back:
            self._unsent.append(CallGroup(back, group.losses))
        if content.get("end"):
            del self._out[content["g"]]
            # The results of these inputs were lost.
            if group.open:
                self._unsent.append(CallGroup(group.open, group.losses))

    def _drop_seen(self, group: CallGroup) -> None:
        """Drops inputs that already have a result from another worker."""
        for index in self._seen.intersection(group.open):
            del group.open[index]

    def _record_result(self, index: int, value: Any) -> None:
        if index not in self._seen:
            self._seen.add(index)
            self.inbox.put(index, value)

    def _find_lost_groups(self, look: Look, now: float) -> None:
        """Finds groups that no worker runs, by Redis's clock, and has them sent again."""
        if look.forgotten:
            for group in self._out.values():
                group.claimed, group.sent_at, group.patience_s = False, now, FORGOTTEN_S
        for number, group in list(self._out.items()):
            self._drop_seen(group)
            until = look.until.get(number)
            group.claimed = until is not None
            if not group.open:
                self._withdraw_group(number)
            elif until is not None and until < look.now:
                self._withdraw_group(number)
                self._split_lost_group(group)
            elif until is None and now - group.sent_at > group.patience_s:
                self._withdraw_group(number)
                group.patience_s = min(UNCLAIMED_MAX_S, max(UNCLAIMED_S, 2 * group.patience_s))
                self._unsent.append(group)
        if any(group.claimed for group in self._out.values()) or not self._out:
            self._idle_since = now
        elif now - self._idle_since > LOOK_S:
            self._unserved(now - self._idle_since)

    def _withdraw_group(self, number: int) -> None:
        del self._out[number]
        self._stale.append(number)

    def _split_lost_group(self, group: CallGroup) -> None:
        """Sends the inputs of a silent worker again in smaller groups, or gives up the last one."""
        losses = group.losses + 1
        if losses >= LOSSES_MAX and group.suspect:
            (index,) = group.open
            message = (
                f"{losses} workers were lost with it, the last ones with it alone: "
                "it kills them or blocks their event loop"
            )
            self._record_result(
                index,
                Failure("WorkerLostError", message, Blame.US.value, Outcome.WORKER_LOST.value),
            )
            self.inbox.notify_caller()
            return
        size, items = size_after(losses), list(group.open.items())
        parts = [
            CallGroup(dict(items[at : at + size]), losses) for at in range(0, len(items), size)
        ]
        (self._suspects if size == 1 else self._unsent).extend(parts)

    def _close_call(self, calls: CallStore) -> None:
        try:
            calls.close()
        except Exception as error:
            # The call then expires in Redis.
            if not _is_outage(error):
                raise


def _is_outage(error: Exception) -> bool:
    from scraper.infra import outages

    return outages.is_broker_away(error) or isinstance(error, (ConnectionError, TimeoutError))
