"""Reads archived answers back: neighbours in a segment with one request, and several requests at
once."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa

from scraper.domain import Fetched
from scraper.errors import ObjectsError
from scraper.infra import objects
from scraper.infra.objects import Objects
from scraper.plugins.archive import rows as archive_rows
from scraper.plugins.archive import warc
from scraper.plugins.archive.warc import ArchivedResponse, RecordError
from scraper.views.provenance import ArchivedAnswer

READERS = 8
# One request reads at most this much, unless a single record is larger.
SPAN_BYTES = 2_000_000
# A smaller gap between records is read and discarded, which costs less than a request.
GAP_BYTES = 32_768
# Stored bodies may exceed the limit by this factor, since it may have been lowered.
HEADROOM = 1.1
# Captured answers may have this many times the size limit of a body.
CAPTURED_FACTOR = 4


@dataclass(frozen=True, slots=True)
class RecordResult:
    """A row of `archived_pages` with its answer, or the problem that made it unusable. The row
    includes the segment's place and key."""

    row: Mapping[str, Any]
    answer: ArchivedResponse | None
    problem: str = ""


@dataclass(slots=True)
class _Span:
    """Records of a segment that one request reads."""

    place: str
    key: str
    start: int
    end: int
    rows: list[Mapping[str, Any]]

    def can_take(self, row: Mapping[str, Any]) -> bool:
        if (row["place"], row["key"]) != (self.place, self.key) or not 0 <= row[
            "start"
        ] - self.end <= GAP_BYTES:
            return False
        return _record_end(row) - self.start <= SPAN_BYTES


def read_all(rows: Iterable[Mapping[str, Any]], body_max_bytes: int) -> Iterator[RecordResult]:
    """Yields a result for each row, in order. Rows are sorted by segment and start. An answer whose
    body is too large, or whose record was altered, becomes a problem."""
    places: dict[str, Objects] = {}
    with ThreadPoolExecutor(READERS, thread_name_prefix="archived") as pool:
        under_way: deque[Future[list[RecordResult]]] = deque()
        try:
            for span in _group_spans(rows):
                place = places.get(span.place)
                if place is None:
                    place = places[span.place] = objects.open_place(
                        span.place, "archive_segments.place"
                    )
                under_way.append(pool.submit(_read_span, place, span, body_max_bytes))
                if len(under_way) >= READERS:
                    yield from under_way.popleft().result()
            while under_way:
                yield from under_way.popleft().result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _group_spans(rows: Iterable[Mapping[str, Any]]) -> Iterator[_Span]:
    span: _Span | None = None
    for row in rows:
        if span is not None and span.can_take(row):
            span.end = _record_end(row)
            span.rows.append(row)
            continue
        if span is not None:
            yield span
        span = _Span(row["place"], row["key"], row["start"], _record_end(row), [row])
    if span is not None:
        yield span


def _read_span(place: Objects, span: _Span, body_max_bytes: int) -> list[RecordResult]:
    try:
        data = place.read(span.key, span.start, span.end - span.start)
    except ObjectsError as error:
        if not error.missing:
            raise
        return [RecordResult(row, None, str(error)) for row in span.rows]
    return [
        _read_record(
            row, data[row["start"] - span.start : _record_end(row) - span.start], body_max_bytes
        )
        for row in span.rows
    ]


def _record_end(row: Mapping[str, Any]) -> int:
    return int(row["start"] + row["size"] + row["captured_size"])


def _read_record(row: Mapping[str, Any], data: bytes, body_max_bytes: int) -> RecordResult:
    try:
        if row["body_bytes"] > body_max_bytes * HEADROOM:
            raise RecordError(
                f"its body of {row['body_bytes']:,} bytes is over the limit of {body_max_bytes:,}"
            )
        answer = warc.read_response(data[: row["size"]], row["codec"], row["body_bytes"])
        if row["captured_size"]:
            limit = CAPTURED_FACTOR * body_max_bytes
            answer = replace(
                answer, captured=warc.read_captured(data[row["size"] :], row["codec"], limit)
            )
        if answer.page_url != row["url"] or len(answer.body) != row["body_bytes"]:
            raise RecordError("it is another page's")
    except RecordError as error:
        return RecordResult(
            row, None, f"its record in {row['key']} at {row['start']:,} cannot be used: {error}"
        )
    return RecordResult(row, answer)


class StoredPages:
    """The service `ArchivedPages`."""

    def find_page(self, connection: sa.Connection, page_id: int) -> Mapping[str, Any] | None:
        return archive_rows.find_newest(connection, page_id)

    def read_page(self, row: Mapping[str, Any], body_max_bytes: int) -> ArchivedAnswer:
        (page,) = read_all([row], body_max_bytes)
        if page.answer is None:
            return ArchivedAnswer(None, "", page.problem)
        answer = page.answer
        fetched = Fetched(answer.url, answer.status, answer.headers, answer.body)
        return ArchivedAnswer(fetched, answer.page_url)


PAGES = StoredPages()
