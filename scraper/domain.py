"""The values every other module speaks in: kinds, outcomes, verdicts, links, fetched pages, leases.

Standard library only; nothing here does I/O, reads a clock, or knows of Celery, httpx, SQLAlchemy
or parsel.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from hashlib import blake2b
from typing import Any, NamedTuple, TypeVar, dataclass_transform
from uuid import UUID

import orjson

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def value(cls: type[T]) -> type[T]:
    """Makes a dataclass that mypy treats as frozen. Python's own guard would make creation five
    times slower, and a page creates about twelve of these values."""
    return dataclass(slots=True, unsafe_hash=True)(cls)


class Kind(StrEnum):
    """The kind of a page: SITEMAP, LISTING or PRODUCT. The first two add pages."""

    SITEMAP = "sitemap"
    LISTING = "listing"
    PRODUCT = "product"

    @property
    def discovers(self) -> bool:
        """True for the kinds that add pages to the frontier: while one is open, the total is not
        known."""
        return self is not Kind.PRODUCT


class Blame(StrEnum):
    """Whose fault an outcome is. Only a page's own faults are charged to its attempts without
    mercy."""

    NOBODY = "nobody"
    PAGE = "page"
    HOST = "host"
    PROXY = "proxy"
    PARSER = "parser"
    US = "us"


class Outcome(StrEnum):
    """What happened when a page was tried. `scraper.rules.verdict` decides what follows."""

    FETCHED = "fetched"
    NOT_MODIFIED = "not_modified"
    FRESH = "fresh"
    NOT_FOUND = "not_found"
    REFUSED = "refused"
    BLOCKED = "blocked"
    THROTTLED = "throttled"
    SERVER_ERROR = "server_error"
    TIMEOUT = "timeout"
    UNREACHABLE = "unreachable"
    TLS = "tls"
    TOO_LARGE = "too_large"
    REDIRECT_LOOP = "redirect_loop"
    OFF_SITE = "off_site"
    FORBIDDEN_ADDRESS = "forbidden_address"
    ROBOTS_DISALLOWED = "robots_disallowed"
    ROBOTS_UNAVAILABLE = "robots_unavailable"
    HOST_DOWN = "host_down"
    MALFORMED = "malformed"
    NOT_EXTRACTED = "not_extracted"
    DOUBTFUL = "doubtful"
    TOO_SLOW = "too_slow"
    FUNCTION_FAILED = "function_failed"
    CRASHED = "crashed"
    WORKER_LOST = "worker_lost"
    DEFERRED = "deferred"
    PROXY_FAILED = "proxy_failed"
    NO_PROXY = "no_proxy"
    LOGGED_OUT = "logged_out"
    NO_LOGIN = "no_login"
    LOGIN_FAILED = "login_failed"

    @property
    def tried(self) -> bool:
        """False if the page's host was not asked, or that is unknown: such an outcome counts as no
        fetch, retry, charge or progress, and shows nothing about the page or its host."""
        return self not in _NOT_TRIED

    @property
    def phrase(self) -> str:
        return _OUTCOMES[self][0]

    @property
    def blame(self) -> Blame:
        return _OUTCOMES[self][1]

    @classmethod
    def stored(cls, name: str | None) -> Outcome | None:
        """Returns the outcome of that name; None without a name, or for one of another version."""
        return cls(name) if name in set(cls) else None

    @classmethod
    def blame_of(cls, name: str | None) -> Blame:
        """Returns whom a stored outcome blames; `Blame.NOBODY` for one of another version."""
        outcome = cls.stored(name)
        return Blame.NOBODY if outcome is None else outcome.blame


_NOT_TRIED = frozenset(
    {
        Outcome.DEFERRED,
        Outcome.HOST_DOWN,
        Outcome.PROXY_FAILED,
        Outcome.NO_PROXY,
        Outcome.NO_LOGIN,
        Outcome.LOGIN_FAILED,
    }
)

_OUTCOMES: Mapping[Outcome, tuple[str, Blame]] = {
    Outcome.FETCHED: ("answered, with the expected content", Blame.NOBODY),
    Outcome.NOT_MODIFIED: (
        "the server says nothing changed (304), or sends the same bytes again",
        Blame.NOBODY,
    ),
    Outcome.FRESH: ("younger than the revisit age, not requested again", Blame.NOBODY),
    Outcome.NOT_FOUND: ("the server says it does not exist (404, 410)", Blame.PAGE),
    Outcome.REFUSED: ("the server refuses it (another 4xx; a 403 is retried once)", Blame.PAGE),
    Outcome.BLOCKED: (
        "blocked: a challenge page, a captcha, or a refusal of the client's IP address",
        Blame.HOST,
    ),
    Outcome.THROTTLED: (
        "the server asks us to slow down (429, or 503 with Retry-After)",
        Blame.HOST,
    ),
    Outcome.SERVER_ERROR: ("the server failed (5xx)", Blame.HOST),
    Outcome.TIMEOUT: ("no complete answer within the time allowed", Blame.HOST),
    Outcome.UNREACHABLE: ("no connection, or it broke off", Blame.HOST),
    Outcome.TLS: ("the certificate or the TLS handshake is not acceptable", Blame.HOST),
    Outcome.TOO_LARGE: ("the body is larger than allowed, packed or unpacked", Blame.PAGE),
    Outcome.REDIRECT_LOOP: ("it redirects in a circle or too often", Blame.PAGE),
    Outcome.OFF_SITE: ("it redirects to a host that is not the site's", Blame.PAGE),
    Outcome.FORBIDDEN_ADDRESS: (
        "its address is private, loopback, link-local or otherwise internal",
        Blame.PAGE,
    ),
    Outcome.ROBOTS_DISALLOWED: ("robots.txt disallows it", Blame.PAGE),
    Outcome.ROBOTS_UNAVAILABLE: (
        "robots.txt cannot be read, which disallows everything for now",
        Blame.HOST,
    ),
    Outcome.HOST_DOWN: (
        "not tried: its host has given no answer, or only blocks, for 15 minutes",
        Blame.HOST,
    ),
    Outcome.MALFORMED: ("the answer is not valid HTTP, or cannot be decoded", Blame.PAGE),
    Outcome.NOT_EXTRACTED: ("it answered, but required fields or links are missing", Blame.PARSER),
    Outcome.DOUBTFUL: (
        "it answered, but lacks most of its usual fields, or shows those of another page",
        Blame.PARSER,
    ),
    Outcome.TOO_SLOW: ("reading it took more time or memory than allowed", Blame.PAGE),
    Outcome.FUNCTION_FAILED: ("the site definition's own Python function raised", Blame.PARSER),
    Outcome.CRASHED: ("our own code failed on it", Blame.US),
    Outcome.WORKER_LOST: ("its worker died or froze while holding it", Blame.US),
    Outcome.DEFERRED: ("released before it was tried", Blame.US),
    Outcome.PROXY_FAILED: (
        "the proxies that were tried failed, not the page or its host",
        Blame.PROXY,
    ),
    Outcome.NO_PROXY: (
        "no proxy of its pool is free: it waits, and is never requested directly",
        Blame.PROXY,
    ),
    Outcome.LOGGED_OUT: ("it answered as to a visitor who is not logged in", Blame.PAGE),
    Outcome.NO_LOGIN: (
        "no account is logged in at the moment: it waits, and is never requested without",
        Blame.US,
    ),
    Outcome.LOGIN_FAILED: ("not tried: no account of its site can log in", Blame.US),
}


class ProxySignal(StrEnum):
    """What one request through a proxy says about that proxy. FAILED and BLOCKED may also be
    the fault of the host or the page: if several proxies agree it is, and if only one says so the
    proxy is at fault."""

    ANSWERED = "answered"
    # There was no answer: a timeout, a broken connection, or its own word that the host cannot be
    # reached.
    FAILED = "failed"
    # The host answered, and refuses the client's IP address.
    BLOCKED = "blocked"
    # The page lacks what it should have.
    LACKING = "pages lack what others have"
    # The same body came for another URL.
    REPEATED = "one page for all"
    # The proxy itself will not go to that host.
    DENIED = "denied"
    # The connection to the proxy, its TLS or its login fails, so that it serves no page.
    UNUSABLE = "unusable"
    # The result has nothing to do with the proxy.
    NEUTRAL = "neutral"


class Status(StrEnum):
    """A page's state in its crawl. Every status except `due` is final for that crawl; a leased page
    is due as well."""

    DUE = "due"
    OK = "ok"
    UNCHANGED = "unchanged"
    GONE = "gone"
    DEAD = "dead"
    INVALID = "invalid"
    DROPPED = "dropped"

    @property
    def final(self) -> bool:
        return self is not Status.DUE


class Verdict(NamedTuple):
    """What is done about an outcome: the page's next status, when it may be tried again, and who
    pays.

    `status` is DUE for a retry; `delay_s` counts from the database's clock when the verdict is
    stored; `charged` says whether the try is charged to whom the outcome blames: to the host's
    account, or else to the page's own.
    """

    status: Status
    delay_s: float
    charged: bool


class CrawlStatus(StrEnum):
    PLANNED = "planned"
    RUNNING = "running"
    COMPLETED = "completed"
    STOPPED = "stopped"
    FAILED = "failed"
    SKIPPED = "skipped"

    @property
    def active(self) -> bool:
        return self in (CrawlStatus.PLANNED, CrawlStatus.RUNNING)


class Validators(NamedTuple):
    """What a page's next answer is compared by: ETag and Last-Modified as the server sent them, and
    the hash of the body as it came (`http.body.hash_body`)."""

    etag: str | None = None
    last_modified: str | None = None
    body_hash: int | None = None


@value
class Fetched:
    """One answered page, all bounds already enforced.

    `url` is the final URL after redirects; `headers` has lower-case names; `body` is decompressed;
    `status` is the final answer's, any code; `conditional`: its request had validators, so that it
    may be 304. `captured`: bodies of answers that a browser got on the way, by the name that the
    definition gives them; `wire_bytes`: what it received of the page's resources, None without a
    browser. `body_hash` is the body's hash as a validator, if it was asked for; `same`: it equals
    the last reading's, and the body was not unpacked.
    """

    url: str
    status: int
    headers: Mapping[str, str]
    body: bytes
    elapsed_s: float = 0.0
    redirects: int = 0
    conditional: bool = False
    captured: Mapping[str, tuple[bytes, ...]] = field(default_factory=dict)
    wire_bytes: int | None = None
    body_hash: int | None = None
    same: bool = False


@value
class Link:
    """A page found on another page: an absolute http(s) URL without fragment and tracking
    parameters, ready to request."""

    url: str
    kind: Kind


class SitemapUrl(NamedTuple):
    """A product's page that a sitemap names, and when that was last modified by the sitemap."""

    url: str
    lastmod: datetime | None


