"""The tables of the core. PostgreSQL is the truth: it holds every count, verdict and product. A
plug-in's tables are in its own `models.py`.

Statements that matter for speed or for a race are SQL in the features' folders; these classes
describe the columns for Alembic.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar
from uuid import UUID

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    DateTime,
    Float,
    ForeignKey,
    Identity,
    Index,
    SmallInteger,
    Text,
    desc,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSON, JSONB
from sqlalchemy.orm import DeclarativeBase, Mapped, MappedColumn, mapped_column

from scraper.domain import CrawlStatus, Kind, Status

EMPTY = text("'{}'")
FALSE = text("false")


def one_of(column: str, values: type[Status] | type[Kind] | type[CrawlStatus]) -> CheckConstraint:
    quoted = ", ".join(f"'{value}'" for value in values)
    return CheckConstraint(f"{column} IN ({quoted})", name=f"{column}_known")


def partial_index(name: str, *columns: Any, where: str, unique: bool = False) -> Index:
    return Index(name, *columns, unique=unique, postgresql_where=text(where))


class Base(DeclarativeBase):
    type_annotation_map: ClassVar[dict[type, Any]] = {
        str: Text,
        datetime: DateTime(timezone=True),
        float: Float,
    }
    metadata_naming: ClassVar[dict[str, str]] = {
        "ix": "%(table_name)s_%(column_0_N_name)s_idx",
        "uq": "%(table_name)s_%(column_0_N_name)s_key",
        "ck": "%(table_name)s_%(constraint_name)s_check",
        "fk": "%(table_name)s_%(column_0_N_name)s_fkey",
        "pk": "%(table_name)s_pkey",
    }


Base.metadata.naming_convention = Base.metadata_naming


def row_number() -> MappedColumn[int]:
    """Returns a key of eight bytes that PostgreSQL gives each row."""
    return mapped_column(BigInteger, Identity(always=True), primary_key=True)


def crawl_key() -> MappedColumn[int]:
    """Returns the first column of a key for rows that are deleted with their crawl."""
    return mapped_column(ForeignKey("crawls.id", ondelete="CASCADE"), primary_key=True)


def count_column(comment: str | None = None) -> MappedColumn[int]:
    """Returns a column for a number that begins at 0."""
    return mapped_column(server_default=text("0"), comment=comment)


def now_column(comment: str | None = None) -> MappedColumn[datetime]:
    """Returns a column for a time whose default is the insertion of the row."""
    return mapped_column(server_default=text("now()"), comment=comment)


class SiteRow(Base):
    """One shop, with the newest valid version of its definition."""

    __tablename__ = "sites"

    id: Mapped[int] = mapped_column(Identity(always=True), primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    definition: Mapped[dict[str, Any]] = mapped_column(
        JSON, comment="json, not jsonb: the order of fields counts"
    )
    definition_hash: Mapped[str]
    enabled: Mapped[bool] = mapped_column(server_default=text("true"))
    paused: Mapped[bool] = mapped_column(server_default=FALSE)
    created_at: Mapped[datetime] = now_column()
    updated_at: Mapped[datetime] = now_column()
    scheduled_since: Mapped[datetime] = now_column("slots before it are not made up")
    filter_id: Mapped[UUID] = mapped_column(
        server_default=text("gen_random_uuid()"),
        comment="names its Bloom filter in Redis; a new id means an empty filter",
    )


class Crawl(Base):
    """One pass over one site, with the definition that it uses and its counters, which equal those
    of the table `pages`."""

    __tablename__ = "crawls"
    __table_args__ = (
        one_of("status", CrawlStatus),
        Index("crawls_site_id_slot_key", "site_id", "slot", unique=True),
        partial_index(
            "crawls_one_active_a_site",
            "site_id",
            unique=True,
            where="status IN ('planned', 'running')",
        ),
        Index("crawls_finished_at_idx", "finished_at"),
        partial_index(
            "crawls_unjudged_idx",
            "id",
            where="judged_at IS NULL AND status IN ('completed', 'stopped', 'failed')",
        ),
        partial_index(
            "crawls_uncleared_idx",
            "id",
            where="filter_id IS NOT NULL AND cleared_at IS NULL"
            " AND status IN ('completed', 'stopped', 'failed')",
        ),
    )

    id: Mapped[int] = row_number()
    site_id: Mapped[int] = mapped_column(ForeignKey("sites.id"))
    slot: Mapped[datetime] = mapped_column(comment="the scheduled time for which it was opened")
    trigger: Mapped[str] = mapped_column(
        comment="schedule, manual, replay (of dead pages), or reextract (of archived ones)"
    )
    status: Mapped[str] = mapped_column(server_default=text("'planned'"))
    definition: Mapped[dict[str, Any]] = mapped_column(
        JSON, comment="as it was when the crawl was planned"
    )
    definition_hash: Mapped[str]
    rate_per_s: Mapped[float | None] = mapped_column(comment="a host's budget; null: unlimited")
    concurrency: Mapped[int]
    fresh_after: Mapped[datetime | None] = mapped_column(
        comment="products fetched later than this are not fetched again; null: all are fetched"
    )
    stale_before: Mapped[datetime | None] = mapped_column(
        comment="products with an interval of their own are due by it, and in any case "
        "if fetched before this; null: no such interval"
    )
    whole_before: Mapped[datetime | None] = mapped_column(
        comment="products read no later than this are requested without validators"
    )
    created_at: Mapped[datetime] = now_column()
    started_at: Mapped[datetime | None]
    progressed_at: Mapped[datetime] = now_column("when a page was last tried or added")
    watched_at: Mapped[datetime] = now_column("when a coordinator last checked its progress")
    idle_minutes: Mapped[int] = count_column("consecutive checks, a minute apart, without progress")
    finished_at: Mapped[datetime | None]
    note: Mapped[str | None] = mapped_column(comment="why it was skipped, stopped or failed")

    discovery_total: Mapped[int] = count_column("listings and sitemaps")
    discovery_done: Mapped[int] = count_column()
    product_total: Mapped[int] = count_column()
    product_done: Mapped[int] = count_column()
    ok: Mapped[int] = count_column()
    unchanged: Mapped[int] = count_column()
    gone: Mapped[int] = count_column()
    dead: Mapped[int] = count_column()
    invalid: Mapped[int] = count_column()
    dropped: Mapped[int] = count_column()
    fresh: Mapped[int] = count_column("of unchanged: not requested again")
    not_modified: Mapped[int] = count_column("of unchanged: answered 304, or with the same bytes")
    fetches: Mapped[int] = count_column("pages tried, retries included")
    retries: Mapped[int] = count_column()
    links_cut: Mapped[int] = count_column("over the limits; a page that breaks off: 1")
    links_fruitless: Mapped[int] = count_column(
        "to listings behind too many listings without new links"
    )
    links_disallowed: Mapped[int] = count_column("to listings that robots.txt disallows")
    products_new: Mapped[int] = count_column()
    products_changed: Mapped[int] = count_column()
    products_repriced: Mapped[int] = count_column(
        "of products_changed: with another price in the same currency, without rejected changes"
    )
    products_delisted: Mapped[int] = count_column()

    judged_at: Mapped[datetime | None] = mapped_column(
        comment="when its data was compared with recent crawls'"
    )
    suspect: Mapped[bool] = mapped_column(
        server_default=FALSE, comment="its data cannot be trusted"
    )
    reasons: Mapped[list[dict[str, Any]] | None] = mapped_column(
        JSONB, comment="why it is suspect, or was: field (null: the whole crawl), what, text"
    )
    accepted_at: Mapped[datetime | None] = mapped_column(
        comment="when it was accepted as the new normal: earlier crawls no longer count"
    )
    holds_new: Mapped[bool] = mapped_column(
        server_default=FALSE, comment="new products wait until it is judged"
    )
    asking: Mapped[bool] = mapped_column(
        server_default=FALSE,
        comment="everything else is read; it fetches pages again, and those of products that it "
        "would delist",
    )

    filter_id: Mapped[UUID | None] = mapped_column(
        comment="its Bloom filter; null: finished pages stay in the frontier"
    )
    cleared_at: Mapped[datetime | None] = mapped_column(
        comment="when its last finished pages left the frontier"
    )
    products_listed: Mapped[int | None] = mapped_column(
        comment="about how many products its listings named; null: not counted"
    )


class PageRow(Base):
    """A page of the frontier: one canonical URL of a site, kept forever and reused by each crawl
    that reaches it."""

    __tablename__ = "pages"
    __table_args__ = (
        one_of("status", Status),
        one_of("kind", Kind),
        Index("pages_site_id_fingerprint_key", "site_id", "fingerprint", unique=True),
        partial_index(
            "pages_due_idx", "queue", "host", desc("priority"), "not_before", where="status = 'due'"
        ),
        partial_index("pages_open_idx", "crawl_id", where="status = 'due'"),
        partial_index("pages_lists_idx", "crawl_id", "lists", where="lists IS NOT NULL"),
        partial_index(
            "pages_error_idx",
            "crawl_id",
            "settled_at",
            where="error IS NOT NULL AND status <> 'gone'",
        ),
        partial_index(
            "pages_unusable_idx", "site_id", "status", where="status IN ('dead', 'invalid')"
        ),
        partial_index(
            "pages_suspect_idx", "queue", "losses", where="losses >= 2 AND status = 'due'"
        ),
        # Each dispatch scans the rows that were due since the last vacuum, so PostgreSQL's default,
        # a fifth of the table, would be too rare.
        {"postgresql_with": {"autovacuum_vacuum_scale_factor": 0.05}},
    )

    id: Mapped[int] = row_number()
    site_id: Mapped[int] = mapped_column(ForeignKey("sites.id"))
    crawl_id: Mapped[int] = mapped_column(
        ForeignKey("crawls.id"), comment="the last crawl that reached it"
    )
    fingerprint: Mapped[UUID] = mapped_column(comment="hash of the canonical URL")
    url: Mapped[str]
    kind: Mapped[str]
    host: Mapped[str]
    queue: Mapped[str]
    priority: Mapped[int] = mapped_column(SmallInteger)
    depth: Mapped[int] = mapped_column(SmallInteger, comment="links followed from a start URL")
    found_on: Mapped[int | None] = mapped_column(
        BigInteger, comment="the page that linked to it first in its crawl; null: none did"
    )
    fruitless: Mapped[int] = mapped_column(
        SmallInteger,
        server_default=text("0"),
        comment="consecutive listings without new links on the way to it",
    )
    lists: Mapped[UUID | None] = mapped_column(comment="a listing's: hash of its product links")
    status: Mapped[str]
    attempts: Mapped[int] = mapped_column(
        SmallInteger, server_default=text("0"), comment="tries charged to the page"
    )
    host_attempts: Mapped[int] = mapped_column(
        SmallInteger, server_default=text("0"), comment="tries that failed by the host's fault"
    )
    losses: Mapped[int] = mapped_column(
        SmallInteger, server_default=text("0"), comment="workers that died holding it"
    )
    level: Mapped[str | None] = mapped_column(
        comment="the tier that it has reached, above its host's"
    )
    blocked: Mapped[int] = mapped_column(
        SmallInteger, server_default=text("0"), comment="blocks at its present tier"
    )
    probe: Mapped[bool] = mapped_column(
        server_default=FALSE, comment="tries a lower tier for its host"
    )
    not_before: Mapped[datetime] = now_column()
    content_hash: Mapped[UUID | None] = mapped_column(comment="of what was extracted")
    last_outcome: Mapped[str | None]
    http_status: Mapped[int | None] = mapped_column(SmallInteger)
    error: Mapped[str | None]
    response_head: Mapped[dict[str, Any] | None] = mapped_column(
        JSONB, comment="headers of the last answer that could not be used, bounded, without secrets"
    )
    excerpt: Mapped[str | None] = mapped_column(
        comment="the start of a body that could not be used"
    )
    discovered_at: Mapped[datetime] = now_column()
    fetched_at: Mapped[datetime | None] = mapped_column(comment="last good answer")
    settled_at: Mapped[datetime | None] = mapped_column(comment="last verdict")
    etag: Mapped[str | None] = mapped_column(comment="a product page's, as received")
    last_modified: Mapped[str | None] = mapped_column(comment="likewise")
    body_hash: Mapped[int | None] = mapped_column(
        BigInteger, comment="of its body as received; a body with the same hash is not read again"
    )
    extractor_hash: Mapped[int | None] = mapped_column(
        BigInteger,
        comment="definition, functions and version that extracted it whole; null: it is requested "
        "without validators",
    )
    read_at: Mapped[datetime | None] = mapped_column(comment="when it was last read whole")
    last_item_count: Mapped[int | None] = mapped_column(
        comment="how many products a listing named, or how many fields a product page had, when it "
        "was last accepted; 1 for a listing that was empty once; null: never read"
    )
    revisit_s: Mapped[int | None] = mapped_column(
        comment="the page's own interval; null: the definition's is every page's"
    )
    doubted_hash: Mapped[UUID | None] = mapped_column(
        comment="of what its last try gave, if that was doubted"
    )


class Host(Base):
    """What an operator has set for a host, which overrides every definition. Other hosts have no
    row."""

    __tablename__ = "hosts"

    host: Mapped[str] = mapped_column(primary_key=True, comment="name and port, as in pages")
    paused: Mapped[bool] = mapped_column(server_default=FALSE)
    rate: Mapped[str | None] = mapped_column(
        comment="as written: 30/m, unlimited; null: the definition's"
    )
    concurrency: Mapped[int | None]
    burst: Mapped[int | None]
    updated_at: Mapped[datetime] = now_column()


class HostRouteRow(Base):
    """The lowest tier at which a site's pages are known to get past a host's blocks. Without a row
    they start at the definition's tier."""

    __tablename__ = "host_routes"

    site_id: Mapped[int] = mapped_column(ForeignKey("sites.id"), primary_key=True)
    host: Mapped[str] = mapped_column(primary_key=True)
    start: Mapped[str] = mapped_column(
        primary_key=True, comment="the level by the site's definition"
    )
    level: Mapped[str]
    changed_at: Mapped[datetime]
    blocked_pages: Mapped[list[int]] = mapped_column(
        ARRAY(BigInteger), comment="given up at the level since its last good answer"
    )
    probe_at: Mapped[datetime | None] = mapped_column(
        comment="when one page is to try the level below"
    )
    probe_every_s: Mapped[float]
    probes_ok: Mapped[int]
    fell_at: Mapped[datetime | None] = mapped_column(comment="when it last came down a level")
    fell_every_s: Mapped[float]
    why: Mapped[str] = mapped_column(comment="the sign for which it went up, or a probe failed")


