"""The shape of the URLs of a shop's lists, as a pattern that finds lists that no selector names:
sub-categories in drop-downs and on the pages of categories. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from urllib.parse import urlsplit

from scraper.extract.text import whole_text
from scraper.plugins.author.discovery.listings.listing_page import ListingPage
from scraper.rules import urls
from scraper.rules.decoding import clean_text
from scraper.sites.definition import Site

SHAPED_MIN = 3
# The value of a parameter or a part of a path.
_VALUE = r"[\w.%-]+"
_NUMBERED = re.compile(r"[-_/](c|cat|category|k|g)[-_/]?\d+(/|\.html?)?$", re.I)


def find_list_pattern(lists: Sequence[str], others: Iterable[str]) -> str | None:
    """Returns a pattern that matches all of `lists`, at least three, and none of `others`, such as
    products. Returns None if their shape says nothing."""
    if len(lists) < SHAPED_MIN:
        return None
    for pattern in (_write_query(lists), _write_numbered(lists), _write_folder(lists)):
        if pattern is None:
            continue
        search = re.compile(pattern).search
        if all(map(search, lists)) and not any(map(search, others)):
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
            url = urls.clean(link.attributes.get("href") or "", page.document.base)
            if url is None or url in followed or not site.owns(url):
                continue
            if re.search(pattern, url):
                texts.setdefault(url, clean_text(whole_text(link)))
    return texts


def _write_query(lists: Sequence[str]) -> str | None:
    """Returns the pattern of URLs that differ only in the values of their parameters."""
    parts = [urlsplit(url) for url in lists]
    pairs = [[pair.partition("=") for pair in part.query.split("&")] for part in parts]
    names = {tuple(name for name, _, _ in listed) for listed in pairs}
    if len({part.path for part in parts}) != 1 or len(names) != 1 or not parts[0].query:
        return None
    written = []
    for same in zip(*pairs, strict=True):
        name, _, value = same[0]
        is_fixed = len({pair[2] for pair in same}) == 1
        written.append(f"{re.escape(name)}={re.escape(value) if is_fixed else _VALUE}")
    return re.escape(f"{parts[0].path}?") + "&".join(written) + "$"


def _write_numbered(lists: Sequence[str]) -> str | None:
    """Returns the pattern of URLs that end with a mark of lists and a number: `-c-12/`."""
    marks = {match[1] for url in lists if (match := _NUMBERED.search(url))}
    return rf"[-_/]{re.escape(marks.pop())}[-_/]?\d+(?:/|\.html?)?$" if len(marks) == 1 else None


def _write_folder(lists: Sequence[str]) -> str | None:
    """Returns the pattern of URLs below one folder, which names lists, up to one part deeper."""
    paths = [urlsplit(url).path.rstrip("/").split("/")[1:] for url in lists]
    folders = {path[0] for path in paths}
    if len(folders) != 1 or any(
        urlsplit(url).query or len(path) < 2 for url, path in zip(lists, paths, strict=True)
    ):
        return None
    host, deeper = urlsplit(lists[0]).netloc, max(map(len, paths)) - 1
    folder = re.escape(f"//{host}/{folders.pop()}/")
    return rf"{folder}(?:{_VALUE}/){{0,{deeper}}}{_VALUE}/?$"
