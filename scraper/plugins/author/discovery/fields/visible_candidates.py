"""Candidates that read what a product page shows: selectors for the elements that may hold a field.
Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from selectolax.lexbor import LexborNode

from scraper.extract.heuristics.buying import read_buying_label
from scraper.plugins.author.discovery.css_paths import find_paths
from scraper.plugins.author.discovery.fields.samples import ProductSample, image_name, plain_text
from scraper.plugins.author.discovery.fields.standard import Candidate
from scraper.plugins.author.discovery.fields.visible_elements import (
    find_availabilities,
    find_breadcrumbs,
    find_descriptions,
    find_former_prices,
    find_named_elements,
    find_prices,
    find_ratings,
    find_titles,
)

PATHS_MAX = 14
ELEMENTS_MAX = 40
# A label such as "Brand:" outlasts names of classes, and breaks in other languages.
LABEL_RANK = 3
# An <h1> without its inner elements.
HEADING_TEXT_RANK = 3
HEADINGS_MAX = 2
ATTRIBUTE_RANK = 4
# A word in a text says nothing about the element that holds it.
STOCK_WORD_RANK = 7
# A button says that a product is available only by being there.
BUTTON_RANK = 8
STOCK_WORD_CHARS_MIN = 4
RATING_TEXT_CHARS_MAX = 60
IMAGE_TITLE_CHARS_MIN = 3

# Fields that many products lack.
LACKED_FIELDS = frozenset({"gtin", "mpn", "brand"})
# Attributes of any element that say what they hold.
_ATTRIBUTES = {
    "sku": ("data-sku", "data-product-sku", "data-product_sku", "data-article-number"),
    "gtin": ("data-gtin", "data-ean"),
    "brand": ("data-brand", "data-product-brand"),
}
_IMAGE_ATTRIBUTES = ("data-zoom-image", "data-large_image", "data-src", "src")
_RATING_ATTRIBUTES = (
    *("data-rating", "data-score", "data-value"),
    *("aria-label", "title", "content"),
)
NUMBERS = {"one": 1, "two": 2, "three": 3, "four": 4, "five": 5}
_STARS = re.compile(
    r"(?:rating|stars?|note|bewertung|score)[\s_-]+(one|two|three|four|five|[0-5])\b", re.I
)
_OUT_OF = re.compile(
    r"(\d(?:[.,]\d+)?)\s*(?:/|out of|von|of|sur|de|di|av|su|van|z)\s*(?:5|10|cinq)\b", re.I
)
# A number and what is counted. The cents of a price are not a number of their own.
_COUNTED = re.compile(r"(?<![\d.,])(\d+)\s*(\w+(?: \w+)?)")
# The end of a regex for a text that follows its label.
_REST = r"(\S.*)"
_POSITIONS_FROM_END = (
    *(f"nth-last-child({number})" for number in (1, 2, 3)),
    *(f"nth-last-of-type({number})" for number in (1, 2)),
)


def visible_candidates(name: str, sample: ProductSample) -> Iterator[Candidate]:
    if name == "category":
        yield from _read_breadcrumbs(sample)
    yield from _read_labels(name, sample)
    match name:
        case "title":
            yield from _read_titles(sample)
        case "price":
            yield from _select_elements(sample, find_prices(sample))
        case "list_price":
            # Many products have no list price. More selectors are tried, since one that matches
            # another product's price there is wrong.
            yield from _select_elements(sample, find_former_prices(sample), paths_max=3 * PATHS_MAX)
        case "availability":
            stating = find_availabilities(sample)
            yield from _select_elements(sample, stating)
            yield from _read_stock_words(sample, stating)
            yield from _read_buttons(sample)
        case "stock":
            yield from _read_stock_counts(sample)
        case "image":
            yield from _read_images(sample)
        case "description":
            yield from _select_elements(sample, find_descriptions(sample))
        case "rating":
            yield from _read_ratings(sample)
        case "sku" | "gtin" | "mpn" | "brand" | "category":
            for candidate in _select_elements(sample, find_named_elements(sample, name)):
                if _is_unambiguous(name, candidate, sample):
                    yield candidate
            for attribute in _ATTRIBUTES.get(name, ()):
                yield from _read_attribute(sample, attribute)


def _read_labels(name: str, sample: ProductSample) -> Iterator[Candidate]:
    for field_name, source, element in sample.labels:
        if field_name == name or (name, field_name) == ("availability", "delivery"):
            yield Candidate("label", source, LABEL_RANK)
            if element is not None:
                # An ancestor of the label's element contains the label too, and may match first.
                for candidate in _select_elements(
                    sample, [element], paths_max=2, regex=source["regex"]
                ):
                    if _is_unambiguous(name, candidate, sample):
                        yield candidate._replace(origin="label")
        elif name == "stock" and field_name == "availability":
            # The label's element may be within another one of its kind, with numbers before it or
            # after it.
            regex = source.get("regex", _REST).replace(_REST, r"\D{0,20}(\d+)")
            for candidate in _select_elements(
                sample, [element] if element is not None else (), paths_max=2, regex=regex
            ):
                yield candidate._replace(origin="label")
            wide = STOCK_WORD_RANK if element is not None else 0
            yield Candidate("label", {**source, "regex": regex}, LABEL_RANK + wide)


def _read_attribute(sample: ProductSample, attribute: str) -> Iterator[Candidate]:
    """Yields the attribute of any element if a single one has it: where a product lacks the value,
    another product's card may have one."""
    having = sample.document.dom.css(f"[{attribute}]")
    suffix = f"::attr({attribute})"
    if len(having) == 1:
        yield Candidate("page", {"css": f"[{attribute}]{suffix}"}, ATTRIBUTE_RANK)
    elif having:
        inside = {element.mem_id for element in sample.elements}
        own = [element for element in having if element.mem_id in inside][:1]
        for candidate in _select_elements(sample, own, suffix):
            yield candidate._replace(rank=candidate.rank + ATTRIBUTE_RANK)


