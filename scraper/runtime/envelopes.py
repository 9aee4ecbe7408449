"""Which messages of the broker are ours. Pure: bytes in, and out what may be handed to Celery.

Whoever can write to the broker can write anything, and Celery and kombu trust what they read: a
`null`, a header of another type or a body that unpacks to gigabytes would end the process that
reads it, and the next one. So a message is read strictly here, and made anew of what was checked.
Whatever else it brought (callbacks, a chord, where to reply, what to sort or to log it by) stays
behind. What does not fit raises `NotOursError`.

What a message may be goes by the queue that it was read from:

    HOST.celery.pidbox         remote control: a command that is known, arguments that fit it
    ID.reply.celery.pidbox     what workers answer to it
    celeryev.ID                workers' events
    any other                  a task of `scraper.tasks`, keyword arguments that fit it
"""

from __future__ import annotations

import base64
import binascii
import re
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import orjson

from scraper.plugins.functions.group import GROUP_MAX_BYTES, Group
from scraper.rules.routing import PRIORITY_LEVELS

# A group of calls is text within JSON, where a character takes up to three times its bytes, and
# base64 adds a third. Its options, numbers and headers are far below the rest.
TASK_MAX_BYTES = 4 * GROUP_MAX_BYTES + 64_000
CONTROL_MAX_BYTES = 64_000
# Answers say what a worker does, and events come many at a time.
REPORT_MAX_BYTES = 16_000_000
REPORT_MAX_DEPTH = 50

TASKS_MODULE = "scraper.tasks"
CONTROL_QUEUE, REPLY_QUEUE, EVENT_QUEUE = ".celery.pidbox", ".reply.celery.pidbox", "celeryev."
REPLY_EXCHANGE = "reply.celery.pidbox"
EMBED = {"callbacks": None, "errbacks": None, "chain": None, "chord": None}
TEXT_MAX = 4096
BIGINT_MAX = 2**63 - 1

Fits = Callable[[Any], bool]
_QUEUE = re.compile(r"(?!celeryev|amq\.)(?!.*pidbox)[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}").fullmatch
# AMQP's headers bring them, and no log takes them.
_SURROGATE = re.compile("[\ud800-\udfff]").search
_RATE = re.compile(r"\d{1,6}(\.\d{1,3})?(/[smh])?").fullmatch


class NotOursError(ValueError):
    """A message that nobody of ours has sent. Its text says why, and quotes nothing of it."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """A message that was checked: the only headers that go on, and the body as JSON."""

    headers: Mapping[str, Any]
    body: bytes
    priority: int = 0


def _text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= TEXT_MAX and not _SURROGATE(value)


def _flag(value: Any) -> bool:
    return isinstance(value, bool)


def _whole(value: Any, least: int, most: int) -> bool:
    return type(value) is int and least <= value <= most


def _row_id(value: Any) -> bool:
    return _whole(value, 1, BIGINT_MAX)


def _nothing(value: Any) -> bool:
    return value is None


def _signal(value: Any) -> bool:
    return _text(value) and value in signal.Signals.__members__


def _uuid(value: Any) -> bool:
    try:
        return _text(value) and str(UUID(value)) == value
    except ValueError:
        return False


def _group(value: Any) -> bool:
    try:
        return isinstance(value, str) and bool(Group.of(value).inputs)
    except ValueError:
        return False


def _texts(value: Any) -> bool:
    """One or several."""
    return _text(value) or (isinstance(value, list) and all(map(_text, value)))


def _uuids(value: Any) -> bool:
    return _uuid(value) or (isinstance(value, list) and all(map(_uuid, value)))


def _queue(value: Any) -> bool:
    return isinstance(value, str) and _QUEUE(value) is not None


def _task_name(value: Any) -> bool:
    prefix, _, name = value.rpartition(".") if isinstance(value, str) else ("", "", "")
    return prefix == TASKS_MODULE and name in TASKS


def _rate(value: Any) -> bool:
    return isinstance(value, str) and _RATE(value) is not None


_CRAWL: Mapping[str, Fits] = {"crawl_id": _row_id}
_LEASE: Mapping[str, Fits] = {"lease_id": _uuid, "alone": _flag}
_NOTHING: Mapping[str, Fits] = {}
# Their keyword arguments; `alone` may be left out.
TASKS: Mapping[str, Mapping[str, Fits]] = {
    "plan": _NOTHING,
    "dispatch": _NOTHING,
    "reap": _NOTHING,
    "alert": _NOTHING,
    "prune": _NOTHING,
    "publish": _NOTHING,
    "discover": _CRAWL,
    "finish": _CRAWL,
    "fetch_listings": _LEASE,
    "fetch_products": _LEASE,
    "call_functions": {"message": _group},
}
OPTIONAL = frozenset({"alone"})

# Those of Celery's commands that `celery inspect`, `celery control` and Flower send and that have
# an effect here. Arguments that are not required may be left out, or null.
COMMANDS: Mapping[str, Mapping[str, Fits]] = {
    "ping": _NOTHING,
    "stats": _NOTHING,
    "active_queues": _NOTHING,
    "clock": _NOTHING,
    "report": _NOTHING,
    "scheduled": _NOTHING,
    "reserved": _NOTHING,
    "revoked": _NOTHING,
    "heartbeat": _NOTHING,
    "enable_events": _NOTHING,
    "disable_events": _NOTHING,
    "shutdown": _NOTHING,
    "active": {"safe": _flag},
    "conf": {"with_defaults": _flag},
    "registered": {"taskinfoitems": lambda value: value == [], "builtins": _flag},
    "query_task": {"ids": _uuids},
    "revoke": {"task_id": _uuids, "terminate": _flag, "signal": _signal},
    "rate_limit": {"task_name": _task_name, "rate_limit": _rate},
    "add_consumer": {
        "queue": _queue,
        "exchange": _nothing,
        "exchange_type": lambda value: value == "direct",
        "routing_key": _nothing,
    },
    "cancel_consumer": {"queue": _queue},
}
REQUIRED = frozenset({"ids", "task_id", "task_name", "rate_limit", "queue"})


def of_redis(raw: bytes, queue: str) -> dict[str, Any]:
    """What kombu's virtual transports take for a message."""
    _require(len(raw) <= _limit(queue), "too large")
    return _virtual(_json(raw), queue)


