"""Forged messages, as a client that can write to the broker would make them."""

from __future__ import annotations

import base64
import bz2
import copy
import json
import random
import zlib
from collections.abc import Iterator
from functools import cache
from typing import Any
from uuid import uuid4

STOLEN = "stolen"
HUGE = 10**30
SIGNATURE = {
    "task": "scraper.tasks.plan",
    "args": [],
    "kwargs": {},
    "options": {"queue": STOLEN, "task_id": str(uuid4())},
    "subtask_type": None,
    "immutable": True,
}
ODD: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    7,
    HUGE,
    1.5,
    1e308,
    float("nan"),
    "",
    "x",
    "\ud800",
    "\x00\r\n\x1b[31m",
    "y" * 5000,
    "9999-12-31T23:59:59-23:59",
    "0001-01-01T00:00:00+23:59",
    "2026-01-01T00:00:00",
    [],
    [[]],
    [None, [1], {"a": []}],
    ["abc", {}],
    {},
    {"a": {"b": []}},
    {"__type__": "datetime", "__value__": "x"},
    {"__type__": "decimal", "__value__": "x"},
    {"__type__": [], "__value__": "x"},
)
HEADERS = (
    *("task", "id", "root_id", "parent_id", "eta", "expires", "retries", "timelimit", "group"),
    *("argsrepr", "kwargsrepr", "origin", "compression", "stamps", "stamped_headers", "shadow"),
    *("replaced_task_nesting", "ignore_result", "redelivered", "lang", "clock", "hostname"),
)
PROPERTIES = (
    *("delivery_tag", "delivery_info", "priority", "body_encoding", "reply_to", "correlation_id"),
)
PLACES = (
    *((name,) for name in ("body", "headers", "properties", "content-type", "content-encoding")),
    *(("headers", name) for name in HEADERS),
    *(("properties", name) for name in PROPERTIES),
    *(("properties", "delivery_info", name) for name in ("exchange", "routing_key", "priority")),
)


def task(name: str = "fetch_products", **kwargs: Any) -> tuple[dict[str, Any], Any]:
    """The headers and the body's content of a message of the project."""
    task_id = str(uuid4())
    if not kwargs and name.startswith("fetch"):
        kwargs = {"lease_id": str(uuid4())}
    headers = {
        "lang": "py",
        "task": f"scraper.tasks.{name}",
        "id": task_id,
        "shadow": None,
        "eta": None,
        "expires": "2999-01-01T00:00:00+00:00",
        "group": None,
        "retries": 0,
        "timelimit": [None, None],
        "root_id": task_id,
        "parent_id": None,
        "argsrepr": "()",
        "kwargsrepr": repr(kwargs)[:1024],
        "origin": "gen1@host",
        "ignore_result": True,
        "stamped_headers": None,
        "stamps": {},
    }
    embed = {"callbacks": None, "errbacks": None, "chain": None, "chord": None}
    return headers, [[], kwargs, embed]


def envelope(headers: Any, content: Any) -> dict[str, Any]:
    """As kombu would put it into a list of Redis."""
    return {
        "body": encoded(json.dumps(content).encode()),
        "content-encoding": "utf-8",
        "content-type": "application/json",
        "headers": headers,
        "properties": {
            "correlation_id": str(uuid4()),
            "reply_to": str(uuid4()),
            "delivery_mode": 1,
            "delivery_info": {"exchange": "", "routing_key": "datacenter"},
            "priority": 0,
            "body_encoding": "base64",
            "delivery_tag": str(uuid4()),
        },
    }


def encoded(body: bytes) -> str:
    return base64.b64encode(body).decode()


