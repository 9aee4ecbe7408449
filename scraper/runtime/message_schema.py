"""The tasks and remote-control commands that messages may name, and the arguments that each of them
takes. Pure."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from scraper.plugin import TASK_ARGUMENTS_MAX_BYTES
from scraper.registry import plugin_tasks, plugin_ticks, resolve

TASKS_MODULE = "scraper.tasks"
# A task's arguments are text within JSON, where a character takes up to three times its bytes, and
# base64 adds a third. Its options, numbers and headers are far below the rest.
TASK_MAX_BYTES = 4 * TASK_ARGUMENTS_MAX_BYTES + 64_000
TEXT_MAX = 4096
BIGINT_MAX = 2**63 - 1

Check = Callable[[Any], bool]
_QUEUE = re.compile(
    r"(?!celeryev|amq\.|unacked|_kombu)(?!.*pidbox)[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}"
).fullmatch
# Headers of AMQP may contain surrogates, which no log takes.
_SURROGATE = re.compile("[\ud800-\udfff]").search
_RATE = re.compile(r"\d{1,6}(\.\d{1,3})?(/[smh])?").fullmatch


def is_text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= TEXT_MAX and not _SURROGATE(value)


def is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def is_whole_number(value: Any, least: int, most: int) -> bool:
    return type(value) is int and least <= value <= most


def is_row_id(value: Any) -> bool:
    return is_whole_number(value, 1, BIGINT_MAX)


def is_null(value: Any) -> bool:
    return value is None


def is_signal(value: Any) -> bool:
    return is_text(value) and value in signal.Signals.__members__


def is_uuid(value: Any) -> bool:
    try:
        return is_text(value) and str(UUID(value)) == value
    except ValueError:
        return False


def is_text_or_list(value: Any) -> bool:
    return is_text(value) or (isinstance(value, list) and all(map(is_text, value)))


def is_uuid_or_list(value: Any) -> bool:
    return is_uuid(value) or (isinstance(value, list) and all(map(is_uuid, value)))


def is_queue_name(value: Any) -> bool:
    return isinstance(value, str) and _QUEUE(value) is not None


def is_task_name(value: Any) -> bool:
    prefix, _, name = value.rpartition(".") if isinstance(value, str) else ("", "", "")
    return prefix == TASKS_MODULE and name in TASKS


def is_rate(value: Any) -> bool:
    return isinstance(value, str) and _RATE(value) is not None


_CRAWL: Mapping[str, Check] = {"crawl_id": is_row_id}
_LEASE: Mapping[str, Check] = {"lease_id": is_uuid, "alone": is_flag}
_NONE: Mapping[str, Check] = {}
# The tasks with their keyword arguments.
TASKS: Mapping[str, Mapping[str, Check]] = {
    "plan": _NONE,
    "dispatch": _NONE,
    "reap": _NONE,
    "discover": _CRAWL,
    "finish": _CRAWL,
    "fetch_listings": _LEASE,
    "fetch_products": _LEASE,
    **{tick.name: _NONE for tick in plugin_ticks()},
    **{
        name: {argument: resolve(check) for argument, check in task.arguments.items()}
        for name, task in plugin_tasks().items()
    },
}
# Tasks may be called without these.
OPTIONAL = frozenset({"alone"})

# The commands of Celery that `celery inspect`, `celery control` and Flower send and that have an
# effect here.
COMMANDS: Mapping[str, Mapping[str, Check]] = {
    "ping": _NONE,
    "stats": _NONE,
    "active_queues": _NONE,
    "clock": _NONE,
    "report": _NONE,
    "scheduled": _NONE,
    "reserved": _NONE,
    "revoked": _NONE,
    "heartbeat": _NONE,
    "enable_events": _NONE,
    "disable_events": _NONE,
    "shutdown": _NONE,
    "active": {"safe": is_flag},
    "conf": {"with_defaults": is_flag},
    "registered": {"taskinfoitems": lambda value: value == [], "builtins": is_flag},
    "query_task": {"ids": is_uuid_or_list},
    "revoke": {"task_id": is_uuid_or_list, "terminate": is_flag, "signal": is_signal},
    "rate_limit": {"task_name": is_task_name, "rate_limit": is_rate},
    "add_consumer": {
        "queue": is_queue_name,
        "exchange": is_null,
        "exchange_type": lambda value: value == "direct",
        "routing_key": is_null,
    },
    "cancel_consumer": {"queue": is_queue_name},
}
# Commands need these. Their other arguments may be left out, or null.
REQUIRED = frozenset({"ids", "task_id", "task_name", "rate_limit", "queue"})


def is_event(event: Any) -> bool:
    """Checks a worker's event."""
    return (
        isinstance(event, dict)
        and event.keys() >= {"type", "hostname", "timestamp"}
        and all(_is_event_field(name, value) for name, value in event.items())
    )


def _is_event_field(name: str, value: Any) -> bool:
    match name:
        case "type" | "hostname":
            return is_text(value)
        case "timestamp":
            return type(value) in (int, float) and 0 <= value < 1e11
        case "utcoffset":
            return type(value) in (int, float) and -24 <= value <= 24
        case "clock":
            return is_whole_number(value, 0, BIGINT_MAX)
        case "pid" | "freq" | "active" | "processed" | "retries" | "runtime":
            return type(value) in (int, float)
        case "loadavg":
            return isinstance(value, list) and all(type(load) in (int, float) for load in value)
        case _:
            return value is None or isinstance(value, (str, int, float))