def of_unacked(raw: bytes) -> tuple[dict[str, Any], str]:
    """A message that waits for its acknowledgement, as kombu keeps it in Redis: [message, exchange,
    queue]. Comes with the queue that it goes back to."""
    _require(len(raw) <= TASK_MAX_BYTES, "too large")
    kept = _json(raw)
    _require(isinstance(kept, list) and len(kept) == 3 and _queue(kept[2]), "names no queue")
    return _virtual(kept[0], kept[2]), kept[2]


def of_amqp(properties: Mapping[str, Any], body: Any, queue: str) -> Envelope:
    _require(isinstance(body, (bytes, bytearray, memoryview)), "no body")
    _require(len(body) <= _limit(queue), "too large")
    return check(
        queue,
        properties.get("content_type"),
        properties.get("content_encoding"),
        properties.get("application_headers") or {},
        properties.get("priority") or 0,
        bytes(body),
    )


def _virtual(message: Any, queue: str) -> dict[str, Any]:
    _require(isinstance(message, dict), "not a message")
    properties, body = message.get("properties"), message.get("body")
    _require(isinstance(properties, dict), "no properties")
    _require(isinstance(body, str) and properties.get("body_encoding") == "base64", "no body")
    try:
        decoded = base64.b64decode(body, validate=True)
    except (binascii.Error, ValueError):
        raise NotOursError("the body is not base64") from None
    envelope = check(
        queue,
        message.get("content-type"),
        message.get("content-encoding"),
        message.get("headers"),
        properties.get("priority"),
        decoded,
    )
    return {
        "body": base64.b64encode(envelope.body).decode(),
        "content-type": "application/json",
        "content-encoding": "utf-8",
        "headers": envelope.headers,
        "properties": {
            "body_encoding": "base64",
            "delivery_info": {"exchange": "", "routing_key": queue},
            # Two messages with one tag would take each other's place among the unacknowledged.
            "delivery_tag": str(uuid4()),
            "priority": envelope.priority,
        },
    }


def check(
    queue: str, content_type: Any, encoding: Any, headers: Any, priority: Any, body: bytes
) -> Envelope:
    _require(content_type == "application/json", "the content type is not JSON")
    _require(encoding == "utf-8", "the encoding is not UTF-8")
    _require(isinstance(headers, dict), "the headers are not a mapping")
    _require(headers.get("compression") is None, "compressed")
    _require(_whole(priority, 0, PRIORITY_LEVELS - 1), "no such priority")
    content = _json(body)
    if queue.endswith(REPLY_QUEUE):
        return _reply(headers, content)
    if queue.endswith(CONTROL_QUEUE):
        return _control(content)
    if queue.startswith(EVENT_QUEUE):
        return _events(content)
    return _task(headers, content, priority)


def _task(headers: Mapping[str, Any], content: Any, priority: int) -> Envelope:
    task = headers.get("task")
    _require(_task_name(task), "not one of our tasks")
    arguments = TASKS[str(task).rpartition(".")[2]]
    _require(_uuid(headers.get("id")), "the task's id is not a UUID")
    _require(headers.get("eta") is None and headers.get("retries") in (None, 0), "for later")
    _require(headers.get("timelimit") in (None, [None, None]), "a time limit")
    _require(isinstance(content, list) and len(content) == 3, "not a task's arguments")
    args, kwargs, embed = content
    _require(args == [] and isinstance(kwargs, dict), "other arguments than the task's")
    _require(set(arguments) - OPTIONAL <= set(kwargs) <= set(arguments), "other arguments")
    _require(all(arguments[name](value) for name, value in kwargs.items()), "arguments do not fit")
    # Callbacks, error callbacks, chains and chords send messages of somebody else's.
    _require(isinstance(embed, dict) and not any(embed.values()), "with callbacks")
    return Envelope(
        {
            "lang": "py",
            "task": task,
            "id": headers["id"],
            "expires": _moment(headers.get("expires")),
            "retries": 0,
            **{
                name: value
                for name in ("root_id", "parent_id")
                if _uuid(value := headers.get(name))
            },
            # For Flower, which escapes it.
            **{
                name: value
                for name in ("argsrepr", "kwargsrepr", "origin")
                if _text(value := headers.get(name))
            },
        },
        orjson.dumps([[], kwargs, EMBED]),
        priority,
    )