def contents() -> Iterator[Any]:
    """Bodies of a task that the project does not send."""
    _, (args, kwargs, embed) = task()
    for odd in ODD:
        yield odd
        yield from ([odd, kwargs, embed], [args, odd, embed], [args, kwargs, odd])
        yield [args, {"lease_id": odd}, embed]
        yield [args, {**kwargs, "alone": odd}, embed]
        yield [args, {**kwargs, "other": odd}, embed]
        yield [[odd], {}, embed]
        for name in embed:
            yield [args, kwargs, {**embed, name: odd}]
    chord = {**SIGNATURE, "subtask_type": "chord", "kwargs": {"body": SIGNATURE, "header": []}}
    for name, value in (
        ("callbacks", [SIGNATURE]),
        ("errbacks", [SIGNATURE]),
        ("chain", [SIGNATURE]),
        ("chord", SIGNATURE),
        ("chord", chord),
    ):
        yield [args, kwargs, {**embed, name: value}]
    # The first protocol of Celery's.
    yield {"task": "scraper.tasks.plan", "id": "1", "args": [], "kwargs": {}}
    yield {"task": [], "id": {}, "args": {}, "kwargs": []}


def calls() -> Iterator[dict[str, Any]]:
    """Arguments of `call_functions` that the project does not send."""
    group = {
        "call": uuid4().hex,
        "number": 1,
        "function": "tests.support.called:echo",
        "queue": "datacenter",
        "priority": 10,
        "options": {"site": None, "rate": None},
        "inputs": [[0, "x"]],
    }
    for odd in ODD:
        yield {"message": odd}
        for name in group:
            yield {"message": json.dumps({**group, name: odd})}
        for name in ("site", "region", "proxy", "rate", "concurrency", "input_timeout_s"):
            yield {"message": json.dumps({**group, "options": {name: odd}})}
        for rate in ("0/s", "1e999/s", "9/0", "-1/s", "nan/s", "\u0664/s", "9" * 900):
            yield {"message": json.dumps({**group, "options": {"rate": rate}})}
        yield {"message": json.dumps({**group, "inputs": [[odd, "x"]]})}


def tasks() -> Iterator[tuple[Any, Any]]:
    """Headers and contents, at least one of which is wrong, or names nothing that there is."""
    yield task()
    yield task("finish", crawl_id=10**12)
    yield task("discover", crawl_id=10**12)
    for odd in ODD:
        yield task("finish", crawl_id=odd)
        for name in HEADERS:
            headers, content = task()
            yield {**headers, name: odd}, content
    for content in contents():
        yield task()[0], content
    for kwargs in calls():
        yield task("call_functions", **kwargs)
    for name in ("celery.map", "celery.chord", "celery.backend_cleanup", "os.system"):
        yield {**task()[0], "task": name}, [[SIGNATURE, [1]], {}, {}]
    for name in HEADERS:
        headers, content = task()
        headers.pop(name, None)
        yield headers, content
    # An attack on the worker's clock.
    yield {**task()[0], "clock": 2**63 - 1}, task()[1]


def commands() -> Iterator[Any]:
    """Contents of remote control messages that the project does not send."""
    ping = {"method": "ping", "arguments": {}, "destination": None}
    yield from ODD
    for odd in ODD:
        for name in ("method", "arguments", "destination", "pattern", "matcher", "reply_to"):
            yield {**ping, name: odd}
        yield {**ping, "ticket": odd, "reply_to": {"exchange": odd, "routing_key": odd}}
        for name in ("add_consumer", "revoke", "rate_limit", "time_limit", "pool_grow", "hello"):
            for argument in ("queue", "exchange_type", "task_id", "rate_limit", "n", "hard"):
                yield {**ping, "method": name, "arguments": {argument: odd}}
    yield {**ping, "pattern": "(a+)+$", "matcher": "pcre"}
    yield {**ping, "reply_to": {"exchange": "", "routing_key": STOLEN}, "ticket": str(uuid4())}
    yield {**ping, "method": "shutdown", "arguments": {"msg": []}}
    for method in ("objgraph", "memdump", "election", "pool_restart", "no_such"):
        yield {**ping, "method": method}
    for queue in ("x.celery.pidbox", "celeryev.x", "a b", STOLEN * 100):
        yield {**ping, "method": "add_consumer", "arguments": {"queue": queue}}


