"""Checks the broker's messages, and rebuilds those that this application has sent. Pure: takes
bytes, and returns what may be passed to Celery.

A client that can write to the broker can write anything, and Celery and kombu trust what they read:
a `null`, a header of another type or a body that unpacks to gigabytes would end each process that
reads it. So this module reads a message strictly and rebuilds it from the checked parts. It leaves
out everything else (callbacks, a chord, reply addresses). For a message that does not fit it raises
`ForeignMessageError`.

The queue that a message was read from decides what it may be:

    HOST.celery.pidbox         remote control: a known command, with arguments that fit it
    ID.reply.celery.pidbox     a worker's reply to a command
    celeryev.ID                workers' events
    any other                  a task of `scraper.tasks`, with keyword arguments that fit it
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import orjson

from scraper.rules.routing import PRIORITY_LEVELS
from scraper.runtime.message_schema import (
    COMMANDS,
    OPTIONAL,
    REQUIRED,
    TASK_MAX_BYTES,
    TASKS,
    is_event,
    is_queue_name,
    is_task_name,
    is_text,
    is_text_or_list,
    is_uuid,
    is_whole_number,
)

CONTROL_MAX_BYTES = 64_000
# Replies describe a worker, and many events come in one message.
REPORT_MAX_BYTES = 16_000_000
REPORT_MAX_DEPTH = 50

CONTROL_QUEUE, REPLY_QUEUE, EVENT_QUEUE = ".celery.pidbox", ".reply.celery.pidbox", "celeryev."
REPLY_EXCHANGE = "reply.celery.pidbox"
EMBED = {"callbacks": None, "errbacks": None, "chain": None, "chord": None}


class ForeignMessageError(ValueError):
    """This application has not sent the message. The text says why, without quoting it."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """A message that was checked: the only headers that go on, and the body as JSON."""

    headers: Mapping[str, Any]
    body: bytes
    priority: int = 0


def check_redis_message(raw: bytes, queue: str) -> dict[str, Any]:
    """Returns a message in the form of kombu's virtual transports."""
    _require(len(raw) <= _max_bytes(queue), "too large")
    return _rebuild_virtual(_load_json(raw), queue)


def check_unacked_message(raw: bytes) -> tuple[dict[str, Any], str]:
    """Returns a message that was never acknowledged, and the queue that it goes back to. kombu
    stores it in Redis as [message, exchange, queue]."""
    _require(len(raw) <= TASK_MAX_BYTES, "too large")
    stored = _load_json(raw)
    valid = isinstance(stored, list) and len(stored) == 3 and is_queue_name(stored[2])
    _require(valid, "names no queue")
    message, _, queue = stored
    return _rebuild_virtual(message, queue), queue


def check_amqp_message(properties: Mapping[str, Any], body: Any, queue: str) -> Envelope:
    _require(isinstance(body, (bytes, bytearray, memoryview)), "no body")
    _require(len(body) <= _max_bytes(queue), "too large")
    return _check_message(
        queue,
        properties.get("content_type"),
        properties.get("content_encoding"),
        properties.get("application_headers") or {},
        properties.get("priority") or 0,
        bytes(body),
    )


def _rebuild_virtual(message: Any, queue: str) -> dict[str, Any]:
    _require(isinstance(message, dict), "not a message")
    properties, body = message.get("properties"), message.get("body")
    _require(isinstance(properties, dict), "no properties")
    _require(isinstance(body, str) and properties.get("body_encoding") == "base64", "no body")
    try:
        decoded = base64.b64decode(body, validate=True)
    except (binascii.Error, ValueError):
        raise ForeignMessageError("the body is not base64") from None
    envelope = _check_message(
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
            # Two messages with one tag would replace each other among the unacknowledged ones.
            "delivery_tag": str(uuid4()),
            "priority": envelope.priority,
        },
    }


def _check_message(
    queue: str, content_type: Any, encoding: Any, headers: Any, priority: Any, body: bytes
) -> Envelope:
    _require(content_type == "application/json", "the content type is not JSON")
    _require(encoding == "utf-8", "the encoding is not UTF-8")
    _require(isinstance(headers, dict), "the headers are not a mapping")
    _require(headers.get("compression") is None, "compressed")
    _require(is_whole_number(priority, 0, PRIORITY_LEVELS - 1), "no such priority")
    content = _load_json(body)
    if queue.endswith(REPLY_QUEUE):
        return _check_reply(headers, content)
    if queue.endswith(CONTROL_QUEUE):
        return _check_command(content)
    if queue.startswith(EVENT_QUEUE):
        return _check_events(content)
    return _check_task(headers, content, priority)


