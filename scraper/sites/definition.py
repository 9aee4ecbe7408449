"""`Site`: one shop's definition, validated. The schema of sites/*.yaml and of the snapshots in the
database. Pure.

A definition keeps what was written; the numbers that are meant are properties with their unit in
their name (`revisit_s`, `rate_per_s`). It refuses to import anybody's code:
`scraper.sites.functions` does that when asked.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cached_property, partial
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    field_validator,
    model_validator,
)

from scraper.domain import Kind
from scraper.rules import urls
from scraper.rules.browsers import BROWSER
from scraper.rules.escalation import ladder
from scraper.rules.quality import Tolerances
from scraper.rules.routing import ANY_REGION, Rule, Wishes
from scraper.sites.alert_rules import ALERTS_MAX, Alert, check_alerts
from scraper.sites.archive import Archive
from scraper.sites.blocked import Markers
from scraper.sites.browser import Rendering
from scraper.sites.browser import problems as browser_problems
from scraper.sites.dedup import Dedup, as_dedup, check_dedup
from scraper.sites.grammar import auto_fields, scalars
from scraper.sites.grammar.fields import (
    FieldName,
    FieldSpec,
    Function,
    IdSource,
    Links,
    Model,
    Pages,
    Regex,
    alternatives,
    as_css,
    checked,
    path_problem,
    to_text,
    wrong,
)
from scraper.sites.grammar.items import Items
from scraper.sites.grammar.selectors import compile_regex
from scraper.sites.login import Login, problems_of
from scraper.sites.quality import Quality, judges_nothing
from scraper.sites.revisit import BELIEVED, Conditional, Revisit, RevisitBounds

MATCH_TIMEOUT_S = 0.1
NETWORKS_MAX = 50
# Keys that change nothing of what is sent for a product page or read from it: where it is found,
# when and how often.
_NOT_READING = (
    *(
        "title",
        "tags",
        "enabled",
        "start",
        "sitemap",
        "hosts",
        "listing",
        "priority",
        "schedule",
        "timezone",
    ),
    *("rate", "concurrency", "burst", "revisit", "conditional", "archive", "dedup", "robots"),
    *("limits", "quality", "platform", "alerts"),
)
NOWHERE = "nowhere to start (mend: give `start:` or `sitemap:`)"
Text = Annotated[str, BeforeValidator(to_text, json_schema_input_type=str | int | float)]
StartUrl = Annotated[str, AfterValidator(scalars.check_start_url)]
Queue = Annotated[
    str, Field(pattern=r"^[a-z][a-z0-9_-]{0,62}$"), AfterValidator(scalars.check_queue)
]
Region = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,30}$")]
Priority = Annotated[Text, AfterValidator(partial(checked, scalars.priority_number))]
Tag = Annotated[str, Field(pattern=r"^[A-Za-z0-9][\w.-]{0,39}$")]


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _obeys(value: Any) -> Any:
    return {"obey": True, "ignore": False}.get(value, value) if isinstance(value, str) else value


def _as_sitemap(value: Any) -> Any:
    if isinstance(value, str | list):
        return {"urls": value}
    if isinstance(value, dict) and "url" in value:
        return {
            "urls": value["url"],
            **{key: given for key, given in value.items() if key != "url"},
        }
    return value


def _as_private(value: Any) -> bool | tuple[str, ...]:
    if isinstance(value, bool):
        return value
    listed = _as_list(value)
    if not isinstance(listed, list | tuple) or not listed or len(listed) > NETWORKS_MAX:
        raise ValueError(
            f"neither true, false nor 1 to {NETWORKS_MAX} networks "
            "(mend: `true` opens the site's own hosts, `[10.1.0.0/16]` a network)"
        )
    return tuple(scalars.check_network(str(network)) for network in listed)


_STRINGS = BeforeValidator(_as_list, json_schema_input_type=str | list[str])
PrivateNetworks = Annotated[
    bool | tuple[str, ...], BeforeValidator(_as_private, json_schema_input_type=bool | list[str])
]
UrlList = Annotated[tuple[StartUrl, ...], _STRINGS, Field(max_length=10_000)]


class Sitemap(Model):
    """Where the shop lists its own pages."""

    urls: UrlList = Field(
        min_length=1, description="sitemaps, sitemap indexes, or robots.txt (its Sitemap: lines)"
    )
    products: Regex | None = Field(
        None, description="product URLs; default: all that `listings` does not take"
    )
    listings: Regex | None = Field(None, description="listing URLs; default: none")


NO_PROXY = "none"
# An identity lasts so long where the definition does not say.
STICKY_S, STICKY_REQUESTS = 600.0, 100


class ProxyUse(Model):
    """Which proxies, and for how long one visitor keeps theirs."""

    pool: Literal["none", "datacenter", "residential"] = Field(
        description="the class of proxy; none: no proxy"
    )
    sticky: Annotated[Text, AfterValidator(partial(checked, scalars.seconds))] | None = Field(
        None,
        description="how long an identity (proxy, cookies, headers) lasts: 10m; 0: each page "
        "another",
    )
    requests: int | None = Field(
        None, ge=1, le=1_000_000, description="pages after which an identity ends at the latest"
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.pool == NO_PROXY and (self.sticky is not None or self.requests is not None):
            raise wrong(
                (
                    "pool",
                    "without a proxy there is no identity to keep (mend: remove sticky and "
                    "requests)",
                )
            )
        return self

    @property
    def sticky_s(self) -> float:
        """0: an identity is one page's. Residential ones last even where nothing is said."""
        if self.sticky is not None:
            return scalars.seconds(self.sticky)
        return STICKY_S if self.requests or self.pool == "residential" else 0.0

    @property
    def sticky_requests(self) -> int:
        return self.requests or STICKY_REQUESTS


