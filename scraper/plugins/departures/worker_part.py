"""The plug-in in a worker: product pages that lead elsewhere, or that say that they have no
product, are gone, and give nothing.

The shop took the product off sale, and sends visitors to a category, its home or another product,
or answers with status 200 that it was not found.
The product is then missed and delisted as if its page answered 404. Where most product pages lead
elsewhere, the shop is out of order or refuses the crawler: its pages are doubtful instead, and no
product is delisted.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import structlog
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from scraper.crawl.context import CrawlContext
from scraper.domain import Fetched, Kind, LeasedPage, Outcome, Status, Verdict
from scraper.infra.database import dumps
from scraper.infra.statements import sql
from scraper.plugin import WorkerPart
from scraper.plugins.departures.absence import find_absence
from scraper.plugins.departures.addresses import Departure, find_departure
from scraper.results.transaction import PageResult, no_extras
from scraper.rules.verdict import judge_outcome
from scraper.worker.batch import Attempt, Batch
from scraper.worker.host import WorkerHost

log = structlog.get_logger()
NAME = "departures"
CRAWLS_KEPT = 64
GONE = Verdict(Status.GONE, 0.0, charged=True)
# A page that was blocked is tried at a higher level.
JUDGED = (Outcome.FETCHED, Outcome.NOT_EXTRACTED, Outcome.DOUBTFUL)
FIND = text(sql("plugins/departures/find_departed.sql"))


@dataclass(frozen=True, slots=True)
class LeadingPage:
    """A page that may lead elsewhere. `unread`: a second try gave no product. `doubted` is the
    verdict if most pages of the crawl lead elsewhere."""

    departure: Departure
    unread: bool
    doubted: Verdict


class AddressCounts:
    """By crawl: how many product pages were at their own address, less those that were not."""

    def __init__(self) -> None:
        self._straight: dict[int, int] = {}

    def add_page(self, crawl_id: int, *, leads: bool) -> None:
        straight = self._straight.pop(crawl_id, 0)
        while len(self._straight) >= CRAWLS_KEPT:
            del self._straight[next(iter(self._straight))]
        self._straight[crawl_id] = straight + (-1 if leads else 1)

    def is_seldom(self, crawl_id: int) -> bool:
        """Returns True if most of the crawl's product pages were at their own address."""
        return self._straight.get(crawl_id, 0) > 0


class DeparturesPart(WorkerPart):
    def __init__(self, host: WorkerHost) -> None:
        super().__init__(host)
        self._counts = AddressCounts()
        self._rng = random.Random()

    async def keep(
        self,
        batch: Batch,
        page: LeasedPage,
        context: CrawlContext,
        fetched: Fetched,
        attempt: Attempt,
    ) -> LeadingPage | None:
        if page.kind is not Kind.PRODUCT or attempt.outcome not in (*JUDGED, Outcome.NOT_MODIFIED):
            return None
        departure = None
        if attempt.outcome is not Outcome.NOT_MODIFIED:
            seen = page, fetched, attempt.extracted, context.site
            departure = find_absence(*seen) or find_departure(*seen)
        if not page.attempts:
            self._counts.add_page(page.crawl_id, leads=departure is not None)
        if departure is None:
            return None
        unread = attempt.extracted is None and page.attempts > 0
        doubted = judge_outcome(Outcome.DOUBTFUL, page.attempts, context.retry, self._rng)
        return LeadingPage(departure, unread, doubted)

    def before_settling(self, pages: Sequence[PageResult]) -> Sequence[PageResult]:
        rows = [row for page in pages if (row := self._describe_page(page)) is not None]
        if not rows:
            return pages
        try:
            with self.host.engine.connect() as connection:
                departed = connection.execute(FIND, {"rows": dumps(rows)}).all()
        except SQLAlchemyError as error:
            # Nothing of these pages is stored before they are judged.
            log.warning("pages that lead elsewhere wait", error=str(error)[:200])
            raise
        certain = {row.page_id: row.certain for row in departed}
        return [
            _make_departed(page, certain=certain[page.page_id]) if page.page_id in certain else page
            for page in pages
        ]

    def _describe_page(self, page: PageResult) -> dict[str, object] | None:
        leading = page.extras.get(NAME)
        if not isinstance(leading, LeadingPage):
            return None
        return asdict(leading.departure) | {
            "page_id": page.page_id,
            "crawl_id": page.crawl_id,
            "ids": [product.external_id for product in page.products],
            "unread": leading.unread,
            "seldom": self._counts.is_seldom(page.crawl_id),
        }


def _make_departed(page: PageResult, *, certain: bool) -> PageResult:
    """Returns the result of a page that gives nothing: it is gone or, if that is not `certain`,
    doubtful."""
    leading = page.extras[NAME]
    assert isinstance(leading, LeadingPage)
    return replace(
        page,
        outcome=Outcome.NOT_FOUND if certain else Outcome.DOUBTFUL,
        verdict=GONE if certain else leading.doubted,
        error=leading.departure.text,
        move=None,
        links=(),
        products=(),
        named=None,
        content_hash=None,
        observations=None,
        revisit=None,
        extras=no_extras(),
    )
