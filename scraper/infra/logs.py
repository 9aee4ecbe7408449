"""Structured logs for every process: text lines on a terminal, JSON elsewhere. Celery's own lines
and Python's warnings take the same path, and logins in addresses are removed from all of them
(`scraper.infra.redaction`)."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import structlog

from scraper.infra.redaction import redact
from scraper.settings import Settings

QUIET = {
    "celery.app.trace": logging.WARNING,
    # This logger writes each request of a user's function.
    "httpx": logging.WARNING,
    "celery.worker.strategy": logging.WARNING,
    # This logger writes each message that expired.
    "celery.worker.request": logging.WARNING,
    "celery.beat": logging.WARNING,
    # `scraper.infra.outages` logs a lost connection, once.
    "celery.worker.consumer.consumer": logging.ERROR,
}


@contextmanager
def warnings_alone() -> Iterator[None]:
    """Logs only warnings and errors, to stderr, while the block runs: for commands that print their
    result to stdout."""
    before = structlog.get_config()
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    try:
        yield
    finally:
        structlog.configure(**before)


def configure(settings: Settings) -> None:
    """Sends structlog's and the standard library's records through one renderer to stderr."""
    as_json = settings.log_format == "json" or (
        settings.log_format == "auto" and not sys.stderr.isatty()
    )
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info
        if as_json
        else structlog.processors.StackInfoRenderer(),
    ]
    # Tracebacks by rich, the default if it is installed, would show the values of local variables.
    console = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    renderer = structlog.processors.JSONRenderer() if as_json else console
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                renderer,
                _redact_line,
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(settings.log_level)
    for name, level in QUIET.items():
        logging.getLogger(name).setLevel(level)
    logging.captureWarnings(True)


def _redact_line(_: object, __: str, line: Any) -> str:
    return redact(line)


def flush() -> None:
    """Writes out buffered logs, before a process ends without Python's own clean-up."""
    for handler in logging.getLogger().handlers:
        handler.flush()
    sys.stdout.flush()
    sys.stderr.flush()