def _check_task(headers: Mapping[str, Any], content: Any, priority: int) -> Envelope:
    task = headers.get("task")
    _require(is_task_name(task), "not one of our tasks")
    arguments = TASKS[str(task).rpartition(".")[2]]
    _require(is_uuid(headers.get("id")), "the task's id is not a UUID")
    _require(headers.get("eta") is None and headers.get("retries") in (None, 0), "for later")
    _require(headers.get("timelimit") in (None, [None, None]), "a time limit")
    _require(isinstance(content, list) and len(content) == 3, "not a task's arguments")
    args, kwargs, embed = content
    _require(args == [] and isinstance(kwargs, dict), "other arguments than the task's")
    _require(set(arguments) - OPTIONAL <= set(kwargs) <= set(arguments), "other arguments")
    _require(all(arguments[name](value) for name, value in kwargs.items()), "arguments do not fit")
    # Callbacks, error callbacks, chains and chords would send foreign messages.
    _require(isinstance(embed, dict) and not any(embed.values()), "with callbacks")
    parents = {name: headers.get(name) for name in ("root_id", "parent_id")}
    # Flower shows these, and escapes them.
    shown = {name: headers.get(name) for name in ("argsrepr", "kwargsrepr", "origin")}
    return Envelope(
        {
            "lang": "py",
            "task": task,
            "id": headers["id"],
            # It is by the sender's clock, which may be wrong. Leases expire by PostgreSQL's, and
            # RabbitMQ removes expired messages itself.
            "expires": None,
            "retries": 0,
            **{name: value for name, value in parents.items() if is_uuid(value)},
            **{name: value for name, value in shown.items() if is_text(value)},
        },
        orjson.dumps([[], kwargs, EMBED]),
        priority,
    )


def _check_command(content: Any) -> Envelope:
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
    # Patterns are regular expressions, which this application never sends.
    _require(content.get("pattern") is None and content.get("matcher") is None, "a pattern")
    destination = content.get("destination")
    _require(destination is None or isinstance(destination, list), "no such destination")
    _require(destination is None or is_text_or_list(destination), "no such destination")
    command = {"method": method, "arguments": arguments, "destination": destination}
    if content.get("reply_to") is not None:
        command |= _check_reply_address(content["reply_to"], content.get("ticket"))
    return Envelope({}, orjson.dumps(command))


def _check_reply_address(reply_to: Any, ticket: Any) -> dict[str, Any]:
    elsewhere = not isinstance(reply_to, dict) or reply_to.get("exchange") != REPLY_EXCHANGE
    _require(not elsewhere, "asks for a reply elsewhere")
    routing_key = reply_to.get("routing_key")
    _require(is_uuid(routing_key) and is_uuid(ticket), "asks for no reply")
    address = {"exchange": REPLY_EXCHANGE, "routing_key": routing_key}
    return {"reply_to": address, "ticket": ticket}


def _check_reply(headers: Mapping[str, Any], content: Any) -> Envelope:
    _require(is_uuid(headers.get("ticket")), "an answer to nothing")
    _require(isinstance(content, dict) and _is_shallow(content), "not an answer")
    return Envelope({"ticket": headers["ticket"]}, orjson.dumps(content))


def _check_events(content: Any) -> Envelope:
    events = content if isinstance(content, list) else [content]
    _require(all(map(is_event, events)), "not an event")
    return Envelope({}, orjson.dumps(content))


def _is_shallow(value: Any, levels: int = REPORT_MAX_DEPTH) -> bool:
    """Checks that a value has no more levels than a reader's stack, and no `__type__`, which kombu
    turns into objects."""
    if isinstance(value, dict):
        inner: Any = () if "__type__" in value else value.values()
        levels = 0 if "__type__" in value else levels
    else:
        inner = value if isinstance(value, list) else ()
    return levels > 0 and all(_is_shallow(item, levels - 1) for item in inner)


def _max_bytes(queue: str) -> int:
    if queue.endswith(REPLY_QUEUE) or queue.startswith(EVENT_QUEUE):
        return REPORT_MAX_BYTES
    return CONTROL_MAX_BYTES if queue.endswith(CONTROL_QUEUE) else TASK_MAX_BYTES


def _load_json(raw: bytes) -> Any:
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        raise ForeignMessageError("not JSON") from None


def _require(condition: bool, otherwise: str) -> None:
    if not condition:
        raise ForeignMessageError(otherwise)
