"""Carries a call's inputs to the workers and their results back: one thread a call, on the side of
whoever called.

The caller's own thread hands over inputs group by group (`feed`) and takes results (`Inbox`); this
one sends messages, reads what comes back, says that the caller is still there, and sends again what
was lost: groups whose worker fell silent, whose message nobody took up, or that a worker gave back.
Each input's result is passed on once, whichever worker's came first.

An input that workers are lost with, again and again, is sent in ever smaller groups, at last alone,
and given up then; so one that kills workers does not kill all of them, and costs no other input its
result.
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
    Failure,
    Group,
    Options,
    size_after,
)
from scraper.plugins.functions.store import Calls, Look

LOOK_S = 1.0
# Without Redis or the broker for so long, the call fails.
AWAY_S = 60.0
RETRY_S = 0.5
# A message that nobody took up by then is sent again, less often each time.
UNCLAIMED_S, UNCLAIMED_MAX_S = 20.0, 160.0
# After Redis was emptied, workers have so long to say what they have.
FORGOTTEN_S = 5.0
# A message expires after this; one that is no longer meant is refused by its number anyway.
EXPIRES_S = 3600.0
CLOSE_S = 3.0

Send = Callable[[Sequence[Message]], None]


@dataclass(slots=True)
class CallGroup:
    """Inputs that go out together: those that have no result yet. `losses`: workers that were lost
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
    """What has come, for the caller's thread or loop. `changed` is notified, and `wake` called, at
    each change."""

    changed: threading.Condition = field(default_factory=threading.Condition)
    # By index: a value, or a Failure.
    results: dict[int, Any] = field(default_factory=dict)
    order: deque[int] = field(default_factory=deque)  # as they came
    error: BaseException | None = None
    wake: Callable[[], None] | None = None

    def put(self, index: int, value: Any) -> None:
        self.results[index] = value
        self.order.append(index)

    def tell(self) -> None:
        with self.changed:
            self.changed.notify_all()
            wake = self.wake
        if wake is not None:
            wake()