def _as_proxy(value: Any) -> Any:
    return {"pool": value} if isinstance(value, str) else value


Proxy = Annotated[
    ProxyUse,
    BeforeValidator(
        _as_proxy, json_schema_input_type=Literal["none", "datacenter", "residential"] | ProxyUse
    ),
]


class Listing(Model):
    """What is taken from listing pages."""

    products: Links = Field((), description="links to product pages")
    listings: Links = Field((), description="links to further listing pages, such as categories")
    next: Links = Field((), description="the link to the next listing page")
    pages: Pages | None = Field(None, description="numbered listing pages")
    function: Function | None = Field(
        None, description="`module:function`, in place of or beside the selectors"
    )
    queue: Queue | None = Field(
        None, description="for listing pages and sitemaps; default: the site's"
    )
    proxy: Proxy | None = Field(
        None, description="for listing pages and sitemaps; default: the site's"
    )

    @model_validator(mode="after")
    def _not_empty(self) -> Self:
        if not (self.products or self.listings or self.function):
            raise wrong(("", "finds no links (mend: give products, listings or function)"))
        return self


class ProductPage(Model):
    """What is taken from product pages."""

    id: (
        Annotated[IdSource, BeforeValidator(as_css, json_schema_input_type=str | IdSource)] | None
    ) = Field(None, description="the shop's own id; default: the URL")
    fields: Annotated[
        dict[
            FieldName,
            Annotated[FieldSpec, BeforeValidator(as_css, json_schema_input_type=str | FieldSpec)],
        ],
        BeforeValidator(
            auto_fields.as_fields,
            json_schema_input_type=Literal["auto"] | dict[FieldName, str | FieldSpec],
        ),
    ] = Field(
        default_factory=dict, max_length=500, description="name -> CSS, auto, or a mapping; or auto"
    )
    items: Annotated[
        Items | None, BeforeValidator(as_css, json_schema_input_type=str | Items | None)
    ] = Field(
        None, description="several products on a page, such as variants; `fields` are all of theirs"
    )
    function: Function | None = Field(None, description="`module:function`, in place of fields")
    queue: Queue | None = Field(None, description="for product pages; default: the site's")
    proxy: Proxy | None = Field(None, description="for product pages; default: the site's")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        problems = []
        named = self.all_fields
        if not named and self.function is None:
            problems.append(
                ("", "has no fields (mend: `fields:` with at least one, or `function:`)")
            )
        if self.function is not None and (self.fields or self.id is not None or self.items):
            problems.append((
                "function",
                "takes the place of id, fields and items (mend: remove it, or remove them)",
            ))  # fmt: skip
        if "id" in self.fields:
            problems.append(
                ("fields.id", "the id has a place of its own (mend: move it to `product.id`)")
            )
        problems += self._items_problems()
        for name, spec in named.items():
            key = f"fields.{name}" if name in self.fields else f"items.fields.{name}"
            if spec.type == "price" and f"{name}_currency" in named:
                problems.append((
                    f"{key}_currency",
                    f"the price {name} already gives {name}_currency (mend: remove it, or use "
                    f"another name)",
                ))  # fmt: skip
            if spec.auto_read and f"{name}_confidence" in named:
                problems.append((
                    f"fields.{name}_confidence",
                    f"`auto` already gives {name}_confidence (mend: use another name)",
                ))  # fmt: skip
        sources = alternatives("id", self.id) if self.id is not None else {}
        for name, spec in self.fields.items():
            sources |= alternatives(f"fields.{name}", spec)
        for key, source in sources.items():
            if source.described.startswith("path "):
                problems.append((f"{key}.path", path_problem(None)[1]))
        if problems:
            raise wrong(*problems)
        return self

    def _items_problems(self) -> list[tuple[str, str]]:
        if self.items is None:
            return []
        problems: list[tuple[str, str]] = []
        for name, spec in self.items.fields.items():
            of_page = self.fields.get(name)
            if of_page is None:
                continue
            if not self.items.optional:
                text = "is a field of the page, too (mend: keep one of the two)"
                problems.append((f"items.fields.{name}", text))
            elif of_page.type != spec.type:
                text = f"is of type {of_page.type} on pages without items (mend: one type for both)"
                problems.append((f"items.fields.{name}", text))
        if "id" in self.items.fields:
            mend = "move it to `product.items.id`"
            problems.append(("items.fields.id", f"the id has a place of its own (mend: {mend})"))
        if self.id is not None and not self.items.optional:
            problems.append(("id", (
                "with `items` each product has its own, `items.id` (mend: remove it; or write "
                "`items: {optional: true}` where pages without any are products, too)"
            )))  # fmt: skip
        return problems

    @property
    def all_fields(self) -> dict[str, FieldSpec]:
        """Those of the page and those of its items, by their names in the stored product."""
        return {**self.fields, **self.own_fields} if self.items is not None else self.fields

    @property
    def own_fields(self) -> dict[str, FieldSpec]:
        """Those of its items; none where a page has one product."""
        return self.items.fields if self.items is not None else {}

    @property
    def required(self) -> list[str]:
        return [name for name, spec in self.all_fields.items() if spec.required]