class LeaseRow(Base):
    """A timed exclusive claim on pages, which is deleted once its last page is settled or it has
    expired.

    The lease names its pages, and pages do not name their lease, so that leasing writes one row and
    leaves the frontier's indexes alone.
    """

    __tablename__ = "leases"
    __table_args__ = (
        Index("leases_until_idx", "until"),
        # Rows are short-lived, and often counted. The columns that name pages are stored apart, so
        # that rows stay small.
        {"postgresql_with": {"fillfactor": 70, "toast_tuple_target": 128}},
    )

    id: Mapped[UUID] = mapped_column(primary_key=True)
    queue: Mapped[str]
    kind: Mapped[str]
    priority: Mapped[int] = mapped_column(SmallInteger, comment="of its most urgent page")
    pages: Mapped[int] = mapped_column(comment="the number of pages when it was made")
    page_ids: Mapped[list[int]] = mapped_column(
        ARRAY(BigInteger), comment="0 where a page is settled"
    )
    hosts: Mapped[list[str]] = mapped_column(ARRAY(Text), comment="of each of these pages")
    created_at: Mapped[datetime] = now_column()
    started_at: Mapped[datetime | None] = mapped_column(
        comment="null: no worker has claimed it yet"
    )
    until: Mapped[datetime]
    worker: Mapped[str | None]
    claim: Mapped[UUID | None] = mapped_column(
        comment="a worker whose reply was lost may claim again with the same id"
    )
    alone: Mapped[bool] = mapped_column(
        server_default=FALSE, comment="its worker runs no other batch at the same time"
    )


