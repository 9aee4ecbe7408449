"""How many products a shop has by what its pages say, and whether a crawl found too few. Pure."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from scraper.plugin import Coverage
from scraper.plugins.coverage.stated_counts import name_shorter_lists
from scraper.plugins.coverage.store import ListCount

# A first crawl that finds less than this share is suspect.
SHARE_LEAST = 0.9
# A later crawl may find this much less of the shop than usual.
SHARE_DROP = 0.05
# Fewer missing products are not worth a person's time.
MISSING_LEAST = 3
# If at least this share of the lists name fewer than they count, others do not make up for them.
SHORT_LISTS = 0.5
EXAMPLES = 2


def measure_coverage(
    products: int, lists: Sequence[ListCount], doubles: int = 0, addresses: int = sys.maxsize
) -> Coverage | None:
    """Returns what a crawl found of what the lists count; None if nothing counts products.
    `addresses`: how many the sitemaps have together; `doubles`: those of them whose product has
    another address.

    A sitemap and an interface count all products. A list counts its own, so its count is a lower
    bound; if at least half of the lists name fewer than they count, the others do not make up for
    them, and the shortfall is that of all lists together.
    """
    counts: dict[str, int] = {}
    for kind in ("sitemap", "platform"):
        given = [row for row in lists if row.kind == kind and row.claimed is not None]
        if given:
            add = max if kind == "platform" else sum
            counts[kind] = add(row.claimed or 0 for row in given)
    if "sitemap" in counts:
        counts["sitemap"] = min(counts["sitemap"], addresses) - doubles
    texts = [f"{kind} {count:,}" for kind, count in counts.items()]
    counted = _join_pages([row for row in lists if row.kind == "list" and row.claimed])
    if counted:
        short = [row for row in counted if row.named < (row.claimed or 0)]
        total, named = sum(row.claimed or 0 for row in counted), sum(row.named for row in counted)
        counts["largest list"] = max(row.claimed or 0 for row in counted)
        if len(short) >= SHORT_LISTS * len(counted) and 0 < named < total and not texts:
            counts["lists"] = round(products * total / named)
        texts.append(_describe_lists(counted, short))
    if not counts:
        return None
    return Coverage(products, max(products, *counts.values()), "; ".join(texts))


def _join_pages(counted: Sequence[ListCount]) -> list[ListCount]:
    """Returns the lists with their pages that the shop numbers in its own way (`/pots?s=2`): such a
    page counts as many products as its list."""
    lists = {row.url: row for row in counted}
    for row in sorted(counted, key=lambda row: -len(row.url)):
        for url in name_shorter_lists(row.url):
            whole = lists.get(url)
            if whole is not None and whole.claimed == row.claimed:
                lists[url] = whole._replace(named=whole.named + lists.pop(row.url).named)
                break
    return list(lists.values())


def _describe_lists(counted: Sequence[ListCount], short: Sequence[ListCount]) -> str:
    if not short:
        return f"{len(counted):,} of {len(counted):,} lists name as many as they count"
    worst = sorted(short, key=lambda row: row.named - (row.claimed or 0))[:EXAMPLES]
    named = ", ".join(f"{row.named:,} of {row.claimed:,} in {row.url}" for row in worst)
    return f"{len(short):,} of {len(counted):,} lists name fewer than they count: {named}"


def explain_shortfall(coverage: Coverage, usual: float | None, *, certain: bool) -> str:
    """Returns why a crawl with this coverage is suspect; "" if it is not. `usual`: the share that
    is usual at its site. `certain`: the evidence is independent of what was crawled."""
    missing = coverage.expected - coverage.products
    if missing < MISSING_LEAST:
        return ""
    share = coverage.products / coverage.expected
    if usual is not None:
        if share >= usual - SHARE_DROP:
            return ""
        return f"found {coverage}, and usually {usual:.0%}"
    return f"found only {coverage}" if certain and share < SHARE_LEAST else ""
