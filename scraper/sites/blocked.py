"""A site's own markers of a blocked page, `blocked:` in its definition: their schema, and what
`scraper.rules.blocks` asks. Pure.

    blocked:
      - "Our systems have noticed unusual activity"          # a text: the same as {text: …}
      - {status: 200, text: "Nur für registrierte Händler"}  # all that is given must hold
      - {header: {x-shield: denied}}
      - {url: "/sorry-page"}
      - {regex: 'data-state="(challenge|captcha)"'}

There is no `css` here: markers are asked of every page before it is parsed, and of good pages most
of all.
"""

from __future__ import annotations

import html
from collections.abc import Iterable
from functools import partial
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from scraper.rules.blocks import MARKER_MAX, Marker
from scraper.rules.decoding import decode_page
from scraper.sites.grammar import selectors
from scraper.sites.grammar.model import Model, Regex, Text, expand_texts, number_to_text, refuse

# A text of fewer characters stands on good pages as well.
TEXT_MIN = 4
MARKERS_MAX = 50
# In which shops write. A text is looked for as each of these spells it: where one misreads a page,
# it finds nothing.
CHARSETS = (
    "utf-8",
    "cp1252",
    "cp1250",
    "cp1251",
    "cp1253",
    "cp1254",
    "shift_jis",
    "euc_jp",
    "gb18030",
    "big5",
    "euc_kr",
)


def _check_text(text: str) -> str:
    if len(text.strip()) < TEXT_MIN:
        raise ValueError(
            f"{text!r} is too short to tell a blocked page from a good one (fix: {TEXT_MIN} "
            f"characters at the least, as in "
            '"Access to this page has been denied")'
        )
    return text


def _as_statuses(value: Any) -> Any:
    return [value] if isinstance(value, int | str) else value


HeaderName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,100}$")]
HeaderPart = Annotated[Text, Field(max_length=1000)]
HttpStatus = Annotated[int, Field(ge=200, le=999)]


class Blocked(Model):
    """One marker of a blocked page. All that is given must hold."""

    text: (
        Annotated[
            str,
            BeforeValidator(number_to_text),
            AfterValidator(_check_text),
            Field(max_length=1000),
        ]
        | None
    ) = Field(None, description="stands in the page's source, in these letters, small and capital")
    regex: Regex | None = Field(None, description="is found in the page's source")
    status: Annotated[
        tuple[HttpStatus, ...],
        BeforeValidator(_as_statuses, json_schema_input_type=int | list[int]),
        Field(max_length=20),
    ] = Field((), description="the answer's status, or one of several")
    header: dict[HeaderName, HeaderPart] = Field(
        default_factory=dict, max_length=10, description='name -> part of its value; "": any value'
    )
    url: Regex | None = Field(None, description="a regular expression on the final URL")

    @model_validator(mode="after")
    def _check_not_empty(self) -> Self:
        others = (
            self.text is not None or self.regex is not None or self.header or self.url is not None
        )
        if not others and not self.status:
            refuse("", "says nothing (fix: give one of text, regex, status, header, url)")
        good = sorted(status for status in self.status if status < 400)
        if good and not others:
            refuse(
                "status",
                f"{good[0]} alone would take good pages for blocked (fix: add text, regex, header "
                "or url)",
            )
        return self

    @property
    def described(self) -> str:
        """For people: `status 200 and text 'Nur für …'`."""
        given = [f"status {'/'.join(map(str, self.status))}"] if self.status else []
        given += [f"header {name}" for name in self.header]
        given += [
            f"{key} {value[:80]!r}"
            for key in ("text", "regex", "url")
            if (value := getattr(self, key)) is not None
        ]
        return " and ".join(given)

    def marker(self) -> Marker:
        """What `scraper.rules.blocks.detect_block` asks, selectors compiled."""
        return Marker(
            described=self.described,
            statuses=frozenset(self.status),
            headers=tuple((name.lower(), part) for name, part in self.header.items()),
            texts=() if self.text is None else encode_spellings(self.text),
            page=None if self.regex is None else partial(_matches_page, self.regex),
            url=None if self.url is None else partial(_matches_pattern, self.url),
        )


Markers = Annotated[
    tuple[Blocked, ...],
    BeforeValidator(
        expand_texts("text"), json_schema_input_type=str | Blocked | list[str | Blocked]
    ),
    Field(max_length=MARKERS_MAX),
]


def compile_markers(blocked: Iterable[Blocked]) -> tuple[Marker, ...]:
    """Compiled once a crawl: `compile_markers(site.blocked)`."""
    return tuple(entry.marker() for entry in blocked)


def encode_spellings(text: str) -> tuple[bytes, ...]:
    """The bytes that stand for a text: as it is and with & < > as entities, in each character set
    that has its letters. `encode_spellings("Press & Hold") == (b"Press & Hold", b"Press &amp;
    Hold")`."""
    encoded: dict[bytes, None] = {}
    for charset in CHARSETS:
        for written in (text, html.escape(text, quote=False)):
            try:
                encoded[written.encode(charset)] = None
            except UnicodeEncodeError:
                continue
    return tuple(encoded)


def _matches_pattern(pattern: str, text: str) -> bool:
    """Whether a regular expression is found within its time; on a page that it takes too long for,
    it is not."""
    try:
        return selectors.matches_anywhere(selectors.compile_regex(pattern), text)
    except TimeoutError:
        return False


def _matches_page(pattern: str, start: bytes, content_type: str) -> bool:
    # It is cut off, perhaps within a letter, which would make UTF-8 look like something else.
    if len(start) >= MARKER_MAX:
        start = start[: start.rfind(b">") + 1] or start
    return _matches_pattern(pattern, decode_page(start, content_type or None).text)
