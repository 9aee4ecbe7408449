"""Spans as a collector on this machine receives them, by OTLP over HTTP, from a real crawl."""

from __future__ import annotations

import gzip
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import sqlalchemy as sa
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from scraper.plugins.metrics import tracing
from scraper.settings import Settings
from tests.support.broker import Broker
from tests.support.making import rows

NOBODY = "http://127.0.0.1:9"  # bound by nothing


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[ExportTraceServiceRequest]]:
    """A collector, and the environment that sends spans there."""
    received: list[ExportTraceServiceRequest] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            assert self.path == "/v1/traces"
            received.append(ExportTraceServiceRequest.FromString(body))
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    yield received
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_crawls_spans_reach_a_collector(
    collector: list[ExportTraceServiceRequest],
    crawl: Callable[..., Broker],
    engine: sa.Engine,
    shop: str,
) -> None:
    broker = crawl(lambda message: [message])
    broker.run()
    # as a process that ends: what is left is sent
    broker.worker.services.parts["metrics"].tracing.close()
    resources = {
        (a.key, a.value.string_value)
        for r in collector
        for each in r.resource_spans
        for a in each.resource.attributes
    }
    assert {("service.name", "scraper"), ("service.instance.id", broker.worker.name)} <= resources
    spans = [
        s
        for r in collector
        for each in r.resource_spans
        for scope in each.scope_spans
        for s in scope.spans
    ]
    by_name = {
        name: [s for s in spans if s.name == name]
        for name in ("batch", "fetch", "extract", "store")
    }
    assert sum(map(len, by_name.values())) == len(spans)
    ((fetches, crawl_id),) = rows(engine, "SELECT fetches, id FROM crawls")
    assert len(by_name["fetch"]) == fetches
    batches = {s.span_id: s for s in by_name["batch"]}
    for each in [*by_name["fetch"], *by_name["extract"]]:
        batch = batches[each.parent_span_id]
        assert each.trace_id == batch.trace_id and attributes(each)["scraper.crawl"] == crawl_id
        assert each.start_time_unix_nano <= each.end_time_unix_nano <= batch.end_time_unix_nano
    assert sum(int(attributes(s)["scraper.pages"]) for s in by_name["batch"]) >= fetches  # type: ignore[call-overload]
    leases = {attributes(s)["scraper.lease"] for s in by_name["batch"]}
    assert all(not s.parent_span_id for s in [*by_name["batch"], *by_name["store"]])
    assert (
        leases
        and {lease for s in by_name["store"] for lease in attributes(s)["scraper.leases"]} == leases
    )  # type: ignore[attr-defined]
    urls = {str(attributes(s)["url.full"]) for s in by_name["fetch"]}
    assert all(url.startswith(shop) for url in urls)


def attributes(span: Span) -> dict[str, object]:
    found: dict[str, object] = {}
    for each in span.attributes:
        kind = each.value.WhichOneof("value")
        value = getattr(each.value, str(kind))
        found[each.key] = (
            [v.string_value or v.int_value for v in value.values]
            if kind == "array_value"
            else value
        )
    return found


def test_an_error_is_reported_without_its_secrets(
    collector: list[ExportTraceServiceRequest],
) -> None:
    spans = tracing.make_tracing("test")
    assert spans is not None
    with pytest.raises(RuntimeError), spans.store(1, set()):
        raise RuntimeError("no answer of https://ann:s3cret@shop.example/?token=s3cret")
    spans.close()
    (span,) = collector[0].resource_spans[0].scope_spans[0].spans
    assert (
        span.status.code == Status.STATUS_CODE_ERROR
        and attributes(span)["error.type"] == "RuntimeError"
    )
    assert (
        span.status.message == "no answer of https://***@shop.example/?token=***"
        and not span.events
    )


@pytest.mark.parametrize(
    ("environment_says", "to"),
    [
        ({}, None),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": NOBODY}, "otlp"),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": NOBODY}, "otlp"),
        ({"OTEL_TRACES_EXPORTER": "console"}, "console"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": NOBODY, "OTEL_TRACES_EXPORTER": "none"}, None),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": NOBODY, "OTEL_SDK_DISABLED": "true"}, None),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": " "}, None),
        ({"OTEL_SERVICE_NAME": "x"}, None),
    ],
)
def test_the_environment_says_where_to(
    environment_says: dict[str, str], to: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment_says.items():
        monkeypatch.setenv(name, value)
    assert tracing.span_destination() == to


def test_an_exporter_that_is_not_known_is_said_and_costs_no_worker(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "zipkin")
    assert tracing.make_tracing("test") is None and "zipkin" in capsys.readouterr().out


@pytest.mark.parametrize("wanted", [False, True], ids=["off", "on, and not installed"])
@pytest.mark.slow
def test_without_the_extra_a_worker_works(
    wanted: bool, environment: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Off, none of its modules is imported; wanted and not there, that is said with what to type."""
    if wanted:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", NOBODY)
    program = """
import sys
sys.modules["opentelemetry"] = sys.modules["opentelemetry.sdk.trace"] = None
from scraper import settings
from scraper.infra import logs
from scraper.worker import process as worker
logs.configure(settings.load())
made = worker.Worker(settings.load(), lambda messages: None)
made.close()
assert not [name for name in sys.modules if name.startswith(("opentelemetry.", "prometheus")) and sys.modules[name]]
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=180, check=False
    )
    assert done.returncode == 0, done.stderr
    assert ("scraper[tracing]" in done.stderr) == wanted