@value
class Product:
    """A product as a page shows it: `data` maps field names to JSON values (Decimal for exact
    numbers).

    A price field `x` gives two keys: `x` (Decimal) and `x_currency` (ISO 4217 code or None).
    """

    external_id: str
    data: Mapping[str, Any]
    _content_hash: UUID | None = field(default=None, init=False, compare=False, repr=False)

    @property
    def content_hash(self) -> UUID:
        """The hash of `data` (`content_hash`), which is computed once."""
        hashed = self._content_hash
        if hashed is None:
            hashed = content_hash(self.data)
            object.__setattr__(self, "_content_hash", hashed)
        return hashed


def filled(data: Mapping[str, Any]) -> list[str]:
    """The keys that hold something: not null, not an empty text, list or mapping."""
    return [key for key, value in data.items() if value is not None and value not in ("", [], {})]


def as_json(value: object) -> bytes:
    """JSON, of dataclasses too. Decimals become exact numbers, digits kept."""
    return orjson.dumps(value, default=_decimal)


def _decimal(value: object) -> orjson.Fragment:
    if isinstance(value, Decimal):
        return orjson.Fragment(format(value, "f"))
    raise TypeError(f"{type(value).__name__} is not JSON")


def content_hash(data: Mapping[str, Any]) -> UUID:
    """Hash of a product's data: equal for equal values, whatever order the fields come in."""
    return UUID(bytes=blake2b(as_json(dict(sorted(data.items()))), digest_size=16).digest())


