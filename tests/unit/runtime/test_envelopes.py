"""Which messages are the project's: whatever else may be written to the broker raises one error, and what
passes is made only of what was checked."""

from __future__ import annotations

import inspect
import json
import typing
from typing import Any
from uuid import uuid4

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scraper import celeryconfig
from scraper.plugins.functions.group import GROUP_MAX_BYTES, CallOptions, Group, input_size
from scraper.registry import plugin_tasks, resolve
from scraper.runtime import envelopes, message_schema
from scraper.runtime.envelopes import ForeignMessageError
from tests.support import invented

CONTROL, REPLY, EVENTS = "w@host.celery.pidbox", "id.reply.celery.pidbox", "celeryev.id"
QUEUES = ("datacenter", "coordinator", CONTROL, REPLY, EVENTS)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(("a", "")),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def passed(raw: bytes, queue: str = "datacenter") -> dict[str, Any] | None:
    try:
        return envelopes.check_redis_message(raw, queue)
    except ForeignMessageError as error:
        assert str(error).isascii() and len(str(error)) < 80, "it quotes nothing"
        return None


def ours(headers: Any, content: Any) -> bytes:
    return json.dumps(invented.envelope(headers, content)).encode()


def content_of(message: dict[str, Any]) -> Any:
    return orjson.loads(envelopes.base64.b64decode(message["body"]))


def assert_clean(message: dict[str, Any], queue: str = "datacenter") -> None:
    """Of the types that Celery takes for granted, and without anything that sends."""
    args, kwargs, embed = content_of(message)
    assert args == [] and isinstance(kwargs, dict) and not any(embed.values())
    headers, properties = message["headers"], message["properties"]
    assert headers.keys() <= {
        *("lang", "task", "id", "expires", "retries", "root_id", "parent_id"),
        *("argsrepr", "kwargsrepr", "origin"),
    }
    assert all(
        isinstance(value, str)
        for name, value in headers.items()
        if name not in ("expires", "retries")
    )
    assert properties["delivery_info"] == {"exchange": "", "routing_key": queue}
    assert "reply_to" not in properties and properties["priority"] in range(10)


def test_every_task_is_known_with_its_arguments() -> None:
    from scraper import tasks
    from scraper.celery import app

    registered = {
        name.removeprefix(f"{tasks.__name__}."): task
        for name, task in app.tasks.items()
        if name.startswith(tasks.__name__)
    }
    assert registered.keys() == message_schema.TASKS.keys()
    for name, task in registered.items():
        run = resolve(plugin_tasks()[name].run) if name in plugin_tasks() else task.run
        parameters = dict(inspect.signature(run).parameters)
        # A plug-in's task gets the worker's parts in addition to what the message holds.
        parameters.pop("host", None)
        assert parameters.keys() == message_schema.TASKS[name].keys()
        optional = {key for key, value in parameters.items() if value.default is not value.empty}
        assert optional == message_schema.OPTIONAL & parameters.keys()
        types = typing.get_type_hints(run)
        wrong = {int: "1", str: 1, bool: 1}
        assert not any(fits(wrong[types[key]]) for key, fits in message_schema.TASKS[name].items())
    ticks = {tick["task"] for tick in celeryconfig.beat_schedule.values()}
    assert ticks <= {f"{tasks.__name__}.{name}" for name in message_schema.TASKS}


def test_every_command_is_celerys() -> None:
    from celery.worker.control import Panel

    for name, arguments in message_schema.COMMANDS.items():
        parameters = inspect.signature(Panel.data[name]).parameters
        assert arguments.keys() <= parameters.keys() - {"state"}, name
        needed = {
            key
            for key, value in parameters.items()
            if value.default is value.empty and value.kind is value.POSITIONAL_OR_KEYWORD
        }
        assert needed - {"state"} == message_schema.REQUIRED & arguments.keys(), name


@pytest.mark.parametrize("queue", QUEUES)
def test_invented_messages_raise_one_error_or_come_out_clean(queue: str) -> None:
    several = invented.for_control() if queue == CONTROL else invented.for_tasks()
    for raw in several:
        message = passed(raw, queue)
        if message is not None and queue in ("datacenter", "coordinator"):
            assert_clean(message, queue)


@pytest.mark.parametrize(
    "place",
    [
        *(("body",), ("headers",), ("properties",), ("content-type",), ("content-encoding",)),
        *(("headers", name) for name in ("task", "id", "eta", "timelimit", "compression")),
        *(("properties", name) for name in ("priority", "body_encoding")),
    ],
)
def test_what_celery_reads_has_to_be_of_the_project(place: tuple[str, ...]) -> None:
    *path, name = place
    for odd in invented.ODD:
        envelope = invented.envelope(*invented.task())
        inner = envelope
        for step in path:
            inner = inner[step]
        right = {"priority": (7, 0), "timelimit": (None,)}.get(name, (inner.get(name),))
        inner[name] = odd
        if not any(odd == value and type(odd) is type(value) for value in right):
            assert passed(json.dumps(envelope).encode()) is None, odd


@given(st.binary(max_size=400), st.sampled_from(QUEUES))
def test_bytes_are_not_a_message(raw: bytes, queue: str) -> None:
    assert passed(raw, queue) is None


@given(JSON, JSON, st.sampled_from(QUEUES))
def test_no_value_breaks_the_check(headers: Any, content: Any, queue: str) -> None:
    message = passed(ours(headers, content), queue)
    assert message is None or queue in (REPLY, EVENTS)


