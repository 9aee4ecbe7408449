"""`Site`: the validated definition of one shop. The schema of sites/*.yaml and of the snapshots in
the database. Pure.

A definition keeps what was written; properties with units in their names give the numbers
(`revisit_s`, `rate_per_s`). It never imports user code: `scraper.sites.functions` does that.
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
# Keys that affect neither the request for a product page nor what is read from it: where pages are
# found, when and how often.
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


def _expand_robots(value: Any) -> Any:
    return {"obey": True, "ignore": False}.get(value, value) if isinstance(value, str) else value


def _expand_sitemap(value: Any) -> Any:
    if isinstance(value, str | list):
        return {"urls": value}
    if isinstance(value, dict) and "url" in value:
        return {
            "urls": value["url"],
            **{key: given for key, given in value.items() if key != "url"},
        }
    return value


def _expand_private(value: Any) -> bool | tuple[str, ...]:
    if isinstance(value, bool):
        return value
    listed = as_list(value)
    if not isinstance(listed, list | tuple) or not listed or len(listed) > NETWORKS_MAX:
        raise ValueError(
            f"neither true, false nor 1 to {NETWORKS_MAX} networks "
            "(fix: `true` allows the site's own hosts, `[10.1.0.0/16]` a network)"
        )
    return tuple(scalars.check_network(str(network)) for network in listed)


PrivateNetworks = Annotated[
    bool | tuple[str, ...],
    BeforeValidator(_expand_private, json_schema_input_type=bool | list[str]),
]


class Limits(Model):
    """The limits of one crawl."""

    listings: int = Field(10_000, ge=1, le=10_000_000, description="listing pages")
    products: int = Field(1_000_000, ge=1, le=1_000_000_000, description="product pages")
    fruitless: int = Field(
        20,
        ge=1,
        le=6000,
        description="listing pages in a row without a new product, after which pagination is not "
        "followed",
    )
    attempts: int | None = Field(
        None,
        ge=1,
        le=20,
        description="attempts of a page, twice as many if its host is at fault; default: "
        "SCRAPER_ATTEMPTS_MAX",
    )
    body: int | None = Field(
        None,
        ge=1000,
        le=1_000_000_000,
        description="bytes of an unpacked body; default: SCRAPER_BODY_MAX_BYTES",
    )


class CoreSite(Model):
    """The keys of the core, and what follows from them."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$", description="default: the file's name")
    title: str = Field("", max_length=200, description="a name for people to read")
    tags: Annotated[tuple[Tag, ...], STRINGS] = Field(
        (), max_length=20, description="words such as garden, for filters in the Crawls tab"
    )
    enabled: bool = Field(True, description="false: never crawled by schedule")
    start: UrlList = Field(
        (), description="listing pages to start from; `start` or `sitemap` is needed"
    )
    sitemap: (
        Annotated[
            Sitemap,
            BeforeValidator(_expand_sitemap, json_schema_input_type=str | list[str] | Sitemap),
        ]
        | None
    ) = Field(None, description="or: its sitemaps")
    hosts: Annotated[tuple[Annotated[str, AfterValidator(scalars.check_host)], ...], STRINGS] = (
        Field(
            (),
            description="further hosts of the site, with their subdomains; links to other hosts "
            "are not followed",
        )
    )
    queue: Queue = Field(
        "datacenter", description="which workers: datacenter, residential, or your own name"
    )
    region: Region | None = Field(None, description="such as eu; default: any")
    proxy: Proxy = Field(
        ProxyUse.model_validate({"pool": NO_PROXY}),
        description="none, datacenter, residential, or a mapping",
    )
    escalate: Escalate = Field(
        (),
        description="where blocked pages are retried: residential, browser, or both; default: "
        "nowhere",
    )
    blocked: Markers = Field(
        (),
        description="markers of a blocked page, in addition to the known ones: texts, or mappings",
    )
    priority: Priority = Field("normal", description="high, normal, low, or 0 (last) to 9 (first)")
    routes: tuple[RouteRule, ...] = Field(
        (), max_length=100, description="other routes for some pages; the first match counts"
    )
    schedule: Annotated[str, AfterValidator(scalars.check_cron)] | None = Field(
        None, description="cron, five fields, in quotes; default: crawled only on command"
    )
    timezone: Annotated[str, AfterValidator(scalars.check_timezone)] = Field(
        "UTC", description="the time zone of the schedule"
    )
    rate: Annotated[Text, AfterValidator(partial(run_check, scalars.parse_rate))] = Field(
        "4/s", description="requests to a host by the whole fleet: 60/m, 2/s, unlimited"
    )
    concurrency: int = Field(
        4, ge=1, le=1000, description="simultaneous requests to a host by the whole fleet"
    )
    burst: int = Field(
        1, ge=1, le=1000, description="requests that may follow each other at once after a pause"
    )
    revisit: Revisit = Field(
        RevisitBounds(min="7d", max="7d"),
        description="how old a product's data may be before it is fetched again: 7d, 12h, 0, "
        "or {min: 6h, max: 14d}",
    )
    conditional: Conditional = Field(
        BELIEVED,
        description="ask product pages whether they have changed; a time: how long the answer is "
        "trusted; false: never ask",
    )
    robots: Annotated[
        bool,
        BeforeValidator(_expand_robots, json_schema_input_type=bool | Literal["obey", "ignore"]),
    ] = Field(True, description="obey robots.txt")
    allow_private: PrivateNetworks = Field(
        False,
        description="true: the site's own hosts may have private addresses; or a list of networks "
        "that all hosts may use",
    )
    user_agent: str | None = Field(
        None,
        min_length=1,
        max_length=500,
        description="a text, or browser: a browser's headers; default: SCRAPER_USER_AGENT",
    )
    headers: dict[str, Text] = Field(
        default_factory=dict, max_length=50, description="further request headers"
    )
    cookies: Literal["page", "keep"] = Field(
        "page",
        description="keep: from page to page, in each worker process; page: only for a page's "
        "redirects",
    )
    strip_params: Annotated[tuple[str, ...], STRINGS] = Field(
        (), description="query parameters to drop; * allowed"
    )
    keep_params: Annotated[tuple[str, ...], STRINGS] = Field(
        (), description="tracking parameters to keep; * allowed"
    )
    trailing_slash: Literal["keep", "strip"] = Field(
        "keep", description="strip: /a/ and /a are the same page"
    )
    limits: Limits = Field(
        Limits.model_validate({}), description="the limits of one crawl and its pages"
    )
    quality: Annotated[
        Quality, BeforeValidator(expand_none, json_schema_input_type=Literal["none"] | Quality)
    ] = Field(Quality.model_validate({}), description="when a crawl is suspect; none: never")
    listing: Listing | None = Field(
        None, description="what is read from listing pages; required with `start`"
    )
    product: ProductPage = Field(description="what is read from product pages")

    @model_validator(mode="before")
    @classmethod
    def _drop_unused_keys(cls, data: Any) -> Any:
        """Drops the keys of inactive plug-ins that have their default value, as in definitions from
        the database."""
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
    def _expand_region(cls, value: Any) -> Any:
        return None if value == "any" else value

    @field_validator("headers")
    @classmethod
    def _check_headers(cls, value: dict[str, str]) -> dict[str, str]:
        for name, text in value.items():
            scalars.check_header(name, text)
        return value

    @field_validator("user_agent")
    @classmethod
    def _check_user_agent(cls, value: str | None) -> str | None:
        scalars.check_header_value("user_agent", value or "")
        return value

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        problems = Problems()
        if not self.start and self.sitemap is None:
            problems.add("", NOWHERE)
        if self.start and self.listing is None:
            problems.add(
                "start", "start pages are listing pages, but `listing:` is missing (fix: add it)"
            )
        if self.sitemap is not None and self.sitemap.listings is not None and self.listing is None:
            problems.add(
                "sitemap.listings", "`listing:` is missing, which reads these pages (fix: add it)"
            )
        queues = self.queues
        if self.escalate and all(len(build_ladder(queue, self.escalate)) == 1 for queue in queues):
            start = " or ".join(sorted(queues))
            problems.add(
                "escalate",
                f"has no effect: pages start at {start} (fix: name a level above, or remove it)",
            )
        if self.cookies == "keep" and any(self.proxy_of(kind).pool != NO_PROXY for kind in Kind):
            problems.add(
                "cookies",
                "with a proxy, cookies belong to the identity (fix: remove `cookies`, and write "
                "`proxy: {pool: …, sticky: 10m}`)",
            )
        for part in type(self).__mro__:
            if issubclass(part, DefinitionKeys) and "check" in vars(part):
                part.check(cast("Site", self), problems)
        problems.raise_any()
        return self

    @property
    def sources(self) -> dict[str, Any]:
        """The sources of fields and links, by their keys."""
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
        """Returns a copy without the cached properties of the original."""
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
        """The queues in which pages start."""
        return {self.queue_of(kind) for kind in Kind} | {
            rule.queue for rule in self.routes if rule.queue
        }

    def queue_of(self, kind: Kind) -> str:
        """Returns the queue for pages of this kind."""
        part = self._get_page_spec(kind)
        return (part and part.queue) or self.queue

    def proxy_of(self, kind: Kind) -> ProxyUse:
        """Returns the proxies for pages of this kind."""
        part = self._get_page_spec(kind)
        return (part and part.proxy) or self.proxy

    def _get_page_spec(self, kind: Kind) -> Listing | ProductPage | None:
        return self.product if kind is Kind.PRODUCT else self.listing

    @property
    def starts(self) -> tuple[str, ...]:
        return (*self.start, *(self.sitemap.urls if self.sitemap else ()))

    @property
    def priority_number(self) -> int:
        return scalars.parse_priority(self.priority)

    @property
    def rate_per_s(self) -> float | None:
        """The whole fleet's requests to one host in a second, or None if unlimited."""
        return scalars.parse_rate(self.rate)

    @property
    def revisit_s(self) -> float:
        """The shortest time after which a product page is fetched again."""
        return self.revisit.bounds.min_s

    @cached_property
    def conditional_s(self) -> float:
        """How long "not modified" is trusted for a product page; 0: pages are always fetched."""
        return scalars.parse_duration(self.conditional)

    @property
    def tolerances(self) -> Tolerances:
        """The site's tolerances for `scraper.rules.quality`."""
        return self.quality.tolerances(
            {
                name: {"floor": spec.floor, "required": spec.required, "type": spec.type}
                for name, spec in self.product.all_fields.items()
            }
        )

    @cached_property
    def routing_preferences(self) -> RoutingPreferences:
        """The site's preferences for `scraper.rules.routing.choose_route`."""
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
        """The hosts that belong to the site, with their subdomains (`urls.belongs_to`)."""
        given = [urls.host_of(url) for url in self.starts]
        return frozenset((*map(_without_www, given), *self.hosts))

    @property
    def private_hosts(self) -> frozenset[tuple[str, int | None]]:
        """(name, port) of the hosts that may have private addresses; None means every port. A start
        URL counts with its own port, or with the ports of http and https."""
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
        """Returns this site's keys of a plug-in, by the plug-in's class of keys."""
        assert isinstance(self, keys), f"{keys.__name__} belongs to a plug-in that is off"
        return self

    def owns(self, url: str) -> bool:
        """Returns whether the URL is on one of the site's hosts."""
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
        """The canonical JSON of the keys that may affect which product a page gives."""
        excluded = {*_NOT_READING, *_list_other_keys(type(self))}
        data = self.model_dump(mode="json", exclude=excluded)
        return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def _list_other_keys(site: type[BaseModel]) -> set[str]:
    """Returns the plug-ins' keys that do not affect what a product page gives."""
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
    """Returns the models of the plug-ins' mappings, by dotted key."""
    parts = [part for part in Site.__mro__ if issubclass(part, DefinitionKeys)]
    return {place: model for part in parts for place, model in part.places.items()}


def _without_www(host: str) -> str:
    bare = host.removeprefix("www.")
    return bare if "." in bare else host
