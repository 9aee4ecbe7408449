"""The Celery app: `celery -A scraper …` finds it here. Configuration is data, in
`scraper.celeryconfig`."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import structlog
from celery import Celery, bootsteps, signals
from kombu.transport import TRANSPORT_ALIASES

from scraper import settings
from scraper.errors import ScraperError, ServerUnavailableError
from scraper.infra import logs, servers, shipped
from scraper.rules.routing import COORDINATOR, for_browsers, served_with

IMPORTED_BY = os.getpid()
FLOWER_CONFIG = shipped.path("flowerconfig.py")
if "flower" in sys.argv:
    # Flower's login must not depend on the folder or the configuration that it is started with.
    from scraper.infra import flower_guard

    os.environ.setdefault("FLOWER_CONF", str(FLOWER_CONFIG))
    flower_guard.install(settings.load())

# By name: kombu imports it, and Redis's client, when a connection is made.
TRANSPORT_ALIASES.update(
    dict.fromkeys(("redis", "rediss"), "scraper.runtime.redis_transport:Transport")
)
app = Celery(
    "scraper",
    include=["scraper.tasks"],
    events="scraper.runtime.consumer:Events",
    amqp="scraper.runtime.consumer:AMQP",
)
app.config_from_object("scraper.celeryconfig")


@signals.setup_logging.connect
def _logs(**_: Any) -> None:
    logs.configure(settings.load())


@signals.worker_init.connect
@signals.beat_init.connect
def _require_servers(**_: Any) -> None:
    """A process that finds no server says which address it tried and what to type, and lets its
    supervisor retry. One that started anew by itself waits for them, for as long as it would have
    waited had it gone on."""
    from scraper.infra import migrations
    from scraper.infra.database import make_engine
    from scraper.process.shutdown import STARTED_ANEW

    if os.getcwd() not in sys.path:
        # for users' functions; Celery takes it out again once it has found this module
        sys.path.append(os.getcwd())
    try:
        _wait_for_servers(settings.load().away_s if os.environ.pop(STARTED_ANEW, None) else 0.0)
        engine = make_engine(settings.load().postgres_url)
        migrations.require_current(engine)
        engine.dispose()
    except ScraperError as error:
        print(f"scraper: {error}", file=sys.stderr, flush=True)
        sys.exit(error.exit_code)


def _wait_for_servers(longest_s: float) -> None:
    give_up_at = time.monotonic() + longest_s
    while True:
        try:
            return servers.require_reachable(settings.load())
        except ServerUnavailableError:
            if time.monotonic() >= give_up_at:
                raise
        time.sleep(1)


@signals.celeryd_after_setup.connect
def _announce_queues(**_: Any) -> None:
    """What a worker serves beyond what was asked for is said, not guessed."""
    for queue in app.amqp.queues.consume_from:
        for wider in served_with(queue)[1:]:
            if wider in app.amqp.queues.consume_from:
                structlog.get_logger().info(
                    "also serves the work of any region", queue=wider, since=queue
                )


@signals.celeryd_after_setup.connect
def _require_browser(**_: Any) -> None:
    """A worker for pages that need a browser starts one first, and says what is missing: no page
    pays for it."""
    if not any(for_browsers(queue) for queue in app.amqp.queues.consume_from):
        return
    import asyncio

    from scraper.browser import chromium

    try:
        version = asyncio.run(chromium.check(settings.load()))
    except ScraperError as error:
        print(f"scraper: {error}", file=sys.stderr, flush=True)
        sys.exit(error.exit_code)
    if not chromium.sandboxed():
        structlog.get_logger().warning(
            "runs as root: Chromium has no sandbox (mend: run browser workers as another user)"
        )
    structlog.get_logger().info("browser found", version=version)


@signals.worker_ready.connect
def _import_the_rest(**_: Any) -> None:
    """A third of what there is to import, of which a worker that is about to be ready needs
    nothing."""
    from scraper.process import worker_of_process

    fetches = bool(set(app.amqp.queues.consume_from) - {COORDINATOR})
    threading.Thread(
        target=worker_of_process.import_ahead, args=(fetches,), name="imports", daemon=True
    ).start()


@signals.beat_embedded_init.connect
def _end_with_parent(**_: Any) -> None:
    """`worker -B` runs beat as a child, which would go on beating after a worker that was killed."""
    from scraper.process import heartbeat

    heartbeat.of_this_process().mute()
    # Who forked us, even if it was killed before we came to ask for it. (Spawned, we have imported
    # this ourselves.)
    parent = IMPORTED_BY if os.getpid() != IMPORTED_BY else os.getppid()
    _watch_parent(parent, lambda: os._exit(1))


@signals.worker_ready.connect
def _end_with_command(**_: Any) -> None:
    """A worker that a command has started for itself hands back its pages and ends once that command
    has gone, however it went."""
    parent = settings.ends_with()
    if parent is not None:
        _watch_parent(parent, lambda: os.kill(os.getpid(), signal.SIGTERM))


def _watch_parent(parent: int, end: Callable[[], None]) -> None:
    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        end()

    threading.Thread(target=watch, name="parent", daemon=True).start()


class Watched(bootsteps.StartStopStep):  # type: ignore[misc] # Celery has no types
    """Starts after Celery has installed its signal handlers, and hears first that the worker shuts
    down."""

    requires = tuple(f"celery.worker.components:{step}" for step in ("Pool", "Beat", "Timer"))

    def start(self, worker: Any) -> None:
        from scraper.process import watchdog
        from scraper.process.shutdown import attach

        attach(worker)
        own_loop = worker.use_eventloop and not worker.pool_cls.__module__.endswith(
            "solo"
        )  # solo: tasks run in its thread
        watchdog.start(worker, every=worker.timer.call_repeatedly if own_loop else None)

    def close(self, worker: Any) -> None:
        from scraper.process.shutdown import ending

        ending.closing()


app.steps["worker"].add(Watched)


@signals.worker_shutdown.connect
def _closed(sender: Any, **_: Any) -> None:
    from scraper.process.shutdown import ending

    ending.closed(sender)


@signals.worker_process_shutdown.connect
def _child_closed(**_: Any) -> None:
    """A process of a prefork pool, whose worker is its own."""
    from scraper.process import worker_of_process

    worker_of_process.stop()
    worker_of_process.close()
