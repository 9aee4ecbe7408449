"""Compares the addresses of pages: one product may have several. Pure."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import parse_qsl, urlsplit


class Address(NamedTuple):
    """The last part of a URL's path before an `index.html`, and its parameters."""

    name: str
    params: frozenset[tuple[str, str]]

    def may_be(self, other: Address) -> bool:
        """Returns whether both may be of one page: one has more folders or more parameters than the
        other."""
        is_within = self.params <= other.params or other.params <= self.params
        return self.name == other.name and is_within


def split_address(url: str) -> Address:
    parts = urlsplit(url)
    name = re.sub(r"/index\.html?$", "", parts.path, flags=re.I).rstrip("/").rpartition("/")[2]
    return Address(name, frozenset(parse_qsl(parts.query)))