def raw() -> Iterator[bytes]:
    """What is not a message at all, or one whose envelope is wrong. For Redis."""
    noise = random.Random(8)
    yield from (
        b"hello",
        b"",
        b"[]",
        b"42",
        b"null",
        b"{}",
        b'"x"',
        b"\xff\xfe",
        b"NaN",
        b"[" * 9000,
    )
    yield b'{"a":' * 100_000
    yield b'{"body": "' + b"e" * 5_000_000 + b'"}'
    yield from (noise.randbytes(noise.randrange(300)) for _ in range(100))
    whole = json.dumps(envelope(*task())).encode()
    yield from (whole[: noise.randrange(len(whole))] for _ in range(50))
    for _ in range(100):
        at = noise.randrange(len(whole))
        yield whole[:at] + noise.randbytes(1) + whole[at + 1 :]
    for place in PLACES:
        for odd in ODD:
            message = envelope(*task())
            *path, name = place
            inner = message
            for step in path:
                inner = inner[step]
            inner[name] = copy.deepcopy(odd)
            yield json.dumps(message).encode()
            del inner[name]
            yield json.dumps(message).encode()
    for body in ("%%%", "AAA", "e30", encoded(b"\xff"), encoded(b"[" * 100_000), "é"):
        yield json.dumps({**envelope(*task()), "body": body}).encode()
    for kind in ("application/data", "application/x-python-serialize", "application/x-yaml"):
        yield json.dumps({**envelope(*task()), "content-type": kind}).encode()
    for name, body in bombs().items():
        headers, _ = task()
        bomb = envelope({**headers, "compression": name}, None)
        yield json.dumps({**bomb, "body": encoded(body)}).encode()


@cache
def bombs() -> dict[str, bytes]:
    """A few kilobytes that unpack to 300 MB, by the name of their compression."""
    streams = bz2.compress(bytes(3_000_000)) * 100
    return {"bzip2": streams, "application/x-gzip": zlib.compress(bytes(300_000_000))}


def for_tasks() -> Iterator[bytes]:
    """All that may be pushed to a queue of tasks in Redis."""
    yield from raw()
    for headers, content in tasks():
        yield json.dumps(envelope(headers, content)).encode()


def for_control() -> Iterator[bytes]:
    yield from raw()
    for content in commands():
        yield json.dumps(envelope({"clock": 1, "expires": 0}, content)).encode()
    for odd in ODD:
        yield json.dumps(envelope({"clock": odd, "expires": odd}, {"method": "clock"})).encode()


def events() -> Iterator[bytes]:
    """For those who watch workers."""
    yield from raw()
    event = {
        "type": "task-received",
        "hostname": "w@host",
        "timestamp": 1e9,
        "utcoffset": 0,
        "clock": 3,
        "pid": 4,
        "uuid": str(uuid4()),
    }
    for odd in ODD:
        yield json.dumps(envelope({}, odd)).encode()
        for name in (*event, "name", "args", "root_id", "freq", "loadavg", "state", "active"):
            for kind in ("task-received", "task-succeeded", "worker-heartbeat", "worker-offline"):
                yield json.dumps(envelope({}, {**event, "type": kind, name: odd})).encode()
                yield json.dumps(envelope({}, [{**event, "type": kind, name: odd}])).encode()


def replies(ticket: str) -> Iterator[bytes]:
    yield from raw()
    for odd in ODD:
        yield json.dumps(envelope({"ticket": odd, "clock": odd, "expires": odd}, {})).encode()
        yield json.dumps(envelope({"ticket": ticket}, odd)).encode()
        yield json.dumps(envelope({"ticket": ticket}, {"w@host": odd})).encode()
    deep: Any = []
    for _ in range(500):
        deep = [deep]
    yield json.dumps(envelope({"ticket": ticket}, {"w@host": deep})).encode()