class Throughput(Base):
    """A worker's tries for a crawl with one outcome within some seconds. A try counts in the bucket
    in which it was settled; see `scraper.frontier.throughput`."""

    __tablename__ = "throughput"
    __table_args__ = (
        Index("throughput_step_s_at_idx", "step_s", "at"),
        # A row is updated with each group that a worker stores.
        {"postgresql_with": {"fillfactor": 70}},
    )

    crawl_id: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    at: Mapped[datetime] = mapped_column(primary_key=True, comment="when the bucket begins")
    step_s: Mapped[int] = mapped_column(SmallInteger, primary_key=True, comment="how long it is")
    worker: Mapped[str] = mapped_column(primary_key=True)
    queue: Mapped[str] = mapped_column(primary_key=True, comment="with its region: residential.eu")
    proxy: Mapped[str] = mapped_column(
        primary_key=True, comment="the class of proxies; empty: none"
    )
    outcome: Mapped[str] = mapped_column(primary_key=True)
    tries: Mapped[int] = mapped_column(comment="pages tried")
    done: Mapped[int] = mapped_column(comment="of these: final for the crawl")
    seconds: Mapped[float] = mapped_column(comment="the sum of the requests' durations")
    bytes: Mapped[int] = mapped_column(BigInteger, comment="of bodies, unpacked")


