"""Notes what product pages had, and finds product pages that the worker must not trust.

The observations travel with the settled page to its crawl's figures: which fields the page had, and
examples of pages that lacked one. A product page is doubtful if it has far fewer fields than it had
before or than its crawl's pages usually have, or if it shows what other products' pages show.
"""

from __future__ import annotations

from typing import Any, NamedTuple
from uuid import UUID

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
)
from scraper.results.excerpts import READ_BYTES, make_excerpt
from scraper.rules.decoding import decode_page

CRAWLS_KEPT = 64
EXAMPLES_A_PAGE = 10
SHOWN_CHARS = 80
# Each page moves the usual number of fields by this share of its distance.
USUAL_MOVES = 0.1
# A page with at most this share of the expected fields is sparse.
SPARSE_SHARE = 0.5
# After this many pages a crawl's usual number of fields is known.
FIRST_PAGES = 5
# This many products may have the same content.
ALIKE_MOST = 3
# The observer remembers this many bodies and contents.
ALIKE_MAX = 20_000
# An error page may match two fields by chance, so only definitions with at least twice as many show
# by their number of fields that a page is sparse.
CHANCE_FIELDS = 2
JUDGED_FIELDS = 4


class PageDoubt(NamedTuple):
    """Why a page is not trusted, and the number of fields to remember for it: the next crawl
    accepts the page with as many. None keeps the remembered number. `content` is the hash of what
    the page gave: its next try, which may be another process's, accepts the same."""

    reason: str
    last_item_count: int | None
    content: UUID | None = None


def is_sparse(fields: int, expected: float) -> bool:
    """Returns True if a page with that many fields has too few. With one expected field no number
    is too small: 4 of 8 fields are sparse, 5 of 8 and 0 of 1 are not."""
    return expected > 1 and fields <= SPARSE_SHARE * expected


