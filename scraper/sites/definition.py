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
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeVar, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    field_validator,
    model_validator,
)

from scraper import registry
from scraper.domain import Kind
from scraper.rules import urls
from scraper.rules.escalation import build_ladder
from scraper.rules.quality import Tolerances
from scraper.rules.routing import ANY_REGION, RoutingPreferences
from scraper.sites.blocked import Markers
from scraper.sites.grammar import scalars
from scraper.sites.grammar.model import STRINGS, Model, Problems, Text, as_list, run_check
from scraper.sites.grammar.page_specs import (
    Listing,
    ProductPage,
    Sitemap,
    UrlList,
)
from scraper.sites.grammar.routes import (
    NO_PROXY,
    Escalate,
    Priority,
    Proxy,
    ProxyUse,
    Queue,
    Region,
    RouteRule,
)
from scraper.sites.plugin_keys import DefinitionKeys
from scraper.sites.quality import Quality, expand_none
from scraper.sites.revisit import BELIEVED, Conditional, Revisit, RevisitBounds

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
    *("rate", "concurrency", "burst", "revisit", "conditional", "robots"),
    *("limits", "quality"),
)
NOWHERE = "nowhere to start (fix: give `start:` or `sitemap:`)"
KeysT = TypeVar("KeysT", bound=DefinitionKeys)
Tag = Annotated[str, Field(pattern=r"^[A-Za-z0-9][\w.-]{0,39}$")]


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
    listed = as_list(value)
    if not isinstance(listed, list | tuple) or not listed or len(listed) > NETWORKS_MAX:
        raise ValueError(
            f"neither true, false nor 1 to {NETWORKS_MAX} networks "
            "(fix: `true` opens the site's own hosts, `[10.1.0.0/16]` a network)"
        )
    return tuple(scalars.check_network(str(network)) for network in listed)


PrivateNetworks = Annotated[
    bool | tuple[str, ...], BeforeValidator(_as_private, json_schema_input_type=bool | list[str])
]


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