class CrawlHost(Base):
    """A crawl's results at a host, by worker while it runs. Once it has ended, workers are summed,
    and minor hosts too."""

    __tablename__ = "crawl_hosts"
    __table_args__ = ({"postgresql_with": {"fillfactor": 70}},)

    crawl_id: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    host: Mapped[str] = mapped_column(primary_key=True, comment="empty: all others together")
    worker: Mapped[str] = mapped_column(primary_key=True, comment="empty: the crawl has ended")
    tries: Mapped[int]
    failures: Mapped[int] = mapped_column(comment="of these: failed, with a party to blame")
    seconds: Mapped[float]
    slowest_s: Mapped[float]
    bytes: Mapped[int] = mapped_column(BigInteger)


class ProductRow(Base):
    """A product, with its present data. `product_versions` has the data before each change."""

    __tablename__ = "products"
    __table_args__ = (
        Index("products_site_id_external_id_key", "site_id", "external_id", unique=True),
        Index("products_page_id_idx", "page_id"),
        Index("products_site_id_changed_at_idx", "site_id", "changed_at"),
    )

    id: Mapped[int] = row_number()
    site_id: Mapped[int] = mapped_column(ForeignKey("sites.id"))
    external_id: Mapped[str] = mapped_column(
        comment="the shop's own id, or the page's canonical URL"
    )
    page_id: Mapped[int] = mapped_column(
        BigInteger, comment="the page it is read from, which may have left the frontier"
    )
    crawl_id: Mapped[int] = mapped_column(
        ForeignKey("crawls.id"), comment="the last crawl that wrote it"
    )
    url: Mapped[str]
    data: Mapped[dict[str, Any]] = mapped_column(JSONB)
    content_hash: Mapped[UUID]
    version: Mapped[int] = mapped_column(server_default=text("1"), comment="1 + the changes seen")
    first_seen_at: Mapped[datetime] = now_column()
    changed_at: Mapped[datetime] = now_column()
    fetched_at: Mapped[datetime] = now_column()
    missed_crawls: Mapped[int] = mapped_column(
        SmallInteger,
        server_default=text("0"),
        comment="complete crawls in a row that did not find it",
    )
    delisted_at: Mapped[datetime | None]
    absent_since: Mapped[datetime | None] = mapped_column(
        comment="since when its page, which has several products, is read without it"
    )
    asked_by: Mapped[int | None] = mapped_column(
        BigInteger, comment="the last crawl that fetched its page because no listing named it"
    )


