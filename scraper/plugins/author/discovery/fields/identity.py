"""The id of a product: a number in its URL, else the shop's own number on the page. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from scraper.plugins.author.discovery.fields.induction import FieldChoice
from scraper.plugins.author.discovery.fields.samples import ProductSample

_NUMBER = re.compile(r"\d+")
# Fields of the form that puts a product into the cart.
_HIDDEN_NAMES = (
    "product_id",
    "id_product",
    "products_id",
    "product-id",
    "productId",
    "add-to-cart",
)
_PARAMETER = re.compile(r"(?:[?&])((?:[a-z_]*id|sku|art|artnr|item|p|product))=([\w-]+)", re.I)


def choose_id(
    urls: Sequence[str], fields: Mapping[str, FieldChoice], samples: Sequence[ProductSample]
) -> dict[str, str] | None:
    """Returns `product.id` of a definition; None where only the whole URL identifies a product."""
    pattern = _find_parameter(urls) or _find_number(urls)
    if pattern is not None:
        return {"url": pattern}
    hidden = _find_hidden_number(fields, samples)
    if hidden is not None:
        return {"css": hidden}
    sku = fields["sku"].best
    if sku is not None and None not in sku.values and len(set(sku.values)) == len(sku.values):
        source = sku.candidate.source
        return {key: str(value) for key, value in source.items()}
    slug = r"/([^/?#]+?)(?:\.\w+)?/?(?:[?#]|$)"
    return {"url": slug} if _is_unique(slug, urls) else None


def _find_hidden_number(
    fields: Mapping[str, FieldChoice], samples: Sequence[ProductSample]
) -> str | None:
    """Returns CSS of the number that the product's form sends to the cart. Products of different
    titles must have different numbers."""
    titles = fields["title"].best if len(samples) > 1 else None
    if titles is None:
        return None
    distinct = len({str(title) for title in titles.values})
    for name in _HIDDEN_NAMES:
        css = f'input[name="{name}"]'
        numbers = []
        for sample in samples:
            element = sample.document.dom.css_first(css)
            numbers.append(element.attributes.get("value") if element is not None else None)
        if all(numbers) and len(set(numbers)) >= max(2, distinct):
            return f"{css}::attr(value)"
    return None


def find_repeated_parameter(urls: Sequence[str]) -> str | None:
    """Returns a pattern for the parameter that may identify products that have several addresses:
    more than half of the addresses have a value of their own. Only reading them can prove it."""
    pattern = _find_common_parameter(urls)
    if pattern is None:
        return None
    values = {match[1] for url in urls if (match := re.search(pattern, url))}
    return pattern if len(values) * 2 > len(urls) else None


def _find_parameter(urls: Sequence[str]) -> str | None:
    pattern = _find_common_parameter(urls)
    return pattern if pattern is not None and _is_unique(pattern, urls) else None


def _find_common_parameter(urls: Sequence[str]) -> str | None:
    matches = [_PARAMETER.search(url) for url in urls]
    names = {match[1] if match is not None else None for match in matches}
    if len(names) != 1 or None in names:
        return None
    return rf"[?&]{names.pop()}=([\w-]+)"


def _find_number(urls: Sequence[str]) -> str | None:
    """Returns a pattern for the number that differs from URL to URL, by the text around it.

    Numbers at the start of a folder or file come first, then the others from the end.
    """
    if not urls:
        return None
    start = len(urlsplit(urls[0])._replace(path="", query="", fragment="").geturl())
    first = urls[0]
    numbers = list(_NUMBER.finditer(first, start))
    leading = [match for match in numbers if first[match.start() - 1] == "/"]
    for match in (*leading, *(match for match in reversed(numbers) if match not in leading)):
        before, after = first[: match.start()], first[match.end() :]
        folder = re.search(r"/[A-Za-z][\w-]*/$", before)
        begins = [folder[0]] if folder is not None and folder.start() >= start else []
        # An ending, the file in a folder, or the separator after the number.
        tail = re.match(r"\.\w+$|/index\.\w+$|/$|[/._?-]|$", after)
        ends = [] if tail is None else [re.escape(tail[0]) + ("" if tail[0] else "$")]
        for begin in (*begins, before[-1:]):
            # After a hyphen, a small number is part of the title: "no-3".
            digits = r"\d{3,}" if begin == "-" else r"\d+"
            for end in (*ends, ""):
                pattern = f"{re.escape(begin)}({digits}){end}"
                pattern = pattern.replace("\\-", "-").replace("\\_", "_")
                if _is_unique(pattern, urls):
                    return pattern
    return None


def _is_unique(pattern: str, urls: Sequence[str]) -> bool:
    matches = [re.search(pattern, url) for url in urls]
    numbers = [match[1] for match in matches if match is not None]
    # A product in two categories has the same last part below two folders.
    names = {url.rstrip("/").rsplit("/", 1)[-1] for url in urls}
    repeated = len(set(numbers)) == len(names) and len(names) * 2 > len(urls)
    return len(numbers) == len(urls) > 0 and (repeated or len(set(numbers)) == len(urls))