class CallSender:
    """`unserved` is told for how long nobody has taken up any message that waits; it may do
    something about it, or raise."""

    def __init__(
        self,
        *,
        connect: Callable[[str], Calls],
        send: Callable[[], Send],
        unserved: Callable[[float], None],
        function: str,
        queue: str,
        priority: int,
        options: Options,
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
        self._unsent: deque[CallGroup] = deque()  # to be sent
        # These are to be sent one after the other.
        self._suspects: deque[CallGroup] = deque()
        self._out: dict[int, CallGroup] = {}
        # These are the numbers of what is not meant any more.
        self._stale: list[int] = []
        self._groups = 0
        self._seen: set[int] = set()
        self._all_fed = self._cancelled = False
        # Since then nobody has taken up anything that waits.
        self._idle_since = time.monotonic()
        self._thread = threading.Thread(target=self._run, name=f"call {self.call[:8]}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def feed(self, inputs: dict[int, Any]) -> None:
        self._unsent.append(CallGroup(inputs))

    def fed(self) -> None:
        """There are no more inputs."""
        self._all_fed = True

    def cancel(self) -> None:
        """Nothing more is begun, nobody waits for results. Returns once workers can know it, or
        after some seconds."""
        self._cancelled = True
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(CLOSE_S)

    # What follows runs in the thread.

    def _run(self) -> None:
        try:
            self._carry()
        except BaseException as error:  # noqa: BLE001 - whoever waits for results has to know
            self.inbox.error = error
        self.inbox.tell()

    def _carry(self) -> None:
        calls, send = self._connect(self.call), self._sender()
        looked_at, away_since = 0.0, None
        try:
            while not self._cancelled and not self._done():
                self._check_timeout()
                now = time.monotonic()
                try:
                    self._send_what_waits(calls, send)
                    if now - looked_at >= LOOK_S:
                        looked_at = now
                        look = calls.look(list(self._out))
                        # What was sent before we looked comes first.
                        self._read(calls, 0.0)
                        self._judge(look, now)
                    self._read(calls, min(LOOK_S, 0.2))
                    away_since = None
                except ScraperError:
                    raise
                except Exception as error:
                    if not _away(error):
                        raise
                    away_since = away_since or now
                    if now - away_since > AWAY_S:
                        raise ServerUnavailableError(
                            f"Redis or the broker has not answered for {AWAY_S:.0f} s: "
                            f"{type(error).__name__}: {error}"
                        ) from error
                    time.sleep(RETRY_S)
        finally:
            self._end(calls)

    def _done(self) -> bool:
        return self._all_fed and not (self._unsent or self._suspects or self._out)

    def _check_timeout(self) -> None:
        if self._deadline_at is not None and time.monotonic() > self._deadline_at:
            raise CallTimeoutError(
                f"the calls of {self._function} did not end within {self._timeout_s:g} s"
            )

    def _send_what_waits(self, calls: Calls, send: Send) -> None:
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
            # This is for the case that it is not sent.
            stale, self._stale = self._stale, [number]
            calls.sent(number, stale)
            send([self._message(number, group.open)])
            self._stale.remove(number)
            self.messages += 1
            waiting.popleft()
            group.sent_at, group.claimed = time.monotonic(), False
            self._out[number] = group

    def _message(self, number: int, inputs: dict[int, Any]) -> Message:
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

    def _read(self, calls: Calls, wait_s: float) -> None:
        while entries := calls.read(wait_s):
            for entry in entries:
                self._take(entry.content())
            calls.heard(entries)
            self.inbox.tell()
            wait_s = 0.0

    def _take(self, content: dict[str, Any]) -> None:
        if "refused" in content:
            raise FunctionRefusedError(
                f"{self._function} is refused by a worker of {self._queue}: {content['refused']}"
            )
        self._idle_since = time.monotonic()
        for index, ok, value in content.get("r", ()):
            self._settle(index, value if ok else Failure(**value))
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
            # What it did was lost on the way.
            if group.open:
                self._unsent.append(CallGroup(group.open, group.losses))

    def _drop_seen(self, group: CallGroup) -> None:
        """What another worker was faster with."""
        for index in self._seen.intersection(group.open):
            del group.open[index]

    def _settle(self, index: int, value: Any) -> None:
        if index not in self._seen:
            self._seen.add(index)
            self.inbox.put(index, value)

    def _judge(self, look: Look, now: float) -> None:
        """Finds groups that nobody works on any more, by Redis's clock."""
        if look.forgotten:
            for group in self._out.values():
                group.claimed, group.sent_at, group.patience_s = False, now, FORGOTTEN_S
        for number, group in list(self._out.items()):
            self._drop_seen(group)
            until = look.until.get(number)
            group.claimed = until is not None
            if not group.open:
                self._call_in(number)
            elif until is not None and until < look.now:
                self._call_in(number)
                self._lost(group)
            elif until is None and now - group.sent_at > group.patience_s:
                self._call_in(number)
                group.patience_s = min(UNCLAIMED_MAX_S, max(UNCLAIMED_S, 2 * group.patience_s))
                self._unsent.append(group)
        if any(group.claimed for group in self._out.values()) or not self._out:
            self._idle_since = now
        elif now - self._idle_since > LOOK_S:
            self._unserved(now - self._idle_since)

    def _call_in(self, number: int) -> None:
        del self._out[number]
        self._stale.append(number)

    def _lost(self, group: CallGroup) -> None:
        """A worker fell silent with it."""
        losses = group.losses + 1
        if losses >= LOSSES_MAX and group.suspect:
            (index,) = group.open
            message = (
                f"{losses} workers were lost with it, the last by it alone: "
                "it kills them, or blocks their loop"
            )
            self._settle(
                index,
                Failure("WorkerLostError", message, Blame.US.value, Outcome.WORKER_LOST.value),
            )
            self.inbox.tell()
            return
        size, items = size_after(losses), list(group.open.items())
        parts = [
            CallGroup(dict(items[at : at + size]), losses) for at in range(0, len(items), size)
        ]
        (self._suspects if size == 1 else self._unsent).extend(parts)

    def _end(self, calls: Calls) -> None:
        try:
            calls.close()
        except Exception as error:
            # It ends by itself then.
            if not _away(error):
                raise


def _away(error: Exception) -> bool:
    from scraper.infra import outages

    return outages.is_broker_away(error) or isinstance(error, (ConnectionError, TimeoutError))
