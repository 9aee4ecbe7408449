"""Queues, limits and beat's ticks: data only. What is measured or surprising about a value is said beside it."""

from kombu import Queue  # type: ignore[attr-defined]

from scraper import settings
from scraper.policy.routing import CAPABILITIES, COORDINATOR

broker_url = settings.load().celery_broker_url
broker_connection_retry_on_startup = True
broker_connection_max_retries = None
# Strict order: all high-priority messages of a queue before any other. By default Redis queues are read round robin.
broker_transport_options = {"queue_order_strategy": "priority", "socket_keepalive": True}

task_serializer = "json"
accept_content = ["json"]
task_ignore_result = True  # leases and verdicts are in PostgreSQL; nobody waits for a Celery result
task_acks_late = False  # a lease gives the recovery; late acks bring duplicates and a visibility timeout
task_default_queue = COORDINATOR
task_queues = [Queue(name) for name in (COORDINATOR, *CAPABILITIES)]  # type: ignore[no-untyped-call]
task_create_missing_queues = True  # queues of a name or region of your own are made when first named
task_store_errors_even_if_ignored = False

worker_pool = "threads"  # batches wait on one event loop a process; threads are only their places
worker_concurrency = 16  # batches under way in a process
worker_prefetch_multiplier = 1
worker_send_task_events = False  # Flower turns them on when it is there
worker_hijack_root_logger = False
worker_enable_remote_control = True

beat_scheduler = "celery.beat:Scheduler"  # in memory: beat is a metronome and writes no file
beat_max_loop_interval = 1
beat_schedule = {
    name: {
        "task": f"scraper.tasks.{name}",
        "schedule": every_s,
        "options": {"queue": COORDINATOR, "expires": every_s * 2},
    }
    for name, every_s in {"plan": 5.0, "dispatch": 1.0, "reap": 5.0}.items()
}
