"""What a worker notes of each product page for its crawl's figures: which fields it had, and a few
examples of pages that lacked one. Nothing of it is stored here: it travels with the settled page.
And which product pages are not believed: they have much less than they had, or than pages of the
crawl usually have, or they show what the pages of other products show.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from xxhash import xxh3_64_intdigest

from scraper.crawl.context import CrawlContext
from scraper.domain import (
    Example,
    Extracted,
    Fetched,
    FieldObservations,
    Kind,
    LeasedPage,
    Product,
    content_hash,
)
from scraper.results.excerpts import make_excerpt

CRAWLS_KEPT = 64
EXAMPLES_A_PAGE = 10
SHOWN_CHARS = 80
# The usual number of fields moves by so much with each page, and half of it is too few.
USUAL_MOVES = 0.1
POOR = 0.5
# So many pages of a crawl do not show yet what is usual.
FIRST_PAGES = 5
# So many products may have one body, and so many bodies and values are remembered. Pages with no
# more fields than this are rather somebody's excuse.
ALIKE_MOST = 3
ALIKE_MAX = 20_000
FEW_FIELDS = 2


class Doubt(NamedTuple):
    """Why a page is not believed, and for how many fields it is to be known: the next crawl
    believes it with as many. None: as before."""

    why: str
    last_item_count: int | None


class FieldObserver:
    """One a process, for its loop alone. Counts, by crawl and field, how often the field was
    missing: the first three pages are examples, and then each one whose number is a power of two,
    so that a field that breaks in mid-crawl has some too."""

    def __init__(self) -> None:
        self._missing: dict[int, dict[str, int]] = {}
        self._usual: dict[int, tuple[int, float]] = {}
        self._alike: dict[tuple[int, object], set[str]] = {}

    def doubt(
        self, page: LeasedPage, fetched: Fetched, extracted: Extracted, context: CrawlContext
    ) -> Doubt | None:
        """Why a product page is not believed; None: it is."""
        if page.kind is not Kind.PRODUCT or not extracted.products:
            return None
        # One product may be at several addresses, which are its ids where the site names none.
        by_body = not fetched.captured and context.site.product.id is not None
        product, crawl_id = extracted.products[0], page.crawl_id
        if by_body and self._alike_too_often(
            (crawl_id, xxh3_64_intdigest(fetched.body)), product, ALIKE_MOST
        ):
            text = f"the same {len(fetched.body):,} bytes as other products' pages"
            return Doubt(text, None)
        fields = extracted.fields_found
        poor = self.poor(page, extracted, context)
        if not poor and (fields > 1 or len(context.site.product.all_fields) < FEW_FIELDS / POOR):
            return None
        key, most = (crawl_id, content_hash(product.data)), 1 if poor else ALIKE_MOST
        if self._alike_too_often(key, product, most):
            value = next((text for text in product.data.values() if isinstance(text, str)), "")
            return Doubt(f"other products' pages say the same: {value[:SHOWN_CHARS]}", None)
        return Doubt(poor, fields) if poor else None

    def poor(
        self,
        page: LeasedPage,
        extracted: Extracted,
        context: CrawlContext,
        *,
        other_proxies: bool = False,
    ) -> str:
        """What to say of a product page with half of its fields or less, or of the usual ones where
        it was never read; "" of others. Of the first pages nobody knows what is usual yet: of
        those with few fields, where few are required, the second try decides. Where there are
        `other_proxies` to ask, they are held against the definition."""
        if page.kind is not Kind.PRODUCT or not extracted.products:
            return ""
        fields, asked = extracted.fields_found, len(context.site.product.all_fields)
        before = min(page.last_item_count, asked)
        pages, usual = self._usual.get(page.crawl_id, (0, 0.0))
        if other_proxies:
            usual += (asked - usual) * (1 - USUAL_MOVES) ** pages
        elif not before and pages < FIRST_PAGES and not page.attempts:
            required = sum(spec.required for spec in context.site.product.all_fields.values())
            judged = asked >= FEW_FIELDS / POOR and required < FEW_FIELDS
            usual = FEW_FIELDS / POOR if judged else 0.0
        usual = before or usual
        if fields > POOR * usual or usual <= 1:
            return ""
        return f"{fields} of {'its' if before else 'the usual'} {usual:.0f} fields"

    def _alike_too_often(self, key: tuple[int, object], product: Product, most: int) -> bool:
        """Whether more products than that had the same content in a crawl."""
        ids = self._alike.get(key)
        if ids is None:
            _forget_oldest(self._alike, ALIKE_MAX)
            ids = self._alike[key] = set()
        if len(ids) <= ALIKE_MOST:
            ids.add(product.external_id)
        return len(ids) > most

    def of(
        self, page: LeasedPage, fetched: Fetched, extracted: Extracted, context: CrawlContext
    ) -> FieldObservations | None:
        """None for a page that promised no product."""
        items = extracted.items
        records = (
            items.records
            if items is not None
            else len(extracted.products)
            or int(not extracted.complete and page.kind is Kind.PRODUCT)
        )
        if not records:
            return None
        fields = context.site.product.all_fields
        pages, usual = self._usual.get(page.crawl_id, (0, 0.0))
        if not pages:
            _forget_oldest(self._usual, CRAWLS_KEPT)
        moves = max(USUAL_MOVES, 1 / (pages + 1))
        usual += moves * (extracted.fields_found - usual)
        self._usual[page.crawl_id] = pages + 1, usual
        by_id = items.by_id if items is not None else None
        if len(extracted.found) == len(fields) * records:
            return FieldObservations(
                records, extracted.found, extracted.mistyped, votes=extracted.votes, by_id=by_id
            )
        missing = self._missing.get(page.crawl_id)
        if missing is None:
            _forget_oldest(self._missing, CRAWLS_KEPT)
            missing = self._missing[page.crawl_id] = {}
        wanted = []
        for name in fields.keys() - extracted.found:
            times = missing[name] = missing.get(name, 0) + 1
            if times <= 3 or times & (times - 1) == 0:
                wanted.append(name)
        examples = _examples(wanted[:EXAMPLES_A_PAGE], page, fetched, extracted) if wanted else ()
        return FieldObservations(
            records, extracted.found, extracted.mistyped, examples, extracted.votes, by_id
        )


def _forget_oldest(kept: dict[Any, Any], most: int) -> None:
    """Makes room for one more."""
    while len(kept) >= most:
        del kept[next(iter(kept))]


def _examples(
    names: list[str], page: LeasedPage, fetched: Fetched, extracted: Extracted
) -> tuple[Example, ...]:
    shown = make_excerpt(fetched.body)
    problems = {
        problem.partition(": ")[0]: problem.partition(": ")[2] for problem in extracted.problems
    }
    return tuple(
        Example(name, page.url, problems.get(name, "nothing matched"), shown) for name in names
    )
