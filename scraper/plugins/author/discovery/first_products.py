"""The first products of a crawl that is none: from the start pages on, in a crawl's order, without
servers, and stored nowhere."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from scraper.crawl.new_pages import start_links
from scraper.domain import Kind, Link, Product
from scraper.errors import FetchError
from scraper.extract import FunctionFailed, TooSlow
from scraper.plugins.author.discovery.polite_reader import PoliteReader

# Pages that list are read so far without a product among them, and products without a good one.
LISTINGS_MAX = 50
FAILURES_MAX = 20


@dataclass(slots=True)
class Preview:
    """Products by their ids, each with its page, and (page, sentence) of what went wrong. `ended`:
    there are no more."""

    products: dict[str, tuple[str, Product]] = field(default_factory=dict)
    problems: list[tuple[str, str]] = field(default_factory=list)
    listings: int = 0
    ended: bool = False


async def preview(
    reader: PoliteReader, wanted: int, read: Callable[[Preview], None] = lambda _: None
) -> Preview:
    """Reads until so many products are there. `read` is called after each page."""
    context, result = reader.context, Preview()
    # A page, and how many links it is from a start.
    listings: deque[tuple[Link, int]] = deque((link, 0) for link in start_links(context))
    pages: deque[tuple[Link, int]] = deque()
    seen = {link.url for link, _ in listings}
    fruitless = failures = 0
    while len(result.products) < wanted and fruitless < LISTINGS_MAX and failures < FAILURES_MAX:
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
            result.problems += [(link.url, problem) for problem in extracted.problems]
            for product in extracted.products if extracted.complete else ():
                result.products.setdefault(product.external_id, (link.url, product))
            for found in extracted.links:
                if found.url not in seen:
                    seen.add(found.url)
                    queue = pages if found.kind is Kind.PRODUCT else listings
                    queue.append((found, depth + 1))
            good = len(result.products) > before or bool(pages)
            if link.kind is Kind.PRODUCT:
                failures = 0 if extracted.complete else failures + 1
            else:
                result.listings += 1
                fruitless = 0 if good else fruitless + 1
        read(result)
    # A page of an interface has many.
    result.products = dict(list(result.products.items())[:wanted])
    return result
