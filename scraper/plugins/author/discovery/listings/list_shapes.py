"""The shape of the URLs of a shop's lists, as a pattern that finds lists that no selector names:
sub-categories in drop-downs and on the pages of categories. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any
from urllib.parse import urlsplit

from scraper.extract.text import whole_text
from scraper.plugins.author.discovery.listings.listing_page import ListingPage
from scraper.rules.decoding import clean_text
from scraper.sites.definition import Site

SHAPED_MIN = 3
# The share of a menu's links that have the shape of its lists.
MOST = 0.6
# The value of a parameter or a part of a path.
_VALUE = r"[\w.%-]+"
_NUMBERED = re.compile(r"[-_/](c|cat|category|k|g)[-_/]?\d+(/|\.html?)?$", re.I)


def find_list_pattern(
    links: Sequence[str], lists: Collection[str], others: Collection[str]
) -> str | None:
    """Returns a pattern of the shape that most of `links` have, at least three, and all of the
    `lists` among them, but none of `others`, such as products. Returns None if their shape says
    nothing. A menu's links to an account have another shape."""
    for write, shape_of in _SHAPES:
        shapes: dict[Any, list[str]] = {}
        for url in links:
            shapes.setdefault(shape_of(url), []).append(url)
        shapes.pop(None, None)
        alike = max(shapes.values(), key=len, default=[])
        if len(alike) < SHAPED_MIN or len(alike) < MOST * len(links):
            continue
        pattern = write(alike)
        if pattern is None:
            continue
        search = re.compile(pattern).search
        if all(map(search, {*alike, *lists})) and not any(map(search, others)):
            return pattern
    return None


def find_unfollowed_lists(
    pages: Iterable[ListingPage], pattern: str, followed: Collection[str], site: Site
) -> dict[str, str]:
    """Returns the texts of the pages' links that the pattern matches, by their URLs, but for the
    lists that are followed already."""
    texts: dict[str, str] = {}
    for page in pages:
        for link in page.document.dom.css("a[href]"):
            url = page.document.clean_link(link.attributes.get("href") or "")
            if url is None or url in followed or not site.owns(url):
                continue
            if re.search(pattern, url):
                texts.setdefault(url, clean_text(whole_text(link)))
    return texts


def _query_shape(url: str) -> object:
    parts = urlsplit(url)
    names = [pair.partition("=")[0] for pair in parts.query.split("&")]
    return (parts.path, *names) if parts.query else None


def _write_query(lists: Sequence[str]) -> str:
    """Returns the pattern of URLs that differ only in the values of their parameters."""
    pairs = [[pair.partition("=") for pair in urlsplit(url).query.split("&")] for url in lists]
    written = []
    for same in zip(*pairs, strict=True):
        name, _, value = same[0]
        is_fixed = len({pair[2] for pair in same}) == 1
        written.append(f"{re.escape(name)}={re.escape(value) if is_fixed else _VALUE}")
    return re.escape(f"{urlsplit(lists[0]).path}?") + "&".join(written) + "$"


def _numbered_shape(url: str) -> object:
    match = _NUMBERED.search(url)
    return match and match[1]


def _write_numbered(lists: Sequence[str]) -> str:
    """Returns the pattern of URLs that end with a mark of lists and a number: `-c-12/`."""
    return rf"[-_/]{re.escape(str(_numbered_shape(lists[0])))}[-_/]?\d+(?:/|\.html?)?$"


def _folder_shape(url: str) -> object:
    parts = urlsplit(url)
    folders = parts.path.rstrip("/").split("/")[1:]
    return folders[0] if len(folders) > 1 and not parts.query else None


def _write_folder(lists: Sequence[str]) -> str:
    """Returns the pattern of URLs below one folder, which names lists, up to one part deeper."""
    depths = [urlsplit(url).path.rstrip("/").count("/") for url in lists]
    folder = re.escape(f"//{urlsplit(lists[0]).netloc}/{_folder_shape(lists[0])}/")
    return rf"{folder}(?:{_VALUE}/){{0,{max(depths) - 1}}}{_VALUE}/?$"


_SHAPES: Sequence[tuple[Callable[[Sequence[str]], str], Callable[[str], object]]] = (
    (_write_query, _query_shape),
    (_write_numbered, _numbered_shape),
    (_write_folder, _folder_shape),
)
