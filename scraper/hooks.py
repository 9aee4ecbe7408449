"""Where the core calls a plug-in: `Hooks` in any process, `WorkerPart` in a worker.

Plug-ins import these classes from `scraper.plugin`. The methods of several plug-ins are called in
the order of the plug-ins' names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import sqlalchemy as sa
    from prometheus_client import Metric
    from redis import Redis

    from scraper.crawl.context import CrawlContext
    from scraper.crawl.login_signs import LoginSigns
    from scraper.domain import Fetched, LeasedPage
    from scraper.extract.adapter import Adapter
    from scraper.http.handshake import Handshake
    from scraper.http.page_browser import PageBrowser
    from scraper.results.judgement.crawl_judgement import CrawlJudgement, WeighedChanges
    from scraper.results.judgement.earlier_crawls import SuspectCrawl
    from scraper.results.judgement.plausibility import Changes
    from scraper.results.missed_products import Misses
    from scraper.results.transaction import PageResult, StoredGroup
    from scraper.rules.quality import Reason
    from scraper.settings import Settings
    from scraper.sites.definition import Site
    from scraper.worker.batch import Attempt, Batch
    from scraper.worker.host import SessionPool, SlotLoad, WorkerHost
    from scraper.worker.telemetry import Observer


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of a shop a crawl has read: `products`, where the evidence names `expected`."""

    products: int
    expected: int
    evidence: str

    def __str__(self) -> str:
        return f"{self.products:,} of {self.expected:,} products ({self.evidence})"


class CoverageReader(Protocol):
    """Returns what is known of the coverage of crawls, by their ids."""

    def __call__(
        self, connection: sa.Connection, crawl_ids: Sequence[int]
    ) -> Mapping[int, Coverage]: ...


class Hooks:
    """What the core calls in any process. Every method is optional. A `Metric` is a metric family
    of `prometheus_client.core`, which a method imports itself, since it may be missing; its name
    begins with `scraper_`, in workers with `scraper_worker_`."""

    def check_site(self, site: Site, settings: Settings) -> Iterable[tuple[str, str]]:
        """Yields (key, sentence) for each problem that `scraper sites check` reports."""
        return ()

    def named_functions(self, site: Site) -> Mapping[str, str | None]:
        """Returns the Python functions that the plug-in's keys name, by key."""
        return {}

    def login_signs(self, site: Site) -> LoginSigns | None:
        """Returns the signs of a page that was answered to a logged-out visitor."""
        return None

    def adapter(self, site: Site) -> Adapter | None:
        """Returns what reads the site's own interface instead of its pages. It is pickled for a
        subprocess."""
        return None

    def handshake(self, site: Site) -> Handshake | None:
        """Returns what opens the site's connections instead of the core."""
        return None

    def open_crawl(
        self, connection: sa.Connection, crawl_id: int, site_id: int, site: Site, *, refetch: bool
    ) -> None:
        """Called in the transaction that opens a crawl."""

    def crawl_extra(
        self, connection: sa.Connection, crawl_id: int, site_id: int, site: Site
    ) -> object | None:
        """Returns what a worker keeps of a crawl for the plug-in NAME: `context.extras["NAME"]` of
        a `CrawlContext`. An error is logged, and the crawl goes on without it."""
        return None

    def flag_crawl(self, connection: sa.Connection, crawl_id: int) -> None:
        """Called in the transaction that judges a crawl, if it is suspect or has failed."""

    def weigh_changes(
        self, judgement: CrawlJudgement, changes: Mapping[str, Changes], contrary: int
    ) -> WeighedChanges | None:
        """Returns what to make of fields that changed on surprisingly many products. `contrary`
        counts pages that contradict their product."""
        return None

    def request_again(
        self,
        connection: sa.Connection,
        crawl: sa.Row[tuple[object, ...]],
        before: SuspectCrawl | None,
        *,
        complete: bool,
    ) -> int:
        """Takes pages of a drained, locked crawl into the crawl again. Returns how many. `complete`
        says that the crawl has read every listing."""
        return 0

    def confirming_pages(
        self, connection: sa.Connection, crawls: Sequence[int], pages: Sequence[int]
    ) -> Iterable[int]:
        """Returns which of these pages one of these crawls has requested again."""
        return ()

    def judge_crawl(
        self, connection: sa.Connection, crawl: sa.Row[Any], site: Site, products: int
    ) -> Iterable[Reason]:
        """Yields why a whole crawl with this number of good products is suspect. Called in the
        transaction that judges it."""
        return ()

    def explain_misses(self, connection: sa.Connection, crawl_id: int) -> bool:
        """Returns whether a surprising number of missed products is believed."""
        return False

    def delist(self, connection: sa.Connection, crawl: sa.Row[tuple[object, ...]]) -> Misses | None:
        """Counts a complete crawl's missed products, where pages are not all in the frontier."""
        return None

    def keeps_frontier(self, site: Site) -> bool:
        """Whether a site's finished pages stay in the frontier."""
        return True

    def count_site(self, connection: sa.Connection, site_id: int) -> Mapping[str, int]:
        """Returns how many rows of its own a site has, by what they are called."""
        return {}

    def delete_site(self, connection: sa.Connection, site_id: int, limit: int) -> int:
        """Deletes up to `limit` rows of a site. Returns how many; it is called until that is 0."""
        return 0

    def forget_changes(self, connection: sa.Connection, change_ids: Sequence[int]) -> None:
        """Called in the transaction that deletes entries of the feed of changes."""

    def forget_site(self, settings: Settings, site_id: int, name: str) -> None:
        """Called when a site was deleted: removes what is not in PostgreSQL."""

    def fleet_metrics(self, client: Redis) -> Iterable[Metric]:
        """Yields what `scraper metrics` exports of the plug-in's state in Redis."""
        return ()

    def stored_metrics(self, connection: sa.Connection) -> Iterable[Metric]:
        """Yields what `scraper metrics` exports of the plug-in's tables."""
        return ()

    def secret_values(self, settings: Settings) -> Iterable[str]:
        """Yields texts that no recorded page and no message may hold."""
        return ()