def _moment(value: Any) -> str | None:
    if value is None:
        return None
    try:
        moment = datetime.fromisoformat(value)
        _require(moment.tzinfo is not None, "expires in no time zone")
        return moment.astimezone(UTC).isoformat()
    except (TypeError, ValueError, OverflowError):
        raise NotOursError("expires at no time") from None


def _control(content: Any) -> Envelope:
    _require(isinstance(content, dict), "not a command")
    method, arguments = content.get("method"), content.get("arguments") or {}
    _require(isinstance(method, str) and method in COMMANDS, "no such command")
    known = COMMANDS[method]
    _require(isinstance(arguments, dict) and arguments.keys() <= known.keys(), "other arguments")
    _require(REQUIRED & known.keys() <= arguments.keys(), "an argument is missing")
    fit = (
        known[name](value) or (value is None and name not in REQUIRED)
        for name, value in arguments.items()
    )
    _require(all(fit), "arguments do not fit")
    # Patterns are regular expressions, and nothing here sends any.
    _require(content.get("pattern") is None and content.get("matcher") is None, "a pattern")
    destination = content.get("destination")
    _require(destination is None or isinstance(destination, list), "no such destination")
    _require(destination is None or _texts(destination), "no such destination")
    command = {"method": method, "arguments": arguments, "destination": destination}
    reply_to, ticket = content.get("reply_to"), content.get("ticket")
    if reply_to is not None:
        _require(
            isinstance(reply_to, dict) and reply_to.get("exchange") == REPLY_EXCHANGE,
            "asks for a reply elsewhere",
        )
        _require(_uuid(reply_to.get("routing_key")) and _uuid(ticket), "asks for no reply")
        command["reply_to"] = {
            "exchange": REPLY_EXCHANGE,
            "routing_key": reply_to["routing_key"],
        }
        command["ticket"] = ticket
    return Envelope({}, orjson.dumps(command))


def _reply(headers: Mapping[str, Any], content: Any) -> Envelope:
    _require(_uuid(headers.get("ticket")), "an answer to nothing")
    _require(isinstance(content, dict) and _shallow(content), "not an answer")
    return Envelope({"ticket": headers["ticket"]}, orjson.dumps(content))


def _events(content: Any) -> Envelope:
    events = content if isinstance(content, list) else [content]
    _require(all(map(_event, events)), "not an event")
    return Envelope({}, orjson.dumps(content))


def _event(event: Any) -> bool:
    return (
        isinstance(event, dict)
        and event.keys() >= {"type", "hostname", "timestamp"}
        and all(_event_field(name, value) for name, value in event.items())
    )


def _event_field(name: str, value: Any) -> bool:
    match name:
        case "type" | "hostname":
            return _text(value)
        case "timestamp":
            return type(value) in (int, float) and 0 <= value < 1e11
        case "utcoffset":
            return type(value) in (int, float) and -24 <= value <= 24
        case "clock":
            return _whole(value, 0, BIGINT_MAX)
        case "pid" | "freq" | "active" | "processed" | "retries" | "runtime":
            return type(value) in (int, float)
        case "loadavg":
            return isinstance(value, list) and all(type(load) in (int, float) for load in value)
        case _:
            return value is None or isinstance(value, (str, int, float))


def _shallow(value: Any, levels: int = REPORT_MAX_DEPTH) -> bool:
    """Not nested so deep that a reader runs out of stack, and without what kombu makes objects
    of."""
    if isinstance(value, dict):
        inner: Any = () if "__type__" in value else value.values()
        levels = 0 if "__type__" in value else levels
    else:
        inner = value if isinstance(value, list) else ()
    return levels > 0 and all(_shallow(item, levels - 1) for item in inner)


def _limit(queue: str) -> int:
    if queue.endswith(REPLY_QUEUE) or queue.startswith(EVENT_QUEUE):
        return REPORT_MAX_BYTES
    return CONTROL_MAX_BYTES if queue.endswith(CONTROL_QUEUE) else TASK_MAX_BYTES


def _json(raw: bytes) -> Any:
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        raise NotOursError("not JSON") from None


def _require(fits: bool, otherwise: str) -> None:
    if not fits:
        raise NotOursError(otherwise)