def _as_levels(value: Any) -> Any:
    value = [value] if isinstance(value, str) else value
    return [] if value == ["none"] else value


Escalate = Annotated[
    tuple[Literal["residential", "browser"], ...],
    BeforeValidator(
        _as_levels,
        json_schema_input_type=Literal["none", "residential", "browser"]
        | list[Literal["residential", "browser"]],
    ),
]


class RouteRule(Model):
    """Pages that go another way than the rest of their site."""

    match: Regex = Field(description="a regular expression: pages in whose URL it is found")
    queue: Queue | None = Field(None, description="default: the site's")
    region: Region | None = Field(None, description="default: the site's; any: no matter where")
    priority: Priority | None = Field(None, description="default: the site's")

    @model_validator(mode="after")
    def _changes_something(self) -> Self:
        if self.queue is self.region is self.priority is None:
            raise wrong(
                (
                    "",
                    "a route that changes nothing (mend: give it queue, region or priority, "
                    "or remove it)",
                )
            )
        return self

    @property
    def rule(self) -> Rule:
        """Compiled. A URL that its pattern takes too long for goes the site's way."""
        pattern = compile_regex(self.match)

        def matches(url: str) -> bool:
            try:
                return pattern.search(url, timeout=MATCH_TIMEOUT_S) is not None
            except TimeoutError:
                return False

        priority = None if self.priority is None else scalars.priority_number(self.priority)
        return Rule(matches, self.queue, self.region, priority)


class Limits(Model):
    """What one crawl may grow to."""

    listings: int = Field(10_000, ge=1, le=10_000_000, description="listing pages")
    products: int = Field(1_000_000, ge=1, le=1_000_000_000, description="product pages")
    fruitless: int = Field(
        20,
        ge=1,
        le=6000,
        description="listing pages in a row without a new product, after which they are not "
        "followed",
    )
    attempts: int | None = Field(
        None,
        ge=1,
        le=20,
        description="tries of a page, twice as many where its host is to blame; default: "
        "SCRAPER_ATTEMPTS_MAX",
    )
    body: int | None = Field(
        None,
        ge=1000,
        le=1_000_000_000,
        description="bytes unpacked; default: SCRAPER_BODY_MAX_BYTES",
    )


