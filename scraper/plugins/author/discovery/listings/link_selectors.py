"""A group of links as a definition writes it: CSS, and a pattern of the URLs. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence, Set
from os.path import commonprefix
from typing import NamedTuple
from urllib.parse import urlsplit

from scraper.extract.document import Document
from scraper.plugins.author.discovery.css_paths import find_paths
from scraper.plugins.author.discovery.listings.cards import LinkGroup

# Selectors that miss more links are not tried.
MISSED_SHARE_MAX = 0.1
# A missed link loses a product. An extra one can be excluded by its URL.
MISSED_COST = 10
EXTRA_COST = 3
# Of equal selectors the earlier one lasts longer: this many places cost as much as one rank.
PLACES_PER_RANK = 100
PREFIX_CHARS_MIN = 4
_NUMBERS = (
    r"[_-]\d+/",
    r"[_-]\d+\.html?$",
    r"/\d+(?:$|[/?-])",
    r"[?&]\w*id=\d+",
    r"\d+\.html?$",
)


class GroupSelector(NamedTuple):
    """CSS that matches the links, and a pattern of their URLs if the CSS matches others too."""

    css: str
    match: str | None = None


def write_selector(
    document: Document,
    group: LinkGroup,
    owns: Callable[[str], bool],
    avoided: Sequence[tuple[Document, Set[str]]] = (),
) -> GroupSelector:
    """Returns a selector for the group's links that matches as few others as possible, on its page
    and among the `avoided` URLs of other pages."""
    wanted = set(group.urls)
    css, matched = _find_css(document, group, owns, avoided)
    others = matched - wanted
    if not others:
        return GroupSelector(css)
    pattern = find_url_pattern(group.urls)
    for candidate in (pattern, _find_prefix(group.urls)):
        if candidate is not None and not any(re.search(candidate, url) for url in others):
            return GroupSelector(css, candidate)
    if pattern is None or all(re.search(pattern, url) for url in others):
        return GroupSelector(css)
    return GroupSelector(css, pattern)


def _find_css(
    document: Document,
    group: LinkGroup,
    owns: Callable[[str], bool],
    avoided: Sequence[tuple[Document, Set[str]]],
) -> tuple[str, set[str]]:
    """Returns the cheapest selector for the group's links, and the URLs that it matches."""
    wanted = set(group.urls)
    best: tuple[float, str, set[str]] | None = None
    tried: set[str] = set()
    for link in (*group.links[:2], group.links[-1]):
        for order, path in enumerate(find_paths(link)):
            if path.css in tried or ":nth-child" in path.css or " + " in path.css:
                continue
            tried.add(path.css)
            matched = match_urls(path.css, document, owns)
            for other, urls in avoided:
                matched |= match_urls(path.css, other, owns).intersection(urls)
            missed, extra = len(wanted - matched), len(matched - wanted)
            if missed > len(wanted) * MISSED_SHARE_MAX:
                continue
            cost = missed * MISSED_COST + extra * EXTRA_COST + path.rank + order / PLACES_PER_RANK
            if best is None or cost < best[0]:
                best = cost, path.css, matched
    if best is None:
        return "a[href]", match_urls("a[href]", document, owns)
    return best[1:]


def match_urls(css: str, document: Document, owns: Callable[[str], bool]) -> set[str]:
    """Returns the site's own URLs that the selector's links lead to."""
    listed = (
        document.clean_link(element.attributes.get("href") or "")
        for element in document.dom.css(css)
    )
    return {url for url in listed if url is not None and owns(url)}


def _find_prefix(listed: Iterable[str]) -> str | None:
    """Returns how all the URLs begin after their host, up to the last separator."""
    parts = [urlsplit(url) for url in listed]
    written = [f"{part.path}?{part.query}" for part in parts]
    prefix = commonprefix(written)  # noqa: RUF071 - characters, not folders, are compared
    marked = re.match(r".*\W", prefix)
    if marked is None or len(marked[0]) < PREFIX_CHARS_MIN:
        return None
    return re.escape(marked[0])


def find_url_pattern(listed: Iterable[str]) -> str | None:
    """Returns what all the URLs have in common and other URLs seldom have: leading folders, a
    number at the end, an ending."""
    parts = [urlsplit(url) for url in listed]
    if not parts:
        return None
    folders = [part.path.split("/")[1:-1] for part in parts]
    shared: list[str] = []
    for names in zip(*folders, strict=False):
        if len(set(names)) > 1:
            break
        shared.append(names[0])
    ends = [
        pattern for pattern in _NUMBERS if all(re.search(pattern, part.geturl()) for part in parts)
    ]
    if shared:
        folder = re.escape("/" + "/".join(shared) + "/")
        return folder if not ends else folder + ".*" + ends[0].removeprefix("/")
    return ends[0] if ends else None
