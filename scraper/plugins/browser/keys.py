"""How a browser worker shows a page before it is read, `browser:` in a definition: its schema.
Pure.

    browser:
      wait_for: .product              # a CSS selector, or: networkidle (the default), load
      click: {css: button.more, max: 30}
      scroll: 20                      # to the end, at most this often, while it grows
      responses: {api: "/api/products"}

A wait that times out is not a failure: the page is read as it is, and judged like any other page.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from scraper.sites.plugin_keys import DefinitionKeys

if TYPE_CHECKING:
    from scraper.sites.definition import Site
from collections.abc import Mapping
from typing import Annotated, Literal, Protocol

from pydantic import AfterValidator, BeforeValidator, Field

from scraper.rules.escalation import build_ladder
from scraper.rules.routing import BROWSER
from scraper.sites.grammar import scalars
from scraper.sites.grammar.css import parse_css
from scraper.sites.grammar.model import (
    Css,
    Duration,
    Function,
    Model,
    Problems,
    Regex,
    as_list_or_none,
    expand_css,
)

WAIT_FOR_IDLE, WAIT_FOR_LOAD = "networkidle", "load"
Block = Literal["image", "font", "media", "stylesheet", "script", "texttrack", "websocket", "other"]
ResponseName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,62}$")]


def _check_wait_for(text: str) -> str:
    if text not in (WAIT_FOR_IDLE, WAIT_FOR_LOAD):
        parse_css(text)
    return text


def _check_viewport(text: str) -> str:
    width, times, height = text.partition("x")
    if not (
        times
        and width.isdigit()
        and height.isdigit()
        and 200 <= int(width) <= 4000
        and 200 <= int(height) <= 4000
    ):
        raise ValueError(
            f"{text!r} is not a viewport (fix: width x height from 200 to 4000, as in 1280x800)"
        )
    return text


class Click(Model):
    """A button that loads more."""

    css: Css = Field(description="what to click, as long as it can be clicked")
    max: int = Field(20, ge=1, le=500, description="the maximum number of clicks")


class Rendering(Model):
    """How a browser renders a page before it is read."""

    block: Annotated[
        tuple[Block, ...],
        BeforeValidator(
            as_list_or_none, json_schema_input_type=Literal["none"] | Block | list[Block]
        ),
    ] = Field(
        ("image", "font", "media"),
        description="resources that are not loaded; none: load everything",
    )
    wait_for: Annotated[str, AfterValidator(_check_wait_for)] = Field(
        WAIT_FOR_IDLE, description="a CSS selector, networkidle, or load"
    )
    wait: Duration = Field(
        "10s", description="how long to wait for it before the page is read as it is"
    )
    click: (
        Annotated[Click, BeforeValidator(expand_css, json_schema_input_type=str | Click)] | None
    ) = Field(None, description="a button that loads more: its CSS, or a mapping")
    scroll: int = Field(
        0, ge=0, le=500, description="how often at most to scroll to the page's end, while it grows"
    )
    script: str | None = Field(
        None,
        max_length=10_000,
        description="JavaScript to run and await last; it may change the page",
    )
    viewport: Annotated[str, AfterValidator(_check_viewport)] = Field(
        "1280x800", description="the window's size"
    )
    timeout: Duration | None = Field(
        None, description="the limit for a whole page; default and maximum: SCRAPER_PAGE_TIMEOUT_S"
    )
    stealth: bool = Field(False, description="hide the signs of automation")
    setup: Function | None = Field(
        None,
        description="`module:function`, async: prepares each new browser context",
    )
    responses: dict[ResponseName, Regex] = Field(
        default_factory=dict,
        max_length=20,
        description="name -> regular expression on the URL of JSON responses for fields",
    )

    @property
    def wait_s(self) -> float:
        return scalars.parse_duration(self.wait)

    @property
    def timeout_s(self) -> float | None:
        return None if self.timeout is None else scalars.parse_duration(self.timeout)

    @property
    def size(self) -> tuple[int, int]:
        width, _, height = self.viewport.partition("x")
        return int(width), int(height)


PLAIN = Rendering.model_validate({})


class _Reads(Protocol):
    @property
    def response(self) -> str | None: ...


def check_rendering(
    rendering: Rendering | None,
    starts: set[str],
    escalate: tuple[str, ...],
    reads: Mapping[str, _Reads],
    problems: Problems,
) -> None:
    """Adds contradictions: a `browser:` that no page uses, or a response that is not captured.
    `reads` has every source of the definition, by its key."""
    reached = any(BROWSER in build_ladder(start, escalate) for start in starts)
    if rendering is not None and not reached:
        problems.add(
            "browser",
            "no page goes to a browser (fix: `queue: browser` or `escalate: browser`, or remove "
            "it)",
        )
    captured = rendering.responses if rendering is not None else {}
    for key, source in reads.items():
        if source.response is not None and source.response not in captured:
            problems.add(
                f"{key}.response",
                f"no response is called {source.response!r} (fix: `browser: "
                f"{{responses: {{{source.response}: …}}}}` with a regular expression on its URL)",
            )


class BrowserKeys(DefinitionKeys):
    reading_keys: ClassVar[frozenset[str]] = frozenset({"browser"})
    browser: Rendering | None = Field(None, description="how browser workers render pages")

    @classmethod
    def check(cls, site: Site, problems: Problems) -> None:
        check_rendering(site.of(cls).browser, site.queues, site.escalate, site.sources, problems)