class Site(Model):
    """One shop."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$", description="default: the file's name")
    title: str = Field("", max_length=200, description="for people")
    tags: Annotated[tuple[Tag, ...], _STRINGS] = Field(
        (), max_length=20, description="words such as garden, by which the Crawls tab is filtered"
    )
    enabled: bool = Field(True, description="false: never crawled by schedule")
    start: UrlList = Field(
        (), description="listing pages to start from; `start` or `sitemap` is needed"
    )
    sitemap: (
        Annotated[
            Sitemap, BeforeValidator(_as_sitemap, json_schema_input_type=str | list[str] | Sitemap)
        ]
        | None
    ) = Field(None, description="or: its sitemaps")
    platform: Literal["shopify", "woocommerce", "magento"] | None = Field(
        None, description="products by that platform's own interface, where it is open"
    )
    hosts: Annotated[tuple[Annotated[str, AfterValidator(scalars.check_host)], ...], _STRINGS] = (
        Field(
            (),
            description="further hosts of the site, with what is below them; "
            "links to others are not followed",
        )
    )
    queue: Queue = Field(
        "datacenter", description="which workers: datacenter, residential, or a name of your own"
    )
    region: Region | None = Field(None, description="such as eu; default: any")
    proxy: Proxy = Field(
        ProxyUse.model_validate({"pool": NO_PROXY}),
        description="none, datacenter, residential, or a mapping",
    )
    escalate: Escalate = Field(
        (),
        description="where pages go on that are blocked: residential, browser, or both; "
        "default: nowhere",
    )
    blocked: Markers = Field(
        (),
        description="what a page shows that is a block: texts, or mappings; beside what is known",
    )
    login: Login | None = Field(
        None, description="how accounts log in, for pages that are only theirs to see"
    )
    priority: Priority = Field("normal", description="high, normal, low, or 0 (last) to 9 (first)")
    routes: tuple[RouteRule, ...] = Field(
        (), max_length=100, description="other ways for some pages: the first that matches"
    )
    schedule: Annotated[str, AfterValidator(scalars.check_cron)] | None = Field(
        None, description="cron, five fields, in quotes; default: crawled only by hand"
    )
    timezone: Annotated[str, AfterValidator(scalars.check_timezone)] = Field(
        "UTC", description="of the schedule"
    )
    rate: Annotated[Text, AfterValidator(partial(checked, scalars.per_second))] = Field(
        "4/s", description="requests to a host, whole fleet: 60/m, 2/s, unlimited"
    )
    concurrency: int = Field(
        4, ge=1, le=1000, description="requests at once to a host, whole fleet"
    )
    burst: int = Field(
        1, ge=1, le=1000, description="requests that may leave right after each other after a pause"
    )
    revisit: Revisit = Field(
        RevisitBounds(min="7d", max="7d"),
        description="how old a product's data may be before it is fetched again: 7d, 12h, 0, "
        "or {min: 6h, max: 14d}",
    )
    conditional: Conditional = Field(
        BELIEVED,
        description="ask product pages whether they have changed; a time: for how long that "
        "is believed; false: never ask",
    )
    dedup: Annotated[
        Dedup, BeforeValidator(as_dedup, json_schema_input_type=Literal["exact", "bloom"] | Dedup)
    ] = Field(
        Dedup.model_validate({"by": "exact"}),
        description="exact, or bloom: how pages fetched before are told apart",
    )
    robots: Annotated[
        bool, BeforeValidator(_obeys, json_schema_input_type=bool | Literal["obey", "ignore"])
    ] = Field(True, description="obey robots.txt")
    allow_private: PrivateNetworks = Field(
        False,
        description="true: the site's own hosts may have private addresses; or the networks that "
        "any host may be in",
    )
    user_agent: str | None = Field(
        None,
        min_length=1,
        max_length=500,
        description="a text, or browser: the headers of one; default: SCRAPER_USER_AGENT",
    )
    headers: dict[str, Text] = Field(
        default_factory=dict, max_length=50, description="further request headers"
    )
    impersonate: Literal["chrome", "firefox", "safari", "any"] | None = Field(
        None,
        description="the browser whose TLS, HTTP/2 and headers are sent",
    )
    http2: bool = Field(False, description="HTTP/2 where the host speaks it")
    cookies: Literal["page", "keep"] = Field(
        "page",
        description="keep: from page to page, by each worker process for itself; page: for "
        "its redirects alone",
    )
    browser: Rendering | None = Field(
        None, description="how browser workers show pages before they are read"
    )
    strip_params: Annotated[tuple[str, ...], _STRINGS] = Field(
        (), description="query parameters to drop; * allowed"
    )
    keep_params: Annotated[tuple[str, ...], _STRINGS] = Field(
        (), description="tracking parameters to keep; * allowed"
    )
    trailing_slash: Literal["keep", "strip"] = Field(
        "keep", description="strip: /a/ and /a are one page"
    )
    limits: Limits = Field(
        Limits.model_validate({}), description="what one crawl may grow to, and its pages"
    )
    quality: Annotated[
        Quality, BeforeValidator(judges_nothing, json_schema_input_type=Literal["none"] | Quality)
    ] = Field(Quality.model_validate({}), description="what makes a crawl suspect; none: nothing")
    archive: Archive = Field(
        None, description="true, or a mapping: raw pages are kept; default: none are"
    )
    alerts: Annotated[tuple[Alert, ...], AfterValidator(check_alerts)] = Field(
        (), max_length=ALERTS_MAX, description="which changes of products people are told of"
    )
    listing: Listing | None = Field(
        None, description="what is taken from listing pages; needed with `start`"
    )
    product: ProductPage = Field(description="what is taken from product pages")

    @field_validator("region", mode="before")
    @classmethod
    def _any_region(cls, value: Any) -> Any:
        return None if value == "any" else value

    @field_validator("headers")
    @classmethod
    def _safe_headers(cls, value: dict[str, str]) -> dict[str, str]:
        for name, text in value.items():
            scalars.check_header(name, text)
        return value

    @field_validator("user_agent")
    @classmethod
    def _safe_user_agent(cls, value: str | None) -> str | None:
        scalars.check_header_value("user_agent", value or "")
        return value

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        problems = check_dedup(self.dedup, self.revisit_s)
        if not self.start and self.sitemap is None:
            problems.append(("", NOWHERE))
        if self.start and self.listing is None:
            problems.append(
                (
                    "start",
                    "start pages are listing pages, but there is no `listing:` (mend: add it)",
                )
            )
        if self.sitemap is not None and self.sitemap.listings is not None and self.listing is None:
            problems.append(
                (
                    "sitemap.listings",
                    "there is no `listing:` that says what they hold (mend: add it)",
                )
            )
        starts = {self.queue_of(kind) for kind in Kind} | {
            rule.queue for rule in self.routes if rule.queue
        }
        if self.escalate and all(len(ladder(start, self.escalate)) == 1 for start in starts):
            way = " or ".join(sorted(starts))
            problems.append(
                (
                    "escalate",
                    f"leads nowhere: pages start at {way} (mend: name a level above, or remove it)",
                )
            )
        problems += browser_problems(self.browser, starts, self.escalate, self._sources)
        if self.impersonate is not None and self.user_agent not in (None, BROWSER):
            problems.append(("user_agent", (
                f"does not go with `impersonate: {self.impersonate}`, which sends the "
                f"User-Agent that fits its TLS (mend: "
                "remove it)"
            )))  # fmt: skip
        if self.cookies == "keep" and any(self.proxy_of(kind).pool != NO_PROXY for kind in Kind):
            problems.append(("cookies", (
                "behind a proxy cookies belong to its identity (mend: remove `cookies`, and give "
                "`proxy: {pool: …, sticky: 10m}`)"
            )))  # fmt: skip
        if self.login is not None:
            pools: set[str] = {self.proxy_of(kind).pool for kind in Kind}
            problems += problems_of(self.login, self.allowed_hosts, urls.belongs, pools)
        if problems:
            raise wrong(*problems)
        return self

    @property
    def _sources(self) -> dict[str, Any]:
        """What fields and links are read from, by its key."""
        sources: dict[str, Any] = {}
        named: list[tuple[str, Any]] = [
            (f"product.fields.{name}", spec) for name, spec in self.product.fields.items()
        ]
        if self.product.id is not None:
            named.append(("product.id", self.product.id))
        if self.product.items is not None:
            sources["product.items"] = self.product.items
        for key, source in named:
            sources[key] = source
            sources |= {f"{key}.any[{at}]": part for at, part in enumerate(source.any)}
        if self.listing is not None:
            for key in ("products", "listings", "next"):
                sources |= {
                    f"listing.{key}[{at}]": part
                    for at, part in enumerate(getattr(self.listing, key))
                }
        return sources

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy without what was computed from the original."""
        copied = super().model_copy(update=update, deep=deep)
        for name in (
            "wishes",
            "url_rules",
            "allowed_hosts",
            "content_hash",
            "reading",
            "conditional_s",
        ):
            copied.__dict__.pop(name, None)
        return copied

    def queue_of(self, kind: Kind) -> str:
        """The capability that pages of this kind ask for."""
        own = (
            self.product.queue
            if kind is Kind.PRODUCT
            else self.listing.queue
            if self.listing
            else None
        )
        return own or self.queue

    def proxy_of(self, kind: Kind) -> ProxyUse:
        """The proxies that pages of this kind go through."""
        own = (
            self.product.proxy
            if kind is Kind.PRODUCT
            else self.listing.proxy
            if self.listing
            else None
        )
        return own or self.proxy

    @property
    def login_url(self) -> str:
        """Where the login begins, or would: what it names, else the site's start."""
        assert self.login is not None
        return self.login.url or self.starts[0]

    @property
    def starts(self) -> tuple[str, ...]:
        return (*self.start, *(self.sitemap.urls if self.sitemap else ()))

    @property
    def account_group(self) -> str:
        """The group of the secrets file whose accounts log in."""
        assert self.login is not None
        return self.login.accounts or self.name

    @property
    def priority_number(self) -> int:
        return scalars.priority_number(self.priority)

    @property
    def rate_per_s(self) -> float | None:
        """Requests a second to one host by the whole fleet; None is unlimited."""
        return scalars.per_second(self.rate)

    @property
    def revisit_s(self) -> float:
        """The shortest time after which a product page is fetched again."""
        return self.revisit.bounds.min_s

    @cached_property
    def conditional_s(self) -> float:
        """For how long a product page need not be read whole; 0: it always is."""
        return scalars.seconds(self.conditional)

    @property
    def tolerances(self) -> Tolerances:
        """What `scraper.rules.quality` needs to know of the site."""
        return self.quality.tolerances(
            {
                name: {"floor": spec.floor, "required": spec.required, "type": spec.type}
                for name, spec in self.product.all_fields.items()
            }
        )

    @cached_property
    def wishes(self) -> Wishes:
        """What `scraper.rules.routing.route` needs to know of the site."""
        capabilities = {kind: self.queue_of(kind) for kind in Kind}
        rules = tuple(route.rule for route in self.routes)
        return Wishes(
            capabilities, self.region or ANY_REGION, self.priority_number, rules, self.escalate
        )

    @cached_property
    def url_rules(self) -> urls.UrlRules:
        return urls.UrlRules(
            tuple(self.strip_params), tuple(self.keep_params), self.trailing_slash == "strip"
        )

    @cached_property
    def allowed_hosts(self) -> frozenset[str]:
        """The hosts that belong to the site; those below them do too (`urls.belongs`)."""
        given = [urls.host_of(url) for url in self.starts]
        return frozenset((*map(_without_www, given), *self.hosts))

    @property
    def private_hosts(self) -> frozenset[tuple[str, int | None]]:
        """(name, port) of the hosts that may have private addresses, a port of None being every
        port. An address where the site starts is meant with its own port, or with those of http
        and https."""
        if self.allow_private is not True:
            return frozenset()
        given = {
            (name, port)
            for url in self.starts
            for name, own in [urls.name_and_port(_without_www(urls.host_of(url)))]
            for port in ([own] if own else urls.DEFAULT_PORTS.values())
        }
        return frozenset((*given, *map(urls.name_and_port, self.hosts)))

    def owns(self, url: str) -> bool:
        """True for a URL on one of the site's hosts."""
        return urls.belongs(urls.host_of(url), self.allowed_hosts)

    @cached_property
    def content_hash(self) -> str:
        """SHA-256 of the canonical JSON: equal for equal definitions, in any process."""
        data = json.dumps(
            self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"), ensure_ascii=True
        )
        return hashlib.sha256(data.encode()).hexdigest()

    @cached_property
    def reading(self) -> str:
        """The canonical JSON of what decides which product a page gives: all but what certainly
        does not."""
        data = self.model_dump(mode="json", exclude=set(_NOT_READING))
        return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def _without_www(host: str) -> str:
    bare = host.removeprefix("www.")
    return bare if "." in bare else host