class FieldObserver:
    """Counts, by crawl and field, how often the field was missing. One a process, used only on its
    loop.

    The first three pages without a field are examples, and then each one whose number is a power of
    two, so that a field that breaks in mid-crawl has examples too.
    """

    def __init__(self) -> None:
        self._missing: dict[int, dict[tuple[str, int], int]] = {}
        # By crawl: how many pages were read, and the moving average of their fields.
        self._usual: dict[int, tuple[int, float]] = {}
        # By crawl and content: the ids of the products that showed it.
        self._alike: dict[tuple[int, object], set[str]] = {}

    def find_doubt(
        self, page: LeasedPage, fetched: Fetched, extracted: Extracted, context: CrawlContext
    ) -> PageDoubt | None:
        """Returns why a product page is not trusted, or None if it is."""
        if page.kind is not Kind.PRODUCT or not extracted.products:
            return None
        # Without an id in the definition, a product's address is its id, and one product may have
        # several addresses.
        by_body = not fetched.captured and context.site.product.id is not None
        product, crawl_id = extracted.products[0], page.crawl_id
        if by_body and self._is_repeated(
            (crawl_id, xxh3_64_intdigest(fetched.body)), product, ALIKE_MOST
        ):
            text = f"the same {len(fetched.body):,} bytes as other products' pages"
            return PageDoubt(text, None)
        fields = extracted.fields_found
        sparse = self.sparse_reason(page, extracted, context)
        if not sparse and (fields > 1 or len(context.site.product.all_fields) < JUDGED_FIELDS):
            return None
        key, most = (crawl_id, product.content_hash), 1 if sparse else ALIKE_MOST
        if self._is_repeated(key, product, most):
            value = next((text for text in product.data.values() if isinstance(text, str)), "")
            return PageDoubt(f"other products' pages say the same: {value[:SHOWN_CHARS]}", None)
        # A page that says the same when it is requested again is a product with little to show,
        # unless that little may match by chance.
        again = page.attempts > 0 and page.doubted == product.content_hash
        believed = not sparse or (again and fields > CHANCE_FIELDS)
        return None if believed else PageDoubt(sparse, fields, product.content_hash)

    def sparse_reason(
        self,
        page: LeasedPage,
        extracted: Extracted,
        context: CrawlContext,
        *,
        other_proxies: bool = False,
    ) -> str:
        """Returns what to report of a product page with too few fields; "" for any other page.
        `other_proxies` as in `expected_fields`."""
        if page.kind is not Kind.PRODUCT or not extracted.products:
            return ""
        fields = extracted.fields_found
        expected = self.expected_fields(page, context, other_proxies=other_proxies)
        if not is_sparse(fields, expected):
            return ""
        usual = "its" if page.last_item_count else "the usual"
        lacking = ", ".join(sorted(context.site.product.all_fields.keys() - extracted.found))
        return f"{fields} of {usual} {expected:.0f} fields: without {lacking}"

    def expected_fields(
        self, page: LeasedPage, context: CrawlContext, *, other_proxies: bool = False
    ) -> float:
        """Returns how many fields a product page should have: as many as last time, or the crawl's
        usual number for a new page.

        The first pages of a crawl do not show yet what is usual. If other proxies can be asked
        (`other_proxies`), the number of defined fields fills in. Otherwise the first try of such a
        page expects `JUDGED_FIELDS` where the definition requires few fields; its second try
        decides.
        """
        all_fields = context.site.product.all_fields
        defined = len(all_fields)
        if page.last_item_count and defined:
            return min(page.last_item_count, defined)
        pages, usual = self._usual.get(page.crawl_id, (0, 0.0))
        if other_proxies:
            return usual + (defined - usual) * (1 - USUAL_MOVES) ** pages
        if pages >= FIRST_PAGES or page.attempts:
            return usual
        required = sum(spec.required for spec in all_fields.values())
        return JUDGED_FIELDS if defined >= JUDGED_FIELDS and required < CHANCE_FIELDS else 0.0

    def _is_repeated(self, key: tuple[int, object], product: Product, most: int) -> bool:
        """Returns True if more than `most` products of the crawl showed this content."""
        ids = self._alike.get(key)
        if ids is None:
            _forget_oldest(self._alike, ALIKE_MAX)
            ids = self._alike[key] = set()
        if len(ids) <= ALIKE_MOST:
            ids.add(product.external_id)
        return len(ids) > most

    def observe_page(
        self, page: LeasedPage, fetched: Fetched, extracted: Extracted, context: CrawlContext
    ) -> FieldObservations | None:
        """Returns which fields the page had; None for a page without products."""
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
        self._update_usual(page.crawl_id, extracted.fields_found)
        by_id = items.by_id if items is not None else None
        if len(extracted.found) == len(fields) * records:
            return FieldObservations(
                records, extracted.found, extracted.mistyped, votes=extracted.votes, by_id=by_id
            )
        names = self._count_missing(page, fields.keys() - extracted.found)
        examples = _make_examples(names, page, fetched, extracted) if names else ()
        return FieldObservations(
            records, extracted.found, extracted.mistyped, examples, extracted.votes, by_id
        )

    def _update_usual(self, crawl_id: int, fields: int) -> None:
        pages, usual = self._usual.get(crawl_id, (0, 0.0))
        if not pages:
            _forget_oldest(self._usual, CRAWLS_KEPT)
        share = max(USUAL_MOVES, 1 / (pages + 1))
        self._usual[crawl_id] = pages + 1, usual + share * (fields - usual)

    def _count_missing(self, page: LeasedPage, names: set[str]) -> list[str]:
        """Counts the missing fields, and returns those that need an example. Each try of a page is
        counted separately, since only the observations of its last one are stored."""
        missing = self._missing.get(page.crawl_id)
        if missing is None:
            _forget_oldest(self._missing, CRAWLS_KEPT)
            missing = self._missing[page.crawl_id] = {}
        wanted = []
        for name in names:
            key = name, page.attempts
            times = missing[key] = missing.get(key, 0) + 1
            if times <= 3 or times & (times - 1) == 0:
                wanted.append(name)
        return wanted[:EXAMPLES_A_PAGE]


def _forget_oldest(remembered: dict[Any, Any], most: int) -> None:
    """Makes room for one more entry."""
    while len(remembered) >= most:
        del remembered[next(iter(remembered))]


def _make_examples(
    names: list[str], page: LeasedPage, fetched: Fetched, extracted: Extracted
) -> tuple[Example, ...]:
    utf8 = decode_page(fetched.body, fetched.headers.get("content-type")).utf8
    excerpt, cut = make_excerpt(utf8), len(utf8) > READ_BYTES
    problems = {
        problem.partition(": ")[0]: problem.partition(": ")[2] for problem in extracted.problems
    }
    return tuple(
        Example(name, page.url, problems.get(name, "nothing matched"), excerpt, cut)
        for name in names
    )
