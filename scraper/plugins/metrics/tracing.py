"""OpenTelemetry spans of a worker's steps: batch, fetch, extract, store. OpenTelemetry's own
environment variables configure them.

Off unless the extra `tracing` is installed and the environment names a destination
(`span_destination`). A span takes about 30 us, so use a sampler (`OTEL_TRACES_SAMPLER`) for large
crawls. When tracing is off `Tracing` is not even made, since OpenTelemetry's no-op tracer would
take 4 us a span.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator, Set
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any
from uuid import UUID

import structlog

from scraper.domain import Lease, LeasedPage, Outcome
from scraper.errors import DeferredError, FetchError
from scraper.infra.redaction import redact

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter

log = structlog.get_logger()

ERROR_CHARS = 300
# A process waits this long at its end for its last spans to be sent.
SHUTDOWN_S = 2.0


class Tracing:
    """Opens spans. A page's spans are children of its batch's span; a stored group, which has pages
    of many batches, is a trace of its own that names their leases. An error that ends a span
    becomes its status, with a redacted message."""

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("scraper")

    def batch(self, lease: Lease) -> AbstractContextManager[None]:
        attributes = {
            "scraper.lease": str(lease.id),
            "scraper.queue": lease.queue,
            "scraper.kind": lease.kind.value,
            "scraper.pages": len(lease.pages),
            "scraper.crawls": sorted({page.crawl_id for page in lease.pages}),
        }
        return self._open_span("batch", attributes)

    def fetch(self, page: LeasedPage) -> AbstractContextManager[None]:
        where = {"url.full": redact(page.url), "server.address": page.host}
        return self._open_span("fetch", where | _page_attributes(page))

    def extract(self, page: LeasedPage) -> AbstractContextManager[None]:
        return self._open_span("extract", _page_attributes(page))

    def store(self, pages: int, leases: Set[UUID]) -> AbstractContextManager[None]:
        attributes = {"scraper.pages": pages, "scraper.leases": sorted(map(str, leases))}
        return self._open_span("store", attributes)

    def close(self) -> None:
        """Sends the remaining spans, for at most `SHUTDOWN_S`."""
        thread = threading.Thread(target=self._provider.shutdown, name="spans", daemon=True)
        thread.start()
        thread.join(SHUTDOWN_S)

    @contextmanager
    def _open_span(self, name: str, attributes: dict[str, Any]) -> Iterator[None]:
        """Opens a span, and redacts the message of an error. OpenTelemetry would record the message
        as it is, URLs included."""
        # The extra is optional.
        from opentelemetry.trace import StatusCode

        start = self._tracer.start_as_current_span
        with start(
            name, attributes=attributes, record_exception=False, set_status_on_exception=False
        ) as span:
            try:
                yield
            except DeferredError:
                span.set_attribute("scraper.outcome", Outcome.DEFERRED.value)
                raise
            except BaseException as error:
                kind = type(error).__name__
                if isinstance(error, FetchError):
                    kind = error.outcome.value
                span.set_attribute("error.type", kind)
                span.set_status(StatusCode.ERROR, redact(str(error))[:ERROR_CHARS])
                raise


def make_tracing(instance: str) -> Tracing | None:
    """Makes the tracing that this process's environment configures; None: it configures none.
    `instance` names the process. Never raises, since a worker also works without tracing."""
    to = span_destination()
    if to is None:
        return None
    try:
        return Tracing(_make_provider(_make_exporter(to), instance))
    except ImportError:
        log.warning(
            "no spans are sent: OpenTelemetry is not installed "
            "(fix: pip install 'celery-scraper[tracing]')"
        )
    except Exception as error:  # noqa: BLE001 - the library's errors about OTEL_ variables vary
        log.error(
            "no spans are sent: OpenTelemetry rejects its settings",
            error=str(error)[:ERROR_CHARS],
        )
    return None


def _make_exporter(to: str) -> SpanExporter:
    # These imports need the extra.
    if to == "console":
        from opentelemetry.sdk.trace.export import ConsoleSpanExporter

        return ConsoleSpanExporter(out=sys.stderr)
    if to != "otlp":
        raise ValueError(f"OTEL_TRACES_EXPORTER is {to!r} (fix: otlp, console or none)")
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter()


def _make_provider(exporter: SpanExporter, instance: str) -> TracerProvider:
    """Makes the provider. The library reads sampler, limits, batching and resource from the
    environment."""
    # These imports need the extra.
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    resource = Resource.create({"service.instance.id": instance})
    if str(resource.attributes["service.name"]).startswith("unknown_service"):
        resource = resource.merge(Resource({"service.name": "scraper"}))
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider


def _page_attributes(page: LeasedPage) -> dict[str, Any]:
    return {
        "scraper.page": page.id,
        "scraper.crawl": page.crawl_id,
        "scraper.kind": page.kind.value,
    }


def span_destination() -> str | None:
    """Returns the destination in OpenTelemetry's variables: "otlp", "console", or any other text;
    None: none. Unlike in its specification, no spans are sent unless a variable asks for it."""
    given = {name: value.strip() for name, value in os.environ.items() if name.startswith("OTEL_")}
    if given.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    to = given.get("OTEL_TRACES_EXPORTER", "").lower()
    if not to and (
        given.get("OTEL_EXPORTER_OTLP_ENDPOINT") or given.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    ):
        to = "otlp"
    return None if to in ("", "none") else to
