"""Queues, limits and beat's ticks: data only. A comment above a value says what was measured or is
surprising about it."""

from kombu import Exchange, Queue  # type: ignore[attr-defined]

from scraper import settings
from scraper.infra.services import find_sentinels
from scraper.process.servers import broker_tls
from scraper.registry import plugin_ticks
from scraper.rules.routing import (
    CAPABILITIES,
    COORDINATOR,
    PRIORITY_LEVELS,
    URGENT,
    message_priority,
)

_IS_AMQP = settings.load().broker_is_amqp
# There are two tries, then the publisher decides. By default Celery waits for 4 s and more.
_PUBLISHING = {"max_retries": 1, "interval_start": 0, "interval_step": 0.2, "interval_max": 0.2}

broker_url = settings.load().celery_broker_url
broker_use_ssl = broker_tls(broker_url)
broker_connection_retry_on_startup = True
broker_connection_max_retries = None
broker_connection_timeout = 3
# RabbitMQ's: pooled connections send no heartbeats, and would be closed for it. The consumer has
# its own.
broker_heartbeat = 0
_REDIS = {
    **_PUBLISHING,
    # Each priority has a list of its own; kombu's four lists would lump 9, 8 and 7 together.
    "priority_steps": list(range(PRIORITY_LEVELS)),
    # Priority is strict across all queues of a worker; among messages of equal priority its queues
    # take turns, so that a region's own work and that of any region do not starve each other.
    "queue_order_strategy": "round_robin",
    # A broken connection is noticed: by a command within 5 s, by a consumer that only listens
    # within 2 x 10 s (its health check runs that often; these timeouts never interrupt reading
    # itself).
    "socket_connect_timeout": 3,
    "socket_timeout": 5,
    "socket_keepalive": True,
    "health_check_interval": 10,
    # Messages are acknowledged when their task begins, so unacknowledged ones wait in a worker's
    # memory. After a minute and a half they are a killed worker's, and expired: the sweep, each
    # half minute, clears them away.
    "visibility_timeout": 90,
    "unacked_restore_interval": 30,
    "unacked_restore_throttle": 1,
}
_RABBITMQ = {
    **_PUBLISHING,
    # A message is sent when RabbitMQ has it, not when the socket's buffer has.
    "confirm_publish": True,
    # A publisher gives up waiting for a broker that hangs. A consumer that only listens has
    # heartbeats for that.
    "read_timeout": 5,
    "write_timeout": 5,
}
broker_transport_options = _RABBITMQ if _IS_AMQP else _REDIS
if broker_url.startswith("sentinel:"):
    _REDIS |= find_sentinels().broker_options(settings.load().own_broker_url)
task_publish_retry_policy = _PUBLISHING

task_serializer = "json"
accept_content = ["json"]
# Leases and verdicts are in PostgreSQL; no code waits for a Celery result.
task_ignore_result = True
# A lease gives the recovery; late acknowledgement brings duplicates and a visibility timeout.
task_acks_late = False
task_default_queue = COORDINATOR
task_create_missing_queue_type = settings.load().rabbitmq_queues
_IS_QUORUM = _IS_AMQP and task_create_missing_queue_type == "quorum"
_ARGUMENTS = {"x-queue-type": "quorum"} if _IS_QUORUM else None
task_queues = [
    Queue(name, Exchange(name), name, queue_arguments=_ARGUMENTS)  # type: ignore[no-untyped-call]
    for name in (COORDINATOR, *CAPABILITIES)
]
# A classic queue knows no order without it, and a quorum queue refuses it.
task_queue_max_priority = None if _IS_QUORUM else PRIORITY_LEVELS - 1
# No task has a time before which it must not begin.
worker_detect_quorum_queues = False
# RabbitMQ keeps nothing on disk, since leases bring back what it loses.
task_default_delivery_mode = "transient"
# Queues of a name or region of the user's own are made when first named.
task_create_missing_queues = True
task_store_errors_even_if_ignored = False

# Batches wait on one event loop a process; threads only hold their slots.
worker_pool = "scraper.runtime.pool:TaskPool"
# Slots of a process (`scraper.runtime.admission`). Eight full batches are more pages than it can
# have under way; with more batches the additional pages only wait, cost a fifth more each, and are
# kept from other workers. Batches that wait for slow hosts take a part.
worker_concurrency = 8
# Messages that are read ahead and not yet begun: what all queues of a worker hold for it must fit
# (8 batches a queue and priority for each busy worker, and all read them), or urgent messages would
# be stuck behind those that wait for a slot.
worker_prefetch_multiplier = 32
# The reduction after an outage is for late acknowledgement, and slow to recover.
worker_enable_prefetch_count_reduction = False
# No task acknowledges late: this only keeps Celery from warning.
worker_cancel_long_running_tasks_on_connection_loss = True
# It is in KB, and of prefork's children; the process itself has the watchdog.
worker_max_memory_per_child = settings.load().memory_max_mb * 1000 or None
worker_consumer = "scraper.runtime.consumer:Consumer"
# Flower turns them on when it is there.
worker_send_task_events = False
worker_hijack_root_logger = False
worker_enable_remote_control = True

# It lives in memory, and writes no file.
beat_scheduler = "scraper.runtime.beat:TickScheduler"
beat_max_loop_interval = 1
_TICKS_S = {"plan": 5.0, "dispatch": 1.0, "reap": 2.0} | {
    tick.name: tick.every_s
    for tick in plugin_ticks()
    if tick.setting is None or getattr(settings.load(), tick.setting)
}
beat_schedule = {
    name: {
        "task": f"scraper.tasks.{name}",
        "schedule": every_s,
        "options": {
            "queue": COORDINATOR,
            "expires": every_s * 2,
            "priority": message_priority(URGENT, zero_is_first=not _IS_AMQP),
        },
    }
    for name, every_s in _TICKS_S.items()
}