def _is_unambiguous(name: str, candidate: Candidate, sample: ProductSample) -> bool:
    """Returns whether no neighbour's element would match where a product lacks the field."""
    return name not in LACKED_FIELDS or sample.count_matches(candidate.source["css"]) == 1


def _select_elements(
    sample: ProductSample,
    elements: Iterable[LexborNode],
    suffix: str = "",
    paths_max: int = PATHS_MAX,
    **options: Any,
) -> Iterator[Candidate]:
    """Yields selectors whose first match on the page is one of the elements."""
    for element in islice(elements, ELEMENTS_MAX):
        selecting = (
            path for path in find_paths(element) if sample.first_match(path.css) == element.mem_id
        )
        for path in islice(selecting, paths_max):
            # Of several matches, the first one may be another element on the next page.
            rank = path.rank + (sample.count_matches(path.css) > 1)
            own_step = re.split(r"[\s>+~]+", path.css)[-1]
            origin = "microdata" if own_step.startswith("[itemprop=") else "page"
            yield Candidate(origin, {"css": path.css + suffix, **options}, rank)


def _read_titles(sample: ProductSample) -> Iterator[Candidate]:
    yield from _select_elements(sample, find_titles(sample))
    for heading in sample.document.dom.css("h1")[:HEADINGS_MAX]:
        if any(heading.iter(include_text=False)):
            # An element within the heading may hold the brand.
            for candidate in _select_elements(sample, [heading], "::text"):
                yield candidate._replace(rank=candidate.rank + HEADING_TEXT_RANK - 1)


def _read_stock_words(sample: ProductSample, stating: Sequence[LexborNode]) -> Iterator[Candidate]:
    """Yields `:contains()` selectors, for elements that only their words mark.

    "lieferbar" is part of "nicht lieferbar" as well, so they rank low.
    """
    for element in stating[:ELEMENTS_MAX]:
        for word in re.findall(r"[^\W\d_]+", sample.text(element)):
            css = f'{element.tag}:contains("{word}")'
            if len(word) >= STOCK_WORD_CHARS_MIN and sample.first_match(css) == element.mem_id:
                yield Candidate("page", {"css": css}, STOCK_WORD_RANK)


def _read_buttons(sample: ProductSample) -> Iterator[Candidate]:
    """Yields the buying button, whose label differs where a product is sold out."""
    for element in sample.elements:
        label = read_buying_label(element) if element.tag in ("button", "a") else None
        if label is not None:
            when = re.escape(label).replace("\\ ", " ")
            for candidate in _select_elements(sample, [element], paths_max=3, when=when):
                yield candidate._replace(rank=candidate.rank + BUTTON_RANK)


