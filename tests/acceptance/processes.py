"""What tests of whole processes share: what they said, that they are quiet, a batch for them."""

from __future__ import annotations

import subprocess
from collections import Counter

from scraper import celeryconfig
from scraper.domain import Message
from scraper.settings import Settings
from tests.acceptance.commands import Commands

Process = subprocess.Popen[str]


def said(run: Commands, process: Process, text: str) -> int:
    return run.log(process).count(text)


def assert_quiet(run: Commands, process: Process) -> None:
    """No tracebacks, and no line that is said again and again, but for what each batch says."""
    log = run.log(process)
    assert "Traceback" not in log, log
    events = Counter(
        line.partition('"event"')[2].partition('", "')[0]
        for line in log.splitlines()
        if '"event"' in line
    )
    others = {event: times for event, times in events.items() if "batch done" not in event}
    assert all(times <= 6 for times in others.values()), others


def send(settings: Settings, message: Message) -> None:
    """As `scraper.runtime.send.send` does, to this broker, from a process whose app is of another
    one."""
    from celery import Celery

    with Celery(broker=settings.celery_broker_url, set_as_current=False) as app:
        app.conf.task_queue_max_priority = celeryconfig.task_queue_max_priority
        app.send_task(
            f"scraper.tasks.{message.task}",
            kwargs=dict(message.kwargs),
            queue=message.queue,
            priority=message.priority,
            expires=message.expires_s,
        )
