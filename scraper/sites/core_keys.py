"""The keys of a definition that belong to the core, without what follows from them. Pure."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, field_validator

from scraper.sites.blocked_keys import Markers
from scraper.sites.grammar import scalars
from scraper.sites.grammar.model import STRINGS, Model, Text, as_list, run_check
from scraper.sites.grammar.page_specs import Listing, ProductPage, Sitemap, UrlList
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
from scraper.sites.quality_keys import Quality, expand_none
from scraper.sites.revisit_keys import BELIEVED, Conditional, Revisit, RevisitBounds

NETWORKS_MAX = 50
Tag = Annotated[str, Field(pattern=r"^[A-Za-z0-9][\w.-]*$", max_length=40)]


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


class CoreKeys(Model):
    """The keys of the core, as they are written."""

    name: str = Field(pattern=f"^{scalars.SITE_NAME}$", description="default: the file's name")
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
        RevisitBounds(min="0", max="0"),
        description="how old a product's data may be before it is fetched again: 7d, 12h, "
        "{min: 6h, max: 14d}, or 0: every crawl reads every product",
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