class Vote(NamedTuple):
    """Whether another source of a page (`jsonld`, `microdata`, `meta`) agrees with what a field was
    read as."""

    field: str
    source: str
    agrees: bool


@value
class ItemsRead:
    """What the products of a page with several say of themselves. `records`: how many were read;
    `by_id` names the fields that each had a value of its own for; `unread`: the ids of
    those that lack something required. `whole`: each has said its id, and none was left out, so
    that a product which is not among them is no longer on the page."""

    records: int
    by_id: Mapping[str, tuple[str, ...]]
    unread: tuple[str, ...] = ()
    whole: bool = True


# How many of a page's problems are shown.
PROBLEMS_SHOWN = 5


@value
class Extracted:
    """Everything one page gave. `problems` are short sentences for people: what is missing or
    malformed.

    `complete` is False when something required is missing: the page's outcome is then
    NOT_EXTRACTED, nothing is stored, and `problems` says what is missing. `partial` is True where
    links are known to be missing from a page that is otherwise good (a sitemap that breaks off):
    its crawl has not seen the whole catalogue.

    `found` names the fields for which the page gave a value of its own, complete or not (a default
    is none); `mistyped` those for which it gave something else than a value of their type.
    `goes_on`: a listing page that says itself that another follows it; `framed`: one without any
    link that is looked for has those of a menu; `ends`: a numbered page of the shop's without
    products, which ends its list. `disallowed`: links to listings that were left out for
    robots.txt. `votes`: what other sources say, on some pages.
    `items`: of a page that several products are read from. `named`: the product pages of a sitemap,
    whether it is followed or not.
    """

    links: list[Link] = field(default_factory=list)
    products: list[Product] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    complete: bool = True
    partial: bool = False
    found: tuple[str, ...] = ()
    mistyped: tuple[str, ...] = ()
    goes_on: bool = False
    framed: bool = False
    ends: bool = False
    disallowed: int = 0
    votes: tuple[Vote, ...] = ()
    items: ItemsRead | None = None
    named: list[SitemapUrl] = field(default_factory=list)

    @property
    def problems_text(self) -> str:
        """The first problems in a line; "": there are none."""
        return "; ".join(self.problems[:PROBLEMS_SHOWN])

    @property
    def fields_found(self) -> int:
        """The number of fields for which the page gave a value, in any of its products."""
        return len(set(self.found))