class CoreSite(Model):
    """The keys of the core."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$", description="default: the file's name")
    title: str = Field("", max_length=200, description="for people")
    tags: Annotated[tuple[Tag, ...], STRINGS] = Field(
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
    hosts: Annotated[tuple[Annotated[str, AfterValidator(scalars.check_host)], ...], STRINGS] = (
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
    rate: Annotated[Text, AfterValidator(partial(run_check, scalars.parse_rate))] = Field(
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
    cookies: Literal["page", "keep"] = Field(
        "page",
        description="keep: from page to page, by each worker process for itself; page: for "
        "its redirects alone",
    )
    strip_params: Annotated[tuple[str, ...], STRINGS] = Field(
        (), description="query parameters to drop; * allowed"
    )
    keep_params: Annotated[tuple[str, ...], STRINGS] = Field(
        (), description="tracking parameters to keep; * allowed"
    )
    trailing_slash: Literal["keep", "strip"] = Field(
        "keep", description="strip: /a/ and /a are one page"
    )
    limits: Limits = Field(
        Limits.model_validate({}), description="what one crawl may grow to, and its pages"
    )
    quality: Annotated[
        Quality, BeforeValidator(expand_none, json_schema_input_type=Literal["none"] | Quality)
    ] = Field(Quality.model_validate({}), description="what makes a crawl suspect; none: nothing")
    listing: Listing | None = Field(
        None, description="what is taken from listing pages; needed with `start`"
    )
    product: ProductPage = Field(description="what is taken from product pages")

    @model_validator(mode="before")
    @classmethod
    def _without_unused_keys(cls, data: Any) -> Any:
        """Drops the keys of plug-ins that are off where they say what they say by default, as in
        the definitions that the database holds."""
        if not isinstance(data, dict):
            return data
        defaults = registry.inactive_defaults()
        return {
            key: value
            for key, value in data.items()
            if key not in defaults or value != defaults[key]
        }

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
        problems = Problems()
        if not self.start and self.sitemap is None:
            problems.add("", NOWHERE)
        if self.start and self.listing is None:
            problems.add(
                "start", "start pages are listing pages, but there is no `listing:` (fix: add it)"
            )
        if self.sitemap is not None and self.sitemap.listings is not None and self.listing is None:
            problems.add(
                "sitemap.listings", "there is no `listing:` that says what they hold (fix: add it)"
            )
        queues = self.queues
        if self.escalate and all(len(build_ladder(queue, self.escalate)) == 1 for queue in queues):
            way = " or ".join(sorted(queues))
            problems.add(
                "escalate",
                f"leads nowhere: pages start at {way} (fix: name a level above, or remove it)",
            )
        if self.cookies == "keep" and any(self.proxy_of(kind).pool != NO_PROXY for kind in Kind):
            problems.add(
                "cookies",
                "behind a proxy cookies belong to its identity (fix: remove `cookies`, and give "
                "`proxy: {pool: …, sticky: 10m}`)",
            )
        for part in type(self).__mro__:
            if issubclass(part, DefinitionKeys) and "check" in vars(part):
                part.check(cast("Site", self), problems)
        problems.raise_any()
        return self

    @property
    def sources(self) -> dict[str, Any]:
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
            "routing_preferences",
            "url_rules",
            "allowed_hosts",
            "content_hash",
            "reading",
            "conditional_s",
        ):
            copied.__dict__.pop(name, None)
        return copied

    @property
    def queues(self) -> set[str]:
        """The queues at which pages start."""
        return {self.queue_of(kind) for kind in Kind} | {
            rule.queue for rule in self.routes if rule.queue
        }

    def queue_of(self, kind: Kind) -> str:
        """The capability that pages of this kind ask for."""
        part = self._part_of(kind)
        return (part and part.queue) or self.queue

    def proxy_of(self, kind: Kind) -> ProxyUse:
        """The proxies that pages of this kind go through."""
        part = self._part_of(kind)
        return (part and part.proxy) or self.proxy

    def _part_of(self, kind: Kind) -> Listing | ProductPage | None:
        return self.product if kind is Kind.PRODUCT else self.listing

    @property
    def starts(self) -> tuple[str, ...]:
        return (*self.start, *(self.sitemap.urls if self.sitemap else ()))

    @property
    def priority_number(self) -> int:
        return scalars.parse_priority(self.priority)

    @property
    def rate_per_s(self) -> float | None:
        """Requests a second to one host by the whole fleet; None is unlimited."""
        return scalars.parse_rate(self.rate)

    @property
    def revisit_s(self) -> float:
        """The shortest time after which a product page is fetched again."""
        return self.revisit.bounds.min_s

    @cached_property
    def conditional_s(self) -> float:
        """For how long a product page need not be read whole; 0: it always is."""
        return scalars.parse_duration(self.conditional)

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
    def routing_preferences(self) -> RoutingPreferences:
        """What `scraper.rules.routing.choose_route` needs to know of the site."""
        capabilities = {kind: self.queue_of(kind) for kind in Kind}
        rules = tuple(route.rule for route in self.routes)
        return RoutingPreferences(
            capabilities, self.region or ANY_REGION, self.priority_number, rules, self.escalate
        )

    @cached_property
    def url_rules(self) -> urls.UrlRules:
        return urls.UrlRules(
            tuple(self.strip_params), tuple(self.keep_params), self.trailing_slash == "strip"
        )

    @cached_property
    def allowed_hosts(self) -> frozenset[str]:
        """The hosts that belong to the site; those below them do too (`urls.belongs_to`)."""
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
            for name, own in [urls.split_host(_without_www(urls.host_of(url)))]
            for port in ([own] if own else urls.DEFAULT_PORTS.values())
        }
        return frozenset((*given, *map(urls.split_host, self.hosts)))

    def of(self, keys: type[KeysT]) -> KeysT:
        """This site's keys of a plug-in, which names its class of them."""
        assert isinstance(self, keys), f"{keys.__name__} belongs to a plug-in that is off"
        return self

    def owns(self, url: str) -> bool:
        """True for a URL on one of the site's hosts."""
        return urls.belongs_to(urls.host_of(url), self.allowed_hosts)

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
        excluded = {*_NOT_READING, *_keys_beside_reading(type(self))}
        data = self.model_dump(mode="json", exclude=excluded)
        return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def _keys_beside_reading(site: type[BaseModel]) -> set[str]:
    """The keys of plug-ins that change nothing of what a product page gives."""
    parts = [part for part in site.__mro__ if issubclass(part, DefinitionKeys)]
    return {
        key for part in parts for key in part.__annotations__ if key not in part.reading_keys
    } & site.model_fields.keys()


if TYPE_CHECKING:

    class Site(CoreSite):
        """One shop, with the keys of the core and of the plug-ins that are on."""

else:
    Site = registry.extended("Site", CoreSite, "keys")


def plugin_places() -> dict[str, type[BaseModel]]:
    """The models of the mappings that plug-ins' keys hold, by dotted key."""
    parts = [part for part in Site.__mro__ if issubclass(part, DefinitionKeys)]
    return {place: model for part in parts for place, model in part.places.items()}


def _without_www(host: str) -> str:
    bare = host.removeprefix("www.")
    return bare if "." in bare else host