class ProductVersion(Base):
    """A product's data from `valid_from` until `valid_to`, when a change replaced it."""

    __tablename__ = "product_versions"

    product_id: Mapped[int] = mapped_column(
        ForeignKey("products.id", ondelete="CASCADE"), primary_key=True
    )
    version: Mapped[int] = mapped_column(primary_key=True)
    data: Mapped[dict[str, Any]] = mapped_column(JSONB)
    content_hash: Mapped[UUID]
    valid_from: Mapped[datetime]
    valid_to: Mapped[datetime]
    crawl_id: Mapped[int] = mapped_column(
        ForeignKey("crawls.id"), comment="the crawl that saw the change"
    )


class ChangeRow(Base):
    """An entry of the feed: a product's event, and its version; see `scraper.feed.store`. It has no
    foreign keys, which would be checked for every product of a first crawl.
    """

    __tablename__ = "changes"

    id: Mapped[int] = mapped_column(
        BigInteger, Identity(always=True), primary_key=True, comment="the position in the feed"
    )
    product_id: Mapped[int] = mapped_column(BigInteger)
    crawl_id: Mapped[int] = mapped_column(BigInteger)
    at: Mapped[datetime] = now_column()
    site_id: Mapped[int]
    version: Mapped[int] = mapped_column(comment="the product's, after it")
    previous_version: Mapped[int | None] = mapped_column(comment="null: its content is the same")
    event: Mapped[str] = mapped_column(comment="new, changed, delisted, relisted, reverted")


