"""What a worker notes of each product page for its crawl's figures: which fields it had, and a few
examples of pages that lacked one. Nothing of it is stored here: it travels with the settled page.
And what pages of the crawl usually have, for whoever doubts a page with much less.
"""

from __future__ import annotations

from xxhash import xxh3_64_intdigest

from scraper.crawl.context import CrawlContext
from scraper.domain import Example, Extracted, Fetched, FieldObservations, Kind, LeasedPage
from scraper.settle.excerpts import excerpt

CRAWLS_KEPT = 64
EXAMPLES_A_PAGE = 10
# The usual number of fields moves by so much with each page, and half of it is too few.
USUAL_MOVES = 0.1
POOR = 0.5
# So many products may have one body, and so many bodies are remembered.
ALIKE_MOST = 3
BODIES_MAX = 20_000


class FieldObserver:
    """One a process, for its loop alone. Counts, by crawl and field, how often the field was
    missing: the first three pages are examples, and then each one whose number is a power of two,
    so that a field that breaks in mid-crawl has some too."""

    def __init__(self) -> None:
        self._missing: dict[int, dict[str, int]] = {}
        self._usual: dict[int, float] = {}
        self._bodies: dict[tuple[int, int], set[str]] = {}

    def poor(self, page: LeasedPage, extracted: Extracted, context: CrawlContext) -> str:
        """What to say of a product page with half of the usual fields or less; "" of others. The
        first pages are held against the definition."""
        if page.kind is not Kind.PRODUCT or not extracted.products:
            return ""
        usual = self._usual.get(page.crawl_id, len(context.site.product.fields))
        fields = len(set(extracted.found))
        if fields > POOR * usual or usual <= 1:
            return ""
        return f"{fields} of the usual {usual:.0f} fields"

    def repeated(
        self, page: LeasedPage, fetched: Fetched, extracted: Extracted, context: CrawlContext
    ) -> str:
        """What to say of the very bytes that the pages of other products have, too; "" of others.
        One product may be at several addresses, which are its ids where the site names none."""
        if page.kind is not Kind.PRODUCT or context.site.product.id is None:
            return ""
        if not extracted.products or fetched.captured:
            return ""
        key = page.crawl_id, xxh3_64_intdigest(fetched.body)
        ids = self._bodies.get(key)
        if ids is None:
            while len(self._bodies) >= BODIES_MAX:
                del self._bodies[next(iter(self._bodies))]
            ids = self._bodies[key] = set()
        if len(ids) <= ALIKE_MOST:
            ids.add(extracted.products[0].external_id)
        if len(ids) <= ALIKE_MOST:
            return ""
        return f"the same {len(fetched.body):,} bytes as other products' pages"

    def of(
        self, page: LeasedPage, fetched: Fetched, extracted: Extracted, context: CrawlContext
    ) -> FieldObservations | None:
        """None for a page that promised no product."""
        records = len(extracted.products) or int(
            not extracted.complete and page.kind is Kind.PRODUCT
        )
        if not records:
            return None
        fields = context.site.product.fields
        usual = self._usual.get(page.crawl_id)
        if usual is None:
            while len(self._usual) >= CRAWLS_KEPT:
                del self._usual[next(iter(self._usual))]
            usual = len(fields)
        self._usual[page.crawl_id] = usual + USUAL_MOVES * (len(set(extracted.found)) - usual)
        if len(extracted.found) == len(fields):
            return FieldObservations(records, extracted.found, extracted.mistyped)
        missing = self._missing.get(page.crawl_id)
        if missing is None:
            while len(self._missing) >= CRAWLS_KEPT:
                del self._missing[next(iter(self._missing))]
            missing = self._missing[page.crawl_id] = {}
        wanted = []
        for name in fields.keys() - extracted.found:
            times = missing[name] = missing.get(name, 0) + 1
            if times <= 3 or times & (times - 1) == 0:
                wanted.append(name)
        examples = _examples(wanted[:EXAMPLES_A_PAGE], page, fetched, extracted) if wanted else ()
        return FieldObservations(records, extracted.found, extracted.mistyped, examples)


def _examples(
    names: list[str], page: LeasedPage, fetched: Fetched, extracted: Extracted
) -> tuple[Example, ...]:
    shown = excerpt(fetched.body)
    problems = {
        problem.partition(": ")[0]: problem.partition(": ")[2] for problem in extracted.problems
    }
    return tuple(
        Example(name, page.url, problems.get(name, "nothing matched"), shown) for name in names
    )
