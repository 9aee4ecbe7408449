"""Calls of users' functions, as far as they are pure: what may be called, groups, messages; and a
courier without servers."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scraper.domain import Message, Outcome
from scraper.errors import FetchError, FunctionRefusedError
from scraper.plugins.functions.group import (
    CallOptions,
    Failure,
    Group,
    group_size,
    input_size,
    parts_of,
    size_after,
)
from scraper.plugins.functions.sender import CallGroup, CallSender
from scraper.plugins.functions.store import DONE, Look
from scraper.plugins.functions.worker.allowed_functions import resolve_function
from scraper.plugins.functions.worker.runner import LANES, CallRunner, failure_of
from scraper.settings import Settings

ALLOWED = ("tests.support.called",)


@given(st.text())
def test_only_whole_names_of_allowed_modules_are_parts(text: str) -> None:
    for function in (
        text,
        f"{text}:echo",
        f"tests.support.called:{text}",
        f"tests.support.called{text}:echo",
    ):
        try:
            module, name = parts_of(function, ALLOWED)
        except ValueError:
            continue
        assert (
            module == "tests.support.called"
            and name.isascii()
            and name.isidentifier()
            and not name.startswith("_")
        )
        assert function == f"{module}:{name}"


def test_nothing_is_imported_that_is_not_allowed() -> None:
    assert "antigravity" not in sys.modules
    with pytest.raises(FunctionRefusedError, match="allows tests.support.called"):
        resolve_function("antigravity:fly", ALLOWED)
    with pytest.raises(FunctionRefusedError, match="no module"):
        resolve_function("tests.support.called:echo", ())
    assert "antigravity" not in sys.modules


@pytest.mark.parametrize(
    "name", ["Walk", "Path", "imported", "not_async", "make", "nothing", "POLL_S", "annotations"]
)
def test_only_async_functions_of_the_module_itself_are_called(name: str) -> None:
    assert resolve_function("tests.support.called:echo", ALLOWED).__name__ == "echo"
    with pytest.raises(FunctionRefusedError, match="fix"):
        resolve_function(f"tests.support.called:{name}", ALLOWED)


@pytest.mark.parametrize("value", ["a;b", "os.system()", "a,..b", "1a", "a:b"])
def test_the_allow_list_names_modules(value: str) -> None:
    with pytest.raises(ValueError, match="not a module's name"):
        Settings(functions=value)
    assert Settings(functions="a, b.c d").function_modules == ("a", "b.c", "d")


@given(st.integers(1, 5000))
def test_few_messages(inputs: int) -> None:
    size = group_size(min(inputs, 1000))
    assert 1 <= size <= 100
    assert -(-inputs // size) <= max(10, inputs / 100 + 1)


def test_a_group_comes_out_as_it_went_in() -> None:
    group = Group(
        "0" * 32,
        3,
        "a:b",
        "browser.eu",
        10,
        CallOptions(site="x", concurrency=2),
        [(7, {"ä": [1, None]}), (9, "u")],
    )
    assert Group.parse(group.message()) == group
    for wrong in ("", "[]", "{}", group.message().replace('"number"', '"n"')):
        with pytest.raises(ValueError, match="not a group|unexpected|Input"):
            Group.parse(wrong)


def test_inputs_are_json_of_some_size() -> None:
    assert input_size(0, "äb") == 5
    with pytest.raises(TypeError, match="input 4 is not JSON"):
        input_size(4, {1, 2})
    with pytest.raises(ValueError, match="input 5 is"):
        input_size(5, "x" * 600_000)


def test_failures_say_whose_fault_it_is() -> None:
    try:
        raise RuntimeError("above") from FetchError(Outcome.TIMEOUT, "below")
    except RuntimeError as error:
        failure = failure_of(error)
    assert (failure.type, failure.message, failure.blame, failure.outcome) == (
        "RuntimeError",
        "above",
        "host",
        "timeout",
    )
    assert failure_of(KeyError("x")).blame == "parser"


class World:
    """Redis, the broker and workers as a courier meets them; `look` and `send` may be changed."""

    def __init__(self) -> None:
        self.sent: list[Group] = []

    def sender(self, unserved: Callable[[float], None] = lambda _: None) -> CallSender:
        return CallSender(
            connect=lambda _: self,  # type: ignore[arg-type, return-value]
            send=lambda: self.publish,
            unserved=unserved,
            function="a:b",
            queue="q",
            priority=10,
            options=CallOptions(),
            timeout_s=None,
        )

    def publish(self, messages: Sequence[Message]) -> None:
        self.sent += [Group.parse(message.kwargs["message"]) for message in messages]

    def answer(self, number: int, **told: Any) -> dict[str, Any]:
        return dict(orjson.loads(orjson.dumps({"g": number, **told})))


def parcel(*indexes: int, losses: int = 0) -> CallGroup:
    return CallGroup({index: f"in {index}" for index in indexes}, losses)


def test_a_lost_group_goes_out_again_without_what_it_gave() -> None:
    world = World()
    sender = world.sender()
    sender._out = {1: parcel(0, 1, 2)}
    sender._apply_entry(world.answer(1, r=[[1, 1, "one"]]))
    sender._find_lost_groups(Look(False, 100.0, {1: 99.0}), 0.0)
    assert sender._out == {} and sender._stale == [1]
    assert [(list(each.open), each.losses) for each in sender._unsent] == [([0, 2], 1)]
    sender._apply_entry(world.answer(1, r=[[0, 1, "late"], [1, 1, "again"]], end=True))
    assert sender.inbox.results == {1: "one", 0: "late"}, "each once, whoever brings it"


def test_what_workers_are_lost_with_gets_smaller_and_goes_alone_at_last() -> None:
    sender = World().sender()
    for losses, sizes in ((0, [25]), (1, [10, 10, 5]), (2, [1] * 25)):
        sender._unsent.clear()
        sender._split_lost_group(parcel(*range(25), losses=losses))
        out = sender._suspects if losses == 2 else sender._unsent
        assert [len(each.open) for each in out] == sizes
    sender._split_lost_group(parcel(7, losses=3))
    assert (
        isinstance(sender.inbox.results[7], Failure)
        and sender.inbox.results[7].outcome == "worker_lost"
    )
    assert size_after(3) == 1


def test_suspects_go_one_after_the_other() -> None:
    world = World()
    sender = world.sender()
    sender._suspects.extend([parcel(0, losses=3), parcel(1, losses=3)])
    calls: Any = type("C", (), {"record_sent": lambda *_: None})()
    sender._send_what_waits(calls, world.publish)
    sender._send_what_waits(calls, world.publish)
    assert [group.inputs for group in world.sent] == [[(0, "in 0")]]
    sender._apply_entry(world.answer(1, r=[[0, 1, 5]], end=True))
    sender._send_what_waits(calls, world.publish)
    assert [group.inputs for group in world.sent] == [[(0, "in 0")], [(1, "in 1")]]


def test_a_withdrawn_group_stays_withdrawn_while_redis_or_the_broker_is_away() -> None:
    world, recorded, away = World(), [], ""
    sender = world.sender()
    sender._stale = [7]

    def record_sent(_: Any, number: int, stale: Sequence[int]) -> None:
        if away == "redis":
            raise ConnectionError
        recorded.append((number, list(stale)))

    def send(messages: Sequence[Message]) -> None:
        if away:
            raise ConnectionError
        world.publish(messages)

    calls: Any = type("C", (), {"record_sent": record_sent})()
    sender._unsent.extend([parcel(0), parcel(1)])
    for away in ("redis", "broker", ""):
        with pytest.raises(ConnectionError) if away else nullcontext():
            sender._send_what_waits(calls, send)
    assert recorded == [(2, [7]), (3, [2]), (4, [])]
    assert [group.number for group in world.sent] == [3, 4]


def test_what_is_handed_back_or_ends_without_results_goes_out_again() -> None:
    world = World()
    sender = world.sender()
    sender._out = {1: parcel(0, 1), 2: parcel(2, 3)}
    sender._apply_entry(world.answer(1, b=[1]))
    sender._apply_entry(
        world.answer(
            2,
            r=[
                [
                    2,
                    0,
                    {"type": "E", "message": "m", "blame": "us", "outcome": "o", "traceback": ""},
                ]
            ],
            end=True,
        )
    )
    assert [list(each.open) for each in sender._unsent] == [[1], [3]]
    assert list(sender._out) == [1]
    assert sender.inbox.results == {2: Failure("E", "m", "us", "o")}


def test_an_unread_message_is_sent_again_and_the_reason_is_asked() -> None:
    asked: list[float] = []
    sender = World().sender(asked.append)
    sender._out = {1: parcel(0)}
    sender._idle_since = sender._out[1].sent_at = 0.0
    sender._find_lost_groups(Look(False, 0.0, {1: None}), 10.0)
    assert list(sender._out) == [1] and asked == [10.0]
    sender._find_lost_groups(Look(False, 0.0, {1: None}), 21.0)
    assert sender._out == {} and sender._stale == [1] and sender._unsent[0].patience_s == 40.0


def test_after_redis_was_emptied_workers_have_a_moment_to_say_what_they_have() -> None:
    sender = World().sender()
    sender._out = {1: parcel(0), 2: parcel(1)}
    sender._find_lost_groups(Look(True, 0.0, {1: None, 2: None}), 100.0)
    sender._find_lost_groups(Look(False, 50.0, {1: 60.0, 2: None}), 106.0)
    assert list(sender._out) == [1] and [list(each.open) for each in sender._unsent] == [[1]]


def test_an_input_that_ends_while_others_are_handed_back_is_sent() -> None:
    async def work() -> list[dict[str, Any]]:
        entries: list[dict[str, Any]] = []
        is_released = asyncio.Event()

        async def claim(*_: Any) -> bool:
            return True

        async def push(_: str, entry: dict[str, Any]) -> int:
            entries.append(orjson.loads(orjson.dumps(entry)))
            is_released.set()
            while not runner._running[0].ended:
                await asyncio.sleep(0)
            return DONE

        async def wait(_: Any, value: int) -> int:
            await is_released.wait()
            return value

        groups: Any = SimpleNamespace(claim=claim, push=push)
        clients: Any = SimpleNamespace(lend_client=lambda _: nullcontext())
        context: Any = SimpleNamespace(policy=None)
        runner = CallRunner(groups=groups, clients=clients, pages=None, settings=Settings())
        inputs = [(index, index) for index in range(LANES + 1)]
        group = Group("0" * 32, 1, "a:b", "q", 10, CallOptions(), inputs)
        running = asyncio.ensure_future(runner.run(group, context, wait, None))
        while not runner.active or not runner._running[0].under_way:
            await asyncio.sleep(0)
        runner.hand_back()
        await running
        return entries

    first, *later = asyncio.run(work())
    assert (first["b"], first["end"]) == ([LANES], False)
    results = [index for entry in later for index, _, _ in entry.get("r", ())]
    assert sorted(results) == list(range(LANES)) and later[-1]["end"]


def test_importing_the_client_costs_next_to_nothing() -> None:
    heavy = {"celery", "redis", "sqlalchemy", "pydantic", "httpx"}
    program = (
        f"import sys, scraper.plugins.functions.client; print(sorted({heavy} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
