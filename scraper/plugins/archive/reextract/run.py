"""Extracts archived pages again with today's definition: first a preview, then the writing. Nothing
is fetched.

The preview reads the newest archived answer of each product page with the extractor that workers
use, and compares the products with the stored ones. So the outcome is known before a row is
written: products, fields, fill rates, and whether these are usual for the site
(`scraper.rules.quality`, as at the end of a crawl). Products to write wait in an unnamed file, so
that memory does not grow with the catalogue.

Then they are written in batches, with the upsert that crawls use, which keeps versions and feeds
changes. A product that was read from a later answer stays as it is, and so does one that is
delisted or was read from another page. Re-extraction never delists or lists a product, and never
makes it fresher than its page.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import IO, Any, Self
from uuid import UUID

import orjson
import sqlalchemy as sa

from scraper.domain import Extracted, Fetched, Kind, content_hash
from scraper.errors import BusyError
from scraper.extract import FunctionFailed, TooSlow, compile_site
from scraper.infra.database import dumps, run_transaction
from scraper.plugins.archive import rows as archive
from scraper.plugins.archive.reader import RecordResult, read_all
from scraper.plugins.archive.reextract import store as store
from scraper.plugins.archive.reextract.differences import FieldChange, Sums
from scraper.plugins.archive.reextract.store import Extract
from scraper.results import fill_rates, products
from scraper.results.products import NewProduct
from scraper.rules import quality as policy
from scraper.rules.quality import FieldFigures, Reason, UsualFigures
from scraper.settings import Settings
from scraper.sites.definition import Site

BATCH = 500
# This many values of a field are compared with each other.
SAMPLED = 20_000
EXAMPLES = 5
# The crawl's id before it is opened.
CRAWL_UNKNOWN = 0
ANY_LATER_CRAWL = 2**62

# Called with the number of pages done, and of all pages.
Tick = Callable[[int, int], None]


@dataclass(slots=True)
class ProductChange:
    """A product that would change or be new, for display; `fields` is empty for a new one."""

    external_id: str
    url: str
    fields: dict[str, FieldChange]
    new: bool = False


@dataclass(slots=True)
class Preview:
    """The outcome of a re-extraction before anything is written. `left` counts products that stay
    as they are, by reason; `vanished` counts stored products that are no longer on their page,
    which stay too. `problems` are pairs of URL and problem."""

    pages: int = 0
    oldest: datetime | None = None
    newest: datetime | None = None
    unreadable: int = 0
    not_extracted: int = 0
    problems: list[tuple[str, str]] = field(default_factory=list)
    same: int = 0
    changed: int = 0
    new: int = 0
    vanished: int = 0
    vanished_examples: list[str] = field(default_factory=list)
    left: Counter[str] = field(default_factory=Counter)
    sums: Sums = field(default_factory=Sums)
    shown: list[ProductChange] = field(default_factory=list)
    reasons: list[Reason] = field(default_factory=list)

    @property
    def to_write(self) -> int:
        return self.changed + self.new


@dataclass(frozen=True, slots=True)
class WriteResult:
    crawl_id: int
    new: int
    changed: int


class Reextraction:
    """The re-extraction of one site: a context manager, since it has temporary files."""

    def __init__(self, engine: sa.Engine, settings: Settings, site: Site) -> None:
        self._engine = engine
        self._site = site
        self._extractor = compile_site(site, settings.site_function_modules)
        self._body_max = site.limits.body or settings.body_max_bytes
        folder = settings.home_dir / "tmp"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._records: IO[bytes] = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115
        self._extracts: IO[bytes] = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115
        self._names = list(site.product.all_fields)
        # The numbers of values found and mistyped, by field.
        self._figures: dict[str, list[int]] = {}
        self._looked_for = 0
        self._values: dict[str, tuple[set[int], list[int]]] = {}
        # Hashes of the ids seen so far: only the first page with an id counts.
        self._seen_ids: set[UUID] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._records.close()
        self._extracts.close()

    def read(
        self,
        site_id: int,
        *,
        since: datetime | None = None,
        limit: int | None = None,
        show: int = 0,
        tick: Tick,
    ) -> Preview:
        """Reads every page, and returns what would change. Writes nothing."""
        preview = Preview(pages=self._keep_records(site_id, since, limit))
        waiting: list[tuple[RecordResult, Extracted]] = []
        for number, archived in enumerate(read_all(self._read_records(), self._body_max), 1):
            extracted = self._extract_page(archived, preview)
            if extracted is not None:
                waiting.append((archived, extracted))
            if len(waiting) >= BATCH:
                self._compare_batch(site_id, waiting, preview, show)
                waiting = []
            tick(number, preview.pages)
        self._compare_batch(site_id, waiting, preview, show)
        preview.reasons = self._judge_fields(site_id)
        return preview

    def write(self, site_id: int, tick: Tick) -> WriteResult:
        """Writes what `read` found, in the name of a crawl of its own. Raises `BusyError` if a
        crawl with another definition runs."""

        def open_crawl(connection: sa.Connection) -> int:
            running = store.find_blocking_crawl(connection, site_id, self._site)
            if running is not None:
                raise BusyError(
                    f"crawl {running} of {self._site.name} runs with another definition, and "
                    "would overwrite this (fix: wait for its end, or type "
                    f"`scraper stop {running}`)"
                )
            return store.open_crawl(connection, site_id, self._site)

        crawl_id = run_transaction(self._engine, open_crawl)
        total, done, new, changed = self._count_extracts(), 0, 0, 0
        for batch in self._read_batches(site_id, crawl_id):
            write_batch = partial(
                store.write_products, site_id=site_id, crawl_id=crawl_id, extracts=batch
            )
            counts = run_transaction(self._engine, write_batch)
            new, changed, done = new + counts[0], changed + counts[1], done + len(batch)
            tick(done, total)
        with self._engine.begin() as connection:
            store.finish_crawl(
                connection,
                crawl_id,
                f"archived pages re-extracted: {new:,} products new, {changed:,} changed",
            )
        return WriteResult(crawl_id, new, changed)

    def _keep_records(self, site_id: int, since: datetime | None, limit: int | None) -> int:
        """Writes the rows to a file, since extraction takes longer than a transaction should."""
        count = 0
        with self._engine.connect() as connection:
            for row in archive.stream_newest(connection, site_id, since, limit):
                self._records.write(orjson.dumps(row._asdict()) + b"\n")
                count += 1
        return count

    def _read_records(self) -> Iterator[dict[str, Any]]:
        self._records.seek(0)
        for line in self._records:
            yield orjson.loads(line)

    def _extract_page(self, archived: RecordResult, preview: Preview) -> Extracted | None:
        at = datetime.fromisoformat(archived.row["fetched_at"])
        preview.oldest = min(at, preview.oldest or at)
        preview.newest = max(at, preview.newest or at)
        if archived.answer is None:
            preview.unreadable += 1
            self._note_problem(preview, archived.row["url"], archived.problem)
            return None
        answer = archived.answer
        page = Fetched(
            answer.url, answer.status, answer.headers, answer.body, captured=answer.captured
        )
        try:
            extracted = self._extractor.extract(
                Kind.PRODUCT, page, page_url=archived.row["url"], depth=1
            )
        except (FunctionFailed, TooSlow) as error:
            extracted = Extracted(problems=[str(error)], complete=False)
        self._count_fields(extracted)
        if not extracted.complete:
            preview.not_extracted += 1
            self._note_problem(preview, archived.row["url"], extracted.problems_text)
            return Extracted(complete=False)
        return extracted

    @staticmethod
    def _note_problem(preview: Preview, url: str, problem: str) -> None:
        if len(preview.problems) < EXAMPLES:
            preview.problems.append((url, problem))

    def _count_fields(self, extracted: Extracted) -> None:
        """Counts fields as `scraper.worker.observations` does for a crawl."""
        self._looked_for += len(extracted.products) or int(not extracted.complete)
        for name in extracted.found:
            self._figures.setdefault(name, [0, 0])[0] += 1
        for name in extracted.mistyped:
            self._figures.setdefault(name, [0, 0])[1] += 1
        for product in extracted.products:
            for name, value in product.data.items():
                if value is not None:
                    different, sampled = self._values.setdefault(name, (set(), [0]))
                    if sampled[0] < SAMPLED:
                        sampled[0] += 1
                        different.add(hash(dumps(value)))

    def _compare_batch(
        self,
        site_id: int,
        waiting: Sequence[tuple[RecordResult, Extracted]],
        preview: Preview,
        show: int,
    ) -> None:
        if not waiting:
            return
        ids = [product.external_id for _, extracted in waiting for product in extracted.products]
        pages = [archived.row["page_id"] for archived, _ in waiting]
        with self._engine.connect() as connection:
            rows = store.find_products(connection, site_id, ids, pages)
            page_hashes = store.read_page_hashes(connection, pages)
        stored = {row.external_id: row for row in rows}
        of_pages: dict[int, list[Any]] = {}
        for row in rows:
            of_pages.setdefault(row.page_id, []).append(row)
        for archived, extracted in waiting:
            given = {product.external_id for product in extracted.products}
            for row in of_pages.get(archived.row["page_id"], ()):
                if row.external_id not in given and row.delisted_at is None:
                    preview.vanished += 1
                    if len(preview.vanished_examples) < EXAMPLES:
                        preview.vanished_examples.append(row.external_id)
            for product in extracted.products:
                new = self._make_extract(site_id, archived, product.external_id, product.data)
                shown = self._compare_product(
                    new, stored.get(product.external_id), page_hashes, preview
                )
                if shown is not None and len(preview.shown) < show:
                    preview.shown.append(shown)

    def _make_extract(
        self, site_id: int, archived: RecordResult, external_id: str, data: Any
    ) -> Extract:
        assert archived.answer is not None
        product = NewProduct(
            site_id,
            external_id,
            archived.row["page_id"],
            CRAWL_UNKNOWN,
            archived.answer.url,
            data,
            content_hash(data),
        )
        return _as_extract(product, archived.row["fetched_at"], archived.row["content_hash"])

    def _compare_product(
        self,
        new: Extract,
        stored: Any,
        page_hashes: Mapping[int, UUID | None],
        preview: Preview,
    ) -> ProductChange | None:
        """Compares a product with the stored one. Returns None if that stays as it is."""
        product = new.product
        key = content_hash({"id": product.external_id})
        if key in self._seen_ids:
            preview.left["given by several pages"] += 1
            return None
        data = products.parse_data(dumps(product.data))
        if stored is None:
            self._seen_ids.add(key)
            preview.new += 1
            preview.sums.add_new(data)
            self._keep_extract(new)
            return ProductChange(product.external_id, product.url, {}, new=True)
        reason = store.reason_to_keep(stored, new, page_hashes.get(product.page_id))
        if reason is not None:
            preview.left[reason] += 1
            return None
        self._seen_ids.add(key)
        changes = preview.sums.compare(product.external_id, products.parse_data(stored.data), data)
        if stored.content_hash == product.content_hash:
            preview.same += 1
            return None
        preview.changed += 1
        self._keep_extract(new)
        return ProductChange(product.external_id, product.url, changes)

    def _keep_extract(self, new: Extract) -> None:
        product = new.product
        row = [
            product.external_id,
            product.page_id,
            product.url,
            dumps(product.data),
            str(product.content_hash),
        ]
        self._extracts.write(orjson.dumps([*row, new.fetched_at, new.page_hash]) + b"\n")

    def _count_extracts(self) -> int:
        self._extracts.seek(0)
        return sum(1 for _ in self._extracts)

    def _read_batches(self, site_id: int, crawl_id: int) -> Iterator[list[Extract]]:
        self._extracts.seek(0)
        batch: list[Extract] = []
        for line in self._extracts:
            external_id, page_id, url, data, hashed, at, page_hash = orjson.loads(line)
            product = NewProduct(
                site_id,
                external_id,
                page_id,
                crawl_id,
                url,
                products.parse_data(data),
                UUID(hashed),
            )
            batch.append(_as_extract(product, at, page_hash))
            if len(batch) == BATCH:
                yield batch
                batch = []
        if batch:
            yield batch

    def _judge_fields(self, site_id: int) -> list[Reason]:
        """Returns the reasons for which a crawl of these pages would be suspect."""
        tolerances = self._site.tolerances
        with self._engine.connect() as connection:
            usual = fill_rates.read_baseline(connection, site_id, ANY_LATER_CRAWL).fields
        reasons = []
        for name in self._names or sorted(self._figures.keys() | usual.keys()):
            filled, mistyped = self._figures.get(name, (0, 0))
            different, sampled = self._values.get(name, (set(), [0]))
            now = FieldFigures(self._looked_for, filled, mistyped, len(different), sampled[0])
            reason = policy.judge_field(name, now, usual.get(name, UsualFigures()), tolerances)
            if reason is not None:
                reasons.append(reason)
        return reasons


def _as_extract(product: NewProduct, at: str, page_hash: str | None) -> Extract:
    return Extract(product, datetime.fromisoformat(at), UUID(page_hash) if page_hash else None)