class ConsumerRow(Base):
    """The position of a named consumer of the feed."""

    __tablename__ = "consumers"

    name: Mapped[str] = mapped_column(primary_key=True)
    site: Mapped[str] = mapped_column(primary_key=True, comment="empty: all sites")
    position: Mapped[int] = mapped_column(BigInteger, comment="the last position that it has read")
    created_at: Mapped[datetime] = now_column()
    read_at: Mapped[datetime] = now_column()


class ConsumerLeaseRow(Base):
    """The lease of the process that reads as a consumer."""

    __tablename__ = "consumer_locks"

    name: Mapped[str] = mapped_column(primary_key=True)
    site: Mapped[str] = mapped_column(primary_key=True, comment="empty: all sites")
    holder: Mapped[UUID] = mapped_column(comment="a number of that process")
    until: Mapped[datetime]


class FeedRow(Base):
    """The feed itself, in one row."""

    __tablename__ = "feed"
    __table_args__ = (CheckConstraint("id = 1", name="one_row"),)

    id: Mapped[int] = mapped_column(
        SmallInteger, primary_key=True, autoincrement=False, server_default=text("1")
    )
    trimmed: Mapped[int] = mapped_column(
        BigInteger, comment="changes up to this position are deleted"
    )
    trimmed_at: Mapped[datetime | None] = mapped_column(
        comment="when the last one of these was made"
    )
    server: Mapped[str | None] = mapped_column(
        comment="system, timeline and table that gave out the last position"
    )
    began: Mapped[int] = mapped_column(
        BigInteger, server_default=text("0"), comment="this server gave out all positions after it"
    )


class CrawlQuality(Base):
    """Sums over a crawl's product pages so far, by field name. All are exact except the recent
    ones."""

    __tablename__ = "crawl_quality"

    crawl_id: Mapped[int] = crawl_key()
    records: Mapped[int] = count_column("products looked for on pages")
    found: Mapped[dict[str, int]] = mapped_column(JSONB, server_default=EMPTY)
    mistyped: Mapped[dict[str, int]] = mapped_column(JSONB, server_default=EMPTY)
    vanished: Mapped[dict[str, int]] = mapped_column(
        JSONB, server_default=EMPTY, comment="values that products have and pages did not give"
    )
    votes: Mapped[dict[str, int]] = mapped_column(
        JSONB,
        server_default=EMPTY,
        comment="of a sample: field, other source, and yes or no for whether they agree",
    )
    recent_records: Mapped[float] = mapped_column(
        server_default=text("0"), comment="older ones fade"
    )
    recent: Mapped[dict[str, float]] = mapped_column(
        JSONB, server_default=EMPTY, comment="found, likewise fading"
    )
    usual: Mapped[dict[str, Any]] = mapped_column(
        JSONB,
        server_default=EMPTY,
        comment="when the crawl began: medians, and the line below which a field breaks",
    )
    products: Mapped[int | None] = mapped_column(comment="good product pages at its end")
    usual_products: Mapped[float | None]
    missed: Mapped[int | None] = mapped_column(
        comment="products that its listings no longer named, for the first time"
    )
    repeated: Mapped[int | None] = mapped_column(
        comment="listings that showed what another one shows"
    )
    strayed: Mapped[int] = mapped_column(
        server_default=text("0"), comment="pages that gave another product than their own"
    )
    lost: Mapped[int | None] = mapped_column(
        comment="listings most of whose products it no longer found"
    )
    asked: Mapped[dict[str, int]] = mapped_column(
        JSONB, server_default=EMPTY, comment="values in doubt that were requested again"
    )