class WorkerPart:
    """The part of a plug-in in a worker process, on its event loop. Every member is optional. An
    error of a method is logged with the plug-in's name, and pages are stored without what it
    would have added."""

    browser: PageBrowser | None = None
    sessions: SessionPool | None = None
    observer: Observer | None = None

    def __init__(self, host: WorkerHost) -> None:
        self.host = host

    async def keep(
        self,
        batch: Batch,
        page: LeasedPage,
        context: CrawlContext,
        fetched: Fetched,
        tried: Attempt,
    ) -> object | None:
        """Returns what travels with the page's result: `result.extras["NAME"]` of a `PageResult`.
        Called for each answer of a crawl for which `Hooks.crawl_extra` returned something.
        `tried.extracted` is None if nothing was extracted."""
        return None

    def before_settling(self, pages: Sequence[PageResult]) -> Sequence[PageResult]:
        """Returns the results to store. Called in the writer's thread, before the transaction."""
        return pages

    def after_settling(self, stored: StoredGroup) -> None:
        """Called in the writer's thread after the commit, at most once: a crash or an error loses
        the call."""

    async def end_batch(self, batch: Batch) -> None:
        """Called when the last page of a batch is stored."""

    def collect_metrics(self) -> Iterable[Metric]:
        """Yields the plug-in's own metrics of this process, for each scrape."""
        return ()

    def slot_loads(self) -> Sequence[SlotLoad]:
        """Returns what the plug-in's own tasks take up of the worker's slots."""
        return ()

    async def run(self) -> None:
        """Runs until it is cancelled, as long as the worker lives."""

    def hand_back(self) -> None:
        """Called when the worker is to stop: starts nothing new."""

    def cut_short(self) -> None:
        """Called when the time to stop is up: ends what is under way."""

    async def aclose(self, within_s: float) -> None:
        """Closes connections within `within_s` seconds."""
