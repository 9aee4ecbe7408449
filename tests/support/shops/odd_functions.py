"""Functions as a site's own module has them, for tests/acceptance/test_odd_shops.py."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def links(page: Any) -> Iterator[Any]:
    for number in page.json()["items"]:
        yield page.follow(f"/fn/{number}.json")


def product(page: Any) -> Iterator[dict[str, Any]]:
    data = page.json()
    nested = {"a": [1, None, True]}
    yield {"id": data["id"], "name": data["name"], "price": data["price"], "nested": nested}