@dataclass(frozen=True, slots=True)
class Example:
    """A page on which a field was not found: the problem, and the excerpt that people look at.
    `cut`: the page is so long that its end was not searched for the excerpt."""

    field: str
    url: str
    problem: str
    excerpt: str
    cut: bool = False


@value
class FieldObservations:
    """What a product page said of its fields, for the crawl's figures. `records` is how many
    products were looked for on it; `found` and `mistyped` name a field once a record. `by_id`: what
    each of several products had."""

    records: int
    found: tuple[str, ...]
    mistyped: tuple[str, ...] = ()
    examples: tuple[Example, ...] = ()
    votes: tuple[Vote, ...] = ()
    by_id: Mapping[str, tuple[str, ...]] | None = None


@value
class LastReading:
    """What is known of a product page that was read before, and whose product is stored as it was
    then. `extractor_hash` names what read it (`ExtractorVersion`), `read_s` is how long ago;
    `product_id` is its only product's, None where it has several."""

    validators: Validators
    extractor_hash: int
    read_s: float
    product_id: str | None = None


@value
class LeasedPage:
    """A page in a lease, with what a worker needs to fetch and judge it.

    `level` is the capability that it has come to by itself in this crawl, above its host's;
    `blocked` how often it was blocked where it is; `probe` says that it is to find out whether a
    cheaper way is open again; `last_item_count` is how many products a listing named, or how many
    fields a product page had, when it was last believed; `good_before` says that its last answer
    gave all that was asked for; `last_content` is the hash of what was extracted when it was last
    read. `last_reading` is what a 304 would stand for; `again` says that its crawl has read all
    pages, and asks for a few of them again. `doubted` is the hash of what the last try gave, if
    that was doubted."""

    id: int
    crawl_id: int
    url: str
    kind: Kind
    host: str
    attempts: int
    host_attempts: int
    depth: int
    priority: int
    level: str | None = None
    blocked: int = 0
    probe: bool = False
    last_item_count: int = 0
    good_before: bool = False
    last_content: UUID | None = None
    last_reading: LastReading | None = None
    again: bool = False
    doubted: UUID | None = None

    def attempts_of(self, blame: Blame) -> int:
        """The tries charged so far to the account that an outcome with this blame is charged to."""
        return self.host_attempts if blame is Blame.HOST else self.attempts


@dataclass(frozen=True, slots=True)
class Lease:
    """A timed exclusive claim on pages, fetched together as one batch. Its id fences everything
    done in its name."""

    id: UUID
    kind: Kind
    queue: str
    pages: tuple[LeasedPage, ...]


@dataclass(frozen=True, slots=True)
class Message:
    """What a step wants sent after its commit: a task's name, its JSON arguments, and its queue."""

    task: str
    queue: str
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    priority: int = 0
    expires_s: float | None = None


@dataclass(frozen=True, slots=True)
class Move:
    """How a page that is due again goes on: its queue, its own level, how often it was blocked
    there, and whether it is to try a cheaper way for its host."""

    queue: str
    level: str | None = None
    blocked: int = 0
    probe: bool = False


NO_VALIDATORS = Validators()


@value
class Revisit:
    """What a good page keeps for its next visit: its validators, the hash of what extracted it
    (None: request it without validators), and its interval if the content changes or stays (None:
    the definition's)."""

    validators: Validators = NO_VALIDATORS
    extractor_hash: int | None = None
    if_changed_s: int | None = None
    if_unchanged_s: int | None = None