@given(st.sampled_from(invented.PLACES), JSON)
def test_no_field_breaks_the_check(place: tuple[str, ...], value: Any) -> None:
    envelope = invented.envelope(*invented.task())
    *path, name = place
    inner = envelope
    for step in path:
        inner = inner[step]
    inner[name] = value
    message = passed(json.dumps(envelope).encode())
    if message is not None:
        assert_clean(message)


@given(JSON, JSON)
def test_no_argument_breaks_the_check(kwargs: Any, embed: Any) -> None:
    for content in ([[], kwargs, embed], [[], {"lease_id": kwargs}, {}], [[], {"message": kwargs}]):
        message = passed(ours(invented.task()[0], content))
        assert message is None


@pytest.mark.parametrize("name", ["callbacks", "errbacks", "chain", "chord"])
def test_a_message_with_callbacks_is_refused(name: str) -> None:
    headers, (args, kwargs, embed) = invented.task()
    assert passed(ours(headers, [args, kwargs, embed])) is not None
    for value in ([invented.SIGNATURE], invented.SIGNATURE, True):
        assert passed(ours(headers, [args, kwargs, {**embed, name: value}])) is None


@pytest.mark.parametrize("character", ["a", '"', "\\", "é", "\x01", "\u4e2d", "\U0001f600"])
def test_the_largest_groups_of_calls_pass(character: str) -> None:
    """As the client fills them, by bytes of JSON, whatever they are made of."""
    character_bytes = input_size(0, character) - 2
    value = character * ((GROUP_MAX_BYTES - 2) // 100 // character_bytes - 2)
    inputs = [(index, value) for index in range(100)]
    assert 0.9 * GROUP_MAX_BYTES < sum(input_size(*each) for each in inputs) <= GROUP_MAX_BYTES
    group = Group(uuid4().hex, 1, "a:b", "datacenter", 10, CallOptions(), inputs)
    raw = ours(*invented.task("call_functions", message=group.message()))
    message = passed(raw)
    assert message is not None
    assert Group.parse(content_of(message)[1]["message"]) == group


def test_what_is_too_large_is_not_even_parsed() -> None:
    headers, (args, kwargs, embed) = invented.task()
    large = ours({**headers, "other": "x" * message_schema.TASK_MAX_BYTES}, [args, kwargs, embed])
    with pytest.raises(ForeignMessageError, match="too large"):
        envelopes.check_redis_message(large, "datacenter")
    with pytest.raises(ForeignMessageError, match="too large"):
        envelopes.check_amqp_message({}, bytes(message_schema.TASK_MAX_BYTES + 1), "datacenter")


def test_a_message_goes_back_to_its_own_queue_alone() -> None:
    message = invented.envelope(*invented.task())
    restored, queue = envelopes.check_unacked_message(
        json.dumps([message, "x", "datacenter"]).encode()
    )
    assert queue == "datacenter" and restored["properties"]["delivery_info"]["exchange"] == ""
    assert restored["properties"]["delivery_tag"] != message["properties"]["delivery_tag"]
    for wrong in ("", None, [], 5, "x.celery.pidbox", "a\x06\x163", "a" * 300):
        with pytest.raises(ForeignMessageError):
            envelopes.check_unacked_message(json.dumps([message, "", wrong]).encode())


def test_commands_reply_to_who_asked_alone() -> None:
    ticket, to = str(uuid4()), str(uuid4())
    ping = {"method": "ping", "arguments": {}, "destination": ["w@host"], "ticket": ticket}
    reply_to = {"exchange": "reply.celery.pidbox", "routing_key": to}
    message = passed(ours({}, {**ping, "reply_to": reply_to}), CONTROL)
    assert message is not None
    assert content_of(message) == {**ping, "reply_to": reply_to}
    for wrong in ({**reply_to, "exchange": ""}, {**reply_to, "routing_key": "datacenter"}, [], "x"):
        assert passed(ours({}, {**ping, "reply_to": wrong}), CONTROL) is None


def test_events_of_workers_pass() -> None:
    common = {"hostname": "w@h", "utcoffset": 5.5, "pid": 4, "clock": 2, "timestamp": 1795447252.4}
    received = {"uuid": str(uuid4()), "name": "scraper.tasks.plan", "args": "()", "retries": 0}
    load = {"freq": 2.0, "active": 0, "processed": 1, "loadavg": [1.57, 1.47, 1], "sw_ver": "5.7"}
    for content in (
        [{**common, **received, "eta": None, "root_id": None, "type": "task-received"}],
        {**common, **load, "type": "worker-heartbeat"},
    ):
        message = passed(ours({"hostname": "w@h"}, content), EVENTS)
        assert message is not None and content_of(message) == content


@given(st.dictionaries(st.sampled_from(("content_type", "application_headers", "priority")), JSON))
def test_rabbitmq_messages_are_checked_alike(properties: dict[str, Any]) -> None:
    headers, content = invented.task()
    right = {
        "content_type": "application/json",
        "content_encoding": "utf-8",
        "application_headers": headers,
        "priority": 3,
    }
    body = json.dumps(content).encode()
    envelope = envelopes.check_amqp_message(right, body, "datacenter")
    assert envelope.priority == 3 and orjson.loads(envelope.body)[1] == content[1]
    if "content_type" in properties or isinstance(properties.get("application_headers"), dict):
        with pytest.raises(ForeignMessageError):
            envelopes.check_amqp_message({**right, **properties}, body, "datacenter")
    for empty in ("", None, b""):
        with pytest.raises(ForeignMessageError):
            envelopes.check_amqp_message({**right, **properties}, empty, "datacenter")