def _read_stock_counts(sample: ProductSample) -> Iterator[Candidate]:
    for element in find_availabilities(sample):
        text = sample.text(element)
        match = _COUNTED.search(text)
        if match is not None:
            before = re.escape(text[: match.start()][-1:].strip())
            regex = rf"{before}(\d+) ?{re.escape(match[2].split()[0])}"
            yield from _select_elements(sample, [element], regex=regex)


def _read_images(sample: ProductSample) -> Iterator[Candidate]:
    """Yields images whose text is the product's title, or whose file is the card's."""
    card = plain_text(sample.card.title) if sample.card is not None else ""
    heading = plain_text(sample.heading)
    card_image = image_name(sample.card.image) if sample.card and sample.card.image else None
    for element in sample.elements:
        if element.tag != "img":
            continue
        text = plain_text(element.attributes.get("alt") or "")
        is_titled = len(text) >= IMAGE_TITLE_CHARS_MIN and (text == card or text in heading)
        for attribute in _IMAGE_ATTRIBUTES:
            url = element.attributes.get(attribute)
            if not url or url.startswith("data:"):
                continue
            if is_titled or (card_image is not None and image_name(url) == card_image):
                yield from _select_elements(sample, [element], f"::attr({attribute})")
                break


def _read_ratings(sample: ProductSample) -> Iterator[Candidate]:
    for element in islice(find_ratings(sample), ELEMENTS_MAX):
        yield from _read_stars(sample, element)
        for attribute in _RATING_ATTRIBUTES:
            text = element.attributes.get(attribute) or ""
            suffix = f"::attr({attribute})"
            if re.fullmatch(r"[0-5](?:[.,]\d+)?", text.strip()):
                yield from _select_elements(sample, [element], suffix)
            elif match := _OUT_OF.search(text):
                regex = _regex_before_maximum(match)
                yield from _select_elements(sample, [element], suffix, regex=regex)
        text = sample.text(element)
        if len(text) > RATING_TEXT_CHARS_MAX:
            continue
        if match := _OUT_OF.search(text):
            yield from _select_elements(sample, [element], regex=_regex_before_maximum(match))
        elif re.fullmatch(r"[0-5][.,]\d+", text):
            yield from _select_elements(sample, [element])


def _read_stars(sample: ProductSample, element: LexborNode) -> Iterator[Candidate]:
    """Yields ratings in the name of a class, such as `star-rating Three`."""
    classes = element.attributes.get("class") or ""
    match = _STARS.search(classes)
    if match is None:
        return
    prefix = re.escape(classes[match.start() : match.start(1)]).replace("\\-", "-")
    options: dict[str, Any] = {"regex": rf"{prefix}(\w+)".replace(r"\ ", " ")}
    if not match[1].isdigit():
        spell = str.lower if match[1].islower() else str.title
        options["map"] = {spell(word): number for word, number in NUMBERS.items()}
    yield from _select_elements(sample, [element], "::attr(class)", **options)


def _regex_before_maximum(match: re.Match[str]) -> str:
    """Returns the regex for the number before "of 5", "/ 10" and the like."""
    behind = match.string[match.end(1) : match.end()]
    return r"(\d(?:[.,]\d+)?)" + re.escape(behind).replace(r"\ ", r"\s*")


def _read_breadcrumbs(sample: ProductSample) -> Iterator[Candidate]:
    """Yields the last two links of a breadcrumb trail; the last one may be the page itself."""
    for trail, links in find_breadcrumbs(sample):
        for link in links[-2:]:
            yield from _select_elements(sample, [link])
            parent = link.parent
            if parent is None or parent.mem_id == trail.mem_id:
                parent = link
            inner = "" if parent.mem_id == link.mem_id else " a"
            for above in find_paths(trail)[:3]:
                for position in _POSITIONS_FROM_END:
                    css = f"{above.css} {parent.tag}:{position}{inner}"
                    if sample.first_match(css) == link.mem_id:
                        yield Candidate("page", {"css": css}, above.rank + 1)