class CrawlField(Base):
    """A field's figures in an ended crawl, with the usual ones of that time."""

    __tablename__ = "crawl_fields"

    crawl_id: Mapped[int] = crawl_key()
    field: Mapped[str] = mapped_column(primary_key=True)
    records: Mapped[int] = mapped_column(comment="products looked for on pages")
    found: Mapped[int] = mapped_column(comment="of these with a value of the page's own")
    mistyped: Mapped[int] = mapped_column(comment="of these with a value of the wrong type")
    vanished: Mapped[int] = mapped_column(comment="products that have it, on pages that do not")
    compared: Mapped[int] = count_column("products that were stored before and read")
    changed: Mapped[int] = count_column("of these with another value than before")
    held: Mapped[int] = count_column("values that are held back")
    votes: Mapped[dict[str, Any]] = mapped_column(
        JSONB,
        server_default=EMPTY,
        comment="on how many pages each other source agrees, and disagrees; of a sample",
    )
    distinct_values: Mapped[int] = mapped_column(comment="among the sampled")
    sampled: Mapped[int] = mapped_column(comment="values of stored products")
    usual_fill: Mapped[float | None] = mapped_column(comment="null: not known")
    usual_mistyped: Mapped[float]
    usual_distinct: Mapped[float]
    line: Mapped[float] = mapped_column(comment="the fill rate below which it breaks")
    breach: Mapped[str | None] = mapped_column(comment="what is wrong with it; null: nothing")


class CrawlExample(Base):
    """A page on which a field was not found."""

    __tablename__ = "crawl_examples"

    crawl_id: Mapped[int] = crawl_key()
    field: Mapped[str] = mapped_column(primary_key=True)
    url: Mapped[str] = mapped_column(primary_key=True)
    problem: Mapped[str]
    excerpt: Mapped[str]
    known: Mapped[str | None] = mapped_column(comment="the value that its product had")
    seen_at: Mapped[datetime] = now_column()
    nowhere: Mapped[bool] = mapped_column(
        server_default=text("false"), comment="the product's value is nowhere on the page"
    )


class HeldValue(Base):
    """A page's value for a product that has another one: it waits until its crawl is judged, and is
    held back afterwards if it is not plausible."""

    __tablename__ = "held_values"
    __table_args__ = (Index("held_values_crawl_id_product_id_idx", "crawl_id", "product_id"),)

    product_id: Mapped[int] = mapped_column(
        ForeignKey("products.id", ondelete="CASCADE"), primary_key=True
    )
    field: Mapped[str] = mapped_column(primary_key=True)
    crawl_id: Mapped[int] = mapped_column(
        ForeignKey("crawls.id", ondelete="CASCADE"), comment="the last crawl that read it"
    )
    since_crawl_id: Mapped[int] = mapped_column(
        BigInteger, comment="the first crawl that read this value, with no other value in between"
    )
    seen_at: Mapped[datetime] = now_column("when that was")
    difference: Mapped[str] = mapped_column(comment="changed, vanished or appeared")
    value: Mapped[dict[str, Any]] = mapped_column(
        JSONB, comment="its keys' new values; empty: it vanished"
    )
    reason: Mapped[str | None] = mapped_column(
        comment="why it is held back; null: its crawl is not judged yet"
    )
    contradicted: Mapped[bool] = mapped_column(
        server_default=FALSE, comment="another source of the same page says otherwise"
    )
    confirmed: Mapped[bool] = mapped_column(
        server_default=FALSE, comment="its page has said it twice in this crawl"
    )
    card: Mapped[bool | None] = mapped_column(
        comment="whether the product's card on a listing says this, or still the stored value"
    )


class HeldProduct(Base):
    """A page's product that is not stored yet: it waits until its crawl is judged, and is held back
    afterwards if it is not plausible. Or a stored product whose own page the crawl has not reached:
    it moves to this page if the crawl ends without the other one."""

    __tablename__ = "held_products"
    __table_args__ = (Index("held_products_crawl_id_idx", "crawl_id"),)

    site_id: Mapped[int] = mapped_column(
        ForeignKey("sites.id", ondelete="CASCADE"), primary_key=True
    )
    external_id: Mapped[str] = mapped_column(primary_key=True)
    page_id: Mapped[int] = mapped_column(BigInteger)
    crawl_id: Mapped[int] = mapped_column(
        ForeignKey("crawls.id", ondelete="CASCADE"), comment="the last crawl that read it"
    )
    since_crawl_id: Mapped[int] = mapped_column(
        BigInteger, comment="the first crawl that read these values, with no others in between"
    )
    seen_at: Mapped[datetime] = now_column("when it was read first")
    url: Mapped[str]
    data: Mapped[dict[str, Any]] = mapped_column(JSONB)
    content_hash: Mapped[UUID]
    reason: Mapped[str | None] = mapped_column(
        comment="why it is held back; null: its crawl is not judged yet"
    )
