"""Today's definition over yesterday's pages: what it would change, and then the change itself.
Nothing is fetched.

First everything is read: the newest archived answer of each product page goes through the extractor
that workers use, and what it gives is compared with what is stored. So the whole outcome is known
before a row is written: products, fields, fill rates, and whether they are as usual for the site
(`scraper.rules.quality`, as when a crawl ends). What is to be written waits in a file without a
name, so that memory does not grow with the catalogue.

Then it is written, in batches, by the upsert that crawls use: versions are kept, the feed of
changes gets its entries. A product that was fetched later than its archived page stays as it is,
and so does one that is delisted, or read from another page. None is delisted, listed or taken for
fresher than its page.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
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
from scraper.infra.database import dumps, retry_transaction
from scraper.plugins.archive import rows as archive
from scraper.plugins.archive.reader import ArchivedPage, read_all
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
CRAWL_UNKNOWN = 0  # until one is opened
ANY_LATER_CRAWL = 2**62

Tick = Callable[[int, int], None]  # done, of how many


@dataclass(slots=True)
class ProductChange:
    """A product that would change or be new, for people: `fields` is empty for a new one."""

    external_id: str
    url: str
    fields: dict[str, FieldChange]
    new: bool = False


@dataclass(slots=True)
class Preview:
    """What a re-extraction came to, before anything is written. `left` counts products that stay as
    they are, by reason; `vanished` are known ones that their page does not give any more: they stay
    as well."""

    pages: int = 0
    oldest: datetime | None = None
    newest: datetime | None = None
    unreadable: int = 0
    not_extracted: int = 0
    problems: list[tuple[str, str]] = field(default_factory=list)  # URL, problem
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
    """One site's. Use as a context: it holds temporary files."""

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
        self._figures: dict[str, list[int]] = {}  # field -> found, mistyped
        self._looked_for = 0
        self._values: dict[str, tuple[set[int], list[int]]] = {}
        # These are hashes of ids: of a new product the first page counts.
        self._given: set[UUID] = set()

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
        """Reads every page, and says what would change. Writes nothing."""
        preview = Preview(pages=self._keep_records(site_id, since, limit))
        waiting: list[tuple[ArchivedPage, Extracted]] = []
        for number, archived in enumerate(read_all(self._read_records(), self._body_max), 1):
            extracted = self._extract(archived, preview)
            if extracted is not None:
                waiting.append((archived, extracted))
            if len(waiting) >= BATCH:
                self._compare(site_id, waiting, preview, show)
                waiting = []
            tick(number, preview.pages)
        self._compare(site_id, waiting, preview, show)
        preview.reasons = self._judged(site_id)
        return preview

    def write(self, site_id: int, tick: Tick) -> WriteResult:
        """Writes what `read` found, in the name of a crawl of its own. Raises `BusyError` where a
        crawl by another definition runs."""

        def begin() -> int:
            with self._engine.begin() as connection:
                running = store.busy_with(connection, site_id, self._site)
                if running is not None:
                    raise BusyError(
                        f"crawl {running} of {self._site.name} runs by another definition and "
                        "would write over this: wait "
                        f"for its end, or end it with `scraper stop {running}`"
                    )
                return store.open_crawl(connection, site_id, self._site)

        crawl_id = retry_transaction(begin)
        total, done, new, changed = self._lines(), 0, 0, 0
        for batch in self._batches(site_id, crawl_id):
            counts = retry_transaction(partial(self._write, site_id, crawl_id, batch))
            new, changed, done = new + counts[0], changed + counts[1], done + len(batch)
            tick(done, total)
        with self._engine.begin() as connection:
            store.done(
                connection,
                crawl_id,
                f"archived pages re-extracted: {new:,} products new, {changed:,} changed",
            )
        return WriteResult(crawl_id, new, changed)

    def _keep_records(self, site_id: int, since: datetime | None, limit: int | None) -> int:
        """Which records there are, into a file: the extraction takes longer than a transaction
        should."""
        count = 0
        with self._engine.connect() as connection:
            for row in archive.newest(connection, site_id, since, limit):
                self._records.write(orjson.dumps(row._asdict()) + b"\n")
                count += 1
        return count

    def _read_records(self) -> Iterator[dict[str, Any]]:
        self._records.seek(0)
        for line in self._records:
            yield orjson.loads(line)

    def _extract(self, archived: ArchivedPage, preview: Preview) -> Extracted | None:
        at = datetime.fromisoformat(archived.row["fetched_at"])
        preview.oldest = min(at, preview.oldest or at)
        preview.newest = max(at, preview.newest or at)
        if archived.answer is None:
            preview.unreadable += 1
            self._problem(preview, archived.row["url"], archived.problem)
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
        self._count(extracted)
        if not extracted.complete:
            preview.not_extracted += 1
            self._problem(preview, archived.row["url"], extracted.problems_text)
            return Extracted(complete=False)
        return extracted

    @staticmethod
    def _problem(preview: Preview, url: str, problem: str) -> None:
        if len(preview.problems) < EXAMPLES:
            preview.problems.append((url, problem))

    def _count(self, extracted: Extracted) -> None:
        """As `scraper.worker.observations` counts for a crawl's figures."""
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

    def _compare(
        self,
        site_id: int,
        waiting: Sequence[tuple[ArchivedPage, Extracted]],
        preview: Preview,
        show: int,
    ) -> None:
        if not waiting:
            return
        ids = [product.external_id for _, extracted in waiting for product in extracted.products]
        pages = [archived.row["page_id"] for archived, _ in waiting]
        with self._engine.connect() as connection:
            rows = store.known(connection, site_id, ids, pages)
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
                new = self._product(site_id, archived, product.external_id, product.data)
                shown = self._compare_product(new, stored.get(product.external_id), preview)
                if shown is not None and len(preview.shown) < show:
                    preview.shown.append(shown)

    def _product(
        self, site_id: int, archived: ArchivedPage, external_id: str, data: Any
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
        return Extract(product, datetime.fromisoformat(archived.row["fetched_at"]))

    def _compare_product(self, new: Extract, stored: Any, preview: Preview) -> ProductChange | None:
        """One product compared with what is stored. None: it stays as it is."""
        product = new.product
        key = content_hash({"id": product.external_id})
        if key in self._given:
            preview.left["given by several pages"] += 1
            return None
        data = products.parse_data(dumps(product.data))
        if stored is None:
            self._given.add(key)
            preview.new += 1
            preview.sums.new(data)
            self._keep(new)
            return ProductChange(product.external_id, product.url, {}, new=True)
        reason = store.left_alone(stored, product.page_id, new.fetched_at)
        if reason is not None:
            preview.left[reason] += 1
            return None
        self._given.add(key)
        changes = preview.sums.compare(product.external_id, products.parse_data(stored.data), data)
        if stored.content_hash == product.content_hash:
            preview.same += 1
            return None
        preview.changed += 1
        self._keep(new)
        return ProductChange(product.external_id, product.url, changes)

    def _keep(self, new: Extract) -> None:
        product = new.product
        row = [
            product.external_id,
            product.page_id,
            product.url,
            dumps(product.data),
            str(product.content_hash),
        ]
        self._extracts.write(orjson.dumps([*row, new.fetched_at]) + b"\n")

    def _lines(self) -> int:
        self._extracts.seek(0)
        return sum(1 for _ in self._extracts)

    def _batches(self, site_id: int, crawl_id: int) -> Iterator[list[Extract]]:
        self._extracts.seek(0)
        batch: list[Extract] = []
        for line in self._extracts:
            external_id, page_id, url, data, hashed, at = orjson.loads(line)
            product = NewProduct(
                site_id,
                external_id,
                page_id,
                crawl_id,
                url,
                products.parse_data(data),
                UUID(hashed),
            )
            batch.append(Extract(product, datetime.fromisoformat(at)))
            if len(batch) == BATCH:
                yield batch
                batch = []
        if batch:
            yield batch

    def _write(self, site_id: int, crawl_id: int, batch: list[Extract]) -> tuple[int, int]:
        with self._engine.begin() as connection:
            return store.write(connection, site_id, crawl_id, batch)

    def _judged(self, site_id: int) -> list[Reason]:
        """What a crawl that had read these pages would be suspect for."""
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
