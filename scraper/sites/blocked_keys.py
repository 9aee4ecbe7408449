"""A site's own markers of a blocked page, `blocked:` in its definition, compiled for
`scraper.rules.blocks`. Pure.

    blocked:
      - "Our systems have noticed unusual activity"          # a text: the same as {text: …}
      - {status: 200, text: "Nur für registrierte Händler"}  # all keys must match
      - {header: {x-shield: denied}}
      - {url: "/sorry-page"}
      - {regex: 'data-state="(challenge|captcha)"'}

Markers have no `css`, because they are checked on every page before it is parsed.
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

# Shorter texts occur on good pages as well.
TEXT_MIN = 4
MARKERS_MAX = 50
# The character sets that shops use. A text is searched for in the spelling of each of them.
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
            f"{text!r} is too short, good pages may contain it (fix: at least {TEXT_MIN} "
            'characters, as in "Access to this page has been denied")'
        )
    return text


def _as_statuses(value: Any) -> Any:
    return [value] if isinstance(value, int | str) else value


HeaderName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,100}$")]
HeaderPart = Annotated[Text, Field(max_length=1000)]
HttpStatus = Annotated[int, Field(ge=200, le=999)]


class Blocked(Model):
    """A marker of a blocked page. All of its keys must match."""

    text: (
        Annotated[
            str,
            BeforeValidator(number_to_text),
            AfterValidator(_check_text),
            Field(max_length=1000),
        ]
        | None
    ) = Field(None, description="a text in the page's source, case-sensitive")
    regex: Regex | None = Field(None, description="a regular expression on the page's source")
    status: Annotated[
        tuple[HttpStatus, ...],
        BeforeValidator(_as_statuses, json_schema_input_type=int | list[int]),
        Field(max_length=20),
    ] = Field((), description="the response's status, or one of several")
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
            refuse("", "is empty (fix: give one of text, regex, status, header, url)")
        good = sorted(status for status in self.status if status < 400)
        if good and not others:
            refuse(
                "status",
                f"{good[0]} alone also matches good pages (fix: add text, regex, header or url)",
            )
        return self

    @property
    def described(self) -> str:
        """The marker as messages name it: `status 200 and text 'Nur für …'`."""
        given = [f"status {'/'.join(map(str, self.status))}"] if self.status else []
        given += [f"header {name}" for name in self.header]
        given += [
            f"{key} {value[:80]!r}"
            for key in ("text", "regex", "url")
            if (value := getattr(self, key)) is not None
        ]
        return " and ".join(given)

    def marker(self) -> Marker:
        """Compiles the marker for `scraper.rules.blocks.detect_block`."""
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
    """Compiles the markers of a site, once for each crawl."""
    return tuple(entry.marker() for entry in blocked)


def encode_spellings(text: str) -> tuple[bytes, ...]:
    """Returns the byte spellings of a text: in each character set that has its letters, as it is
    and with & < > as entities.

    >>> encode_spellings("Press & Hold")
    (b'Press & Hold', b'Press &amp; Hold')
    """
    encoded: dict[bytes, None] = {}
    for charset in CHARSETS:
        for written in (text, html.escape(text, quote=False)):
            try:
                encoded[written.encode(charset)] = None
            except UnicodeEncodeError:
                continue
    return tuple(encoded)


def _matches_pattern(pattern: str, text: str) -> bool:
    """Returns whether the pattern matches within its time limit."""
    try:
        return selectors.matches_anywhere(selectors.compile_regex(pattern), text)
    except TimeoutError:
        return False


def _matches_page(pattern: str, start: bytes, content_type: str) -> bool:
    # The page may be cut off within a character, which would make UTF-8 look like something else.
    if len(start) >= MARKER_MAX:
        start = start[: start.rfind(b">") + 1] or start
    return _matches_pattern(pattern, decode_page(start, content_type or None).text)
