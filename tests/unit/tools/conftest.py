"""What tests of the repository share."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module", autouse=True)
def trees_are_not_collected(request: pytest.FixtureRequest) -> Iterator[None]:
    """The syntax trees of the checkout are millions of objects that stay until the end: to look
    through them for garbage, again and again, takes longer than to parse them."""
    if not request.node.get_closest_marker("parses"):
        yield
        return
    gc.disable()
    yield
    gc.freeze()
    gc.enable()
