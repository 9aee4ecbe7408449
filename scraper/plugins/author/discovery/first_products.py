"""The first products that a crawl would find, read in its order, without servers. Stores
nothing."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from scraper.crawl.new_pages import start_links
from scraper.domain import Extracted, Kind, Link, Product
from scraper.errors import FetchError
from scraper.extract import FunctionFailed, TooSlow
from scraper.plugins.author.discovery.polite_reader import PoliteReader

# Consecutive listing pages without a product, and consecutive product pages that fail.
LISTINGS_MAX = 50
FAILURES_MAX = 20


@dataclass(slots=True)
class ProductPreview:
    """Products by their ids, each with its page's URL, and problems as (URL, sentence). `ended`:
    the crawl has no more pages."""

    products: dict[str, tuple[str, Product]] = field(default_factory=dict)
    problems: list[tuple[str, str]] = field(default_factory=list)
    listings: int = 0
    ended: bool = False

    def add(self, url: str, extracted: Extracted) -> None:
        self.problems += [(url, problem) for problem in extracted.problems]
        for product in extracted.products if extracted.complete else ():
            self.products.setdefault(product.external_id, (url, product))


async def preview_products(
    reader: PoliteReader,
    wanted: int,
    report: Callable[[ProductPreview], None] = lambda _: None,
) -> ProductPreview:
    """Reads pages until `wanted` products are found. Calls `report` after each page."""
    context, result = reader.context, ProductPreview()
    # Each page with its distance in links from a start page.
    listings: deque[tuple[Link, int]] = deque((link, 0) for link in start_links(context))
    pages: deque[tuple[Link, int]] = deque()
    seen = {link.url for link, _ in listings}
    barren = failures = 0
    while len(result.products) < wanted and barren < LISTINGS_MAX and failures < FAILURES_MAX:
        if not pages and not listings:
            result.ended = True
            break
        link, depth = (pages or listings).popleft()
        before = len(result.products)
        try:
            page = await reader.read(link.url, link.kind)
            extracted = context.extractor.extract(link.kind, page, page_url=link.url, depth=depth)
        except (FetchError, FunctionFailed, TooSlow) as error:
            outcome = f"{error.outcome}: " if isinstance(error, FetchError) else ""
            result.problems.append((link.url, f"{outcome}{error}"))
            failures += 1
        else:
            result.add(link.url, extracted)
            for new_link in extracted.links:
                if new_link.url not in seen:
                    seen.add(new_link.url)
                    queue = pages if new_link.kind is Kind.PRODUCT else listings
                    queue.append((new_link, depth + 1))
            good = len(result.products) > before or bool(pages)
            if link.kind is Kind.PRODUCT:
                failures = 0 if extracted.complete else failures + 1
            else:
                result.listings += 1
                barren = 0 if good else barren + 1
        report(result)
    # One page of a platform's interface has many products.
    result.products = dict(list(result.products.items())[:wanted])
    return result
