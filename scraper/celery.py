"""The Celery app: `celery -A scraper …` finds it here. Configuration is data, in
`scraper.celeryconfig`. A worker goes through these signals, in this order:

    setup_logging           logs go our way
    worker_init             freed memory is kept; servers and database are there, or it ends with
                            what to type
    celeryd_after_setup     regions' wider queues are announced; a browser worker tries its browser
    (WatchdogStep)          signals and the watchdog, once Celery's handlers are there
    worker_ready            what the first batch needs is imported ahead; a worker of a command's
                            own begins to watch that command
    (WatchdogStep.close)    a shutdown begins, from a signal or a remote command
    worker_shutdown         the worker is closed, and the exit code is decided

Beat passes `beat_init` as a process of its own, `beat_embedded_init` as a worker's child (`-B`);
children of a prefork pool end with `worker_process_shutdown`. Imports within the handlers are those
that other commands of Celery (beat, Flower, inspect) do not need.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import structlog
from celery import Celery, bootsteps, signals
from kombu.transport import TRANSPORT_ALIASES

from scraper import settings
from scraper.errors import ScraperError
from scraper.infra import logs
from scraper.process import servers
from scraper.process.current_worker import collect_rarely
from scraper.process.memory import keep_freed_memory
from scraper.process.parent import end_with_command, watch_parent
from scraper.registry import run_plugin_steps
from scraper.rules.routing import COORDINATOR, queues_served_with


@contextmanager
def _exit_at_error() -> Iterator[None]:
    """Ends the process with an error's sentence, for which Celery would show a traceback."""
    try:
        yield
    except ScraperError as error:
        print(f"scraper: {error}", file=sys.stderr, flush=True)
        sys.exit(error.exit_code)


IMPORTED_BY = os.getpid()
# A program that imports the app handles a wrong setting by itself.
if os.path.basename(sys.argv[0]) in ("celery", "__main__.py"):
    # Imports make no garbage, and looking for it takes a tenth of the start.
    collect_rarely()
    with _exit_at_error():
        settings.load()
run_plugin_steps("on_load", sys.argv)

# By name: kombu imports it, and its server's client, when a connection is made.
REDIS_TRANSPORT = "scraper.runtime.redis_transport:RedisTransport"
TRANSPORT_ALIASES.update(
    redis=REDIS_TRANSPORT,
    rediss=REDIS_TRANSPORT,
    amqp="scraper.runtime.rabbitmq_transport:RabbitTransport",
    amqps="scraper.runtime.rabbitmq_transport:SSLTransport",
)
app = Celery(
    "scraper",
    include=["scraper.tasks"],
    events="scraper.runtime.consumer:Events",
    amqp="scraper.runtime.consumer:AMQP",
)
app.config_from_object("scraper.celeryconfig")


@signals.setup_logging.connect
def _configure_logs(**_: Any) -> None:
    logs.configure(settings.load())


signals.worker_init.connect(keep_freed_memory)


@signals.worker_init.connect
@signals.beat_init.connect
def _require_servers(**_: Any) -> None:
    """Ends the process if a server does not answer, with a message that names the address and the
    fix; its supervisor retries."""
    from scraper.infra import migrations
    from scraper.infra.database import make_engine

    # The beat of `worker -B` was forked by a process that has just checked the servers. A second
    # check that failed would end beat without a visible reason.
    if os.getppid() == IMPORTED_BY:
        return
    if os.getcwd() not in sys.path:
        # Users' functions are imported from there. Celery removes the folder after importing the
        # app.
        sys.path.append(os.getcwd())
    with _exit_at_error():
        servers.require_reachable(settings.load())
        engine = make_engine(settings.load().postgres_url)
        migrations.require_current(engine)
        engine.dispose()


@signals.celeryd_after_setup.connect
def _announce_wider_queues(**_: Any) -> None:
    """Logs that a regional worker also serves the region-less queue."""
    served = app.amqp.queues.consume_from
    for queue in served:
        for wider in queues_served_with(queue)[1:]:
            if wider in served:
                structlog.get_logger().info(
                    "also serves the work of any region", queue=wider, since=queue
                )


@signals.celeryd_after_setup.connect
def _start_plugins(**_: Any) -> None:
    """Lets plug-ins check what they need before any page is fetched. A plug-in that lacks something
    ends the worker."""
    with _exit_at_error():
        run_plugin_steps("on_worker_start", settings.load(), app.amqp.queues.consume_from)


class WatchdogStep(bootsteps.StartStopStep):  # type: ignore[misc] # Celery has no types
    """Starts after Celery has installed its signal handlers, and is the first step to close when
    the worker shuts down."""

    requires = tuple(f"celery.worker.components:{step}" for step in ("Pool", "Beat", "Timer"))

    def start(self, worker: Any) -> None:
        from scraper.process import watchdog
        from scraper.process.shutdown import take_over_signals

        take_over_signals()
        # With `-P solo` tasks run in the consumer's thread, which cannot beat during a task.
        is_solo = worker.pool_cls.__module__.endswith("solo")
        own_loop = worker.use_eventloop and not is_solo
        watchdog.start(worker, every=worker.timer.call_repeatedly if own_loop else None)

    def close(self, worker: Any) -> None:
        from scraper.process.shutdown import shutdown

        shutdown.begin()


app.steps["worker"].add(WatchdogStep)


@signals.worker_ready.connect
def _import_ahead(**_: Any) -> None:
    """Imports in the background what only the first batch needs, a third of all imports."""
    from scraper.process.current_worker import import_ahead

    fetches = bool(set(app.amqp.queues.consume_from) - {COORDINATOR})
    threading.Thread(target=import_ahead, args=(fetches,), name="imports", daemon=True).start()


# A worker that a command started for itself ends with it, and hands back its pages first.
signals.worker_ready.connect(end_with_command)


@signals.worker_shutdown.connect
def _finish_shutdown(sender: Any, **_: Any) -> None:
    from scraper.process.shutdown import shutdown

    shutdown.finish(sender)


@signals.worker_process_shutdown.connect
def _close_child(**_: Any) -> None:
    """Closes the worker of a prefork pool's child process."""
    from scraper.process import current_worker

    current_worker.stop_worker()
    current_worker.close_worker()


@signals.beat_embedded_init.connect
def _end_with_parent(**_: Any) -> None:
    """Ends the beat of `worker -B`, a child process, once its worker was killed."""
    from scraper.process import heartbeat

    heartbeat.process_heartbeat().mute()
    # It forked us, even if it was killed before we came to ask for it. Where we were spawned, we
    # have imported this module ourselves.
    parent = IMPORTED_BY if os.getpid() != IMPORTED_BY else os.getppid()
    watch_parent(parent, lambda: os._exit(1))
