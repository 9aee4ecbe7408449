"""Product pages with the anatomy of real ones, of any size, and what they show.

By bytes, as 61 saved pages of 25 shops have it: a quarter scripts (the page's state as JSON among
them), an eighth styles, a twelfth inline SVG; the rest is menus, the product, and recommendations,
with an element each 120 bytes. Sizes are log-normal, as in shops: half of the pages are above the size
that is asked for, a tenth above 2.5 times that size, and what a page's state holds varies, too. Styles, SVG,
menus and most scripts are the shop's, the same on each page.
"""

from __future__ import annotations

import json
import math
from functools import lru_cache
from random import Random
from typing import Any

PAGE_SIZE = 24
STYLES, ICONS, SCRIPTS, STATE, MENU = 0.12, 0.08, 0.13, 0.1, 0.2
# ln(2.5) / 1.28: a tenth is above 2.5 times the median.
SPREAD = 0.715
SIZE_MAX = 4_000_000
WORDS = [
    "basalt", "copper", "linen", "walnut", "stonewear", "harbour", "meadow", "ember", "frost",
    "willow", "cobalt", "saffron", "garden", "kitchen", "studio", "vintage", "classic", "modern",
    "slim", "round", "compact", "heavy", "light", "double", "single", "cotton", "leather",
    "ceramic", "bamboo", "glass", "steel", "brass", "wool", "silk", "velvet", "canvas", "oak",
    "birch", "marble",
]  # fmt: skip
FIELDS = {
    "jsonld": ("name", "price", "currency", "brand", "sku", "gtin", "availability", "description"),
    "tree": ("title", "name", "image", "price", "crumbs", "pictures", "cells", "description"),
}


def fields_of(read: str) -> tuple[str, ...]:
    return FIELDS.get(read, FIELDS["tree"])


def size_of(number: int, median: int) -> int:
    """A page's size, of a shop whose pages have this median."""
    size = Random(f"size {number}").lognormvariate(math.log(median), SPREAD)
    return int(min(max(size, median / 10), SIZE_MAX))


def product_page(number: int, median: int, shop: str) -> bytes:
    rng = Random(number)
    facts = product(number, shop)
    size = size_of(number, median)
    # Pages of about the same size share their frame.
    head, menu, icons, foot = _frame(int(median * 2 ** round(math.log2(size / median))))
    objects = int(rng.uniform(0, 2 * STATE) * size / 170)
    state = {"product": facts, "noise": [_object(rng) for _ in range(objects)]}
    parts = [
        f"<!doctype html><html lang=en><head><meta charset=utf-8><title>{facts['title']}</title>",
        f'<link rel="canonical" href="{shop}/p/{number}">',
        f'<meta property="og:image" content="{facts["image"]}">',
        head,
        _jsonld(facts),
        f"<script>window.__STATE__={json.dumps(state)}</script></head><body>",
        icons,
        menu,
        _main(facts),
    ]
    # The product's own part is small: recommendations fill what is left.
    left = size - sum(map(len, parts)) - len(foot)
    while left > 0:
        parts.append(_card(rng))
        left -= len(parts[-1])
    return "".join((*parts, foot)).encode()


def listing_page(number: int, products: int) -> bytes:
    last = listings(products)
    first = (number - 1) * PAGE_SIZE + 1
    links = "".join(
        f'<li><a class="product-link" href="/p/{n}">Product {n}</a></li>'
        for n in range(first, min(first + PAGE_SIZE, products + 1))
    )
    return (
        "<!doctype html><title>All</title><ul>"
        f"{links}</ul><div class=pager><span class=count>Page {number} of {last}</span></div>"
    ).encode()


def listings(products: int) -> int:
    return -(-products // PAGE_SIZE)


def product(number: int, shop: str) -> dict[str, Any]:
    rng = Random(-number)
    name = _words(rng, 3).title()
    return {
        "id": str(number),
        "title": f"{name} | Shop",
        "name": name,
        "image": f"{shop}/images/{number}/large.jpg",
        "price": f"{rng.randrange(1000)}.{rng.randrange(100):02}",
        "currency": "EUR",
        "brand": _words(rng, 1).title(),
        "sku": f"SKU-{number:06}",
        "gtin": f"{4_000_000_000_000 + number}",
        "availability": "https://schema.org/InStock",
        "description": _words(rng, 60) + ".",
        "crumbs": ["Home", *(_words(rng, 1).title() for _ in range(3))],
        "pictures": [f"/images/{number}/{n}.jpg" for n in range(6)],
        "cells": [_words(rng, 2) for _ in range(24)],
    }


def _main(facts: dict[str, Any]) -> str:
    crumbs = "".join(f'<a class="crumb" href="/c/{c}">{c}</a>' for c in facts["crumbs"])
    pictures = "".join(f'<img loading="lazy" src="{p}" alt="">' for p in facts["pictures"])
    cells = facts["cells"]
    rows = "".join(
        f"<tr><td>{cells[at]}</td><td>{cells[at + 1]}</td></tr>" for at in range(0, len(cells), 2)
    )
    return (
        f'<main><nav class="site-crumbs breadcrumb">{crumbs}</nav><div class="gallery">{pictures}'
        f'</div><h1>{facts["name"]}</h1><div class="buy box"><span class="price">{facts["price"]}'
        f'</span></div><div class="description"><p>{facts["description"]}</p></div>'
        f'<table class="specs"><tbody>{rows}</tbody></table></main>'
    )


def _jsonld(facts: dict[str, Any]) -> str:
    crumbs = [
        {"@type": "ListItem", "position": at, "name": name}
        for at, name in enumerate(facts["crumbs"], 1)
    ]
    offer = {"@type": "Offer", "price": facts["price"], "priceCurrency": facts["currency"]}
    objects: list[dict[str, Any]] = [
        {"@type": "Organization", "name": "Shop"},
        {"@type": "BreadcrumbList", "itemListElement": crumbs},
        {
            "@type": "Product",
            "name": facts["name"],
            "sku": facts["sku"],
            "gtin13": facts["gtin"],
            "brand": {"@type": "Brand", "name": facts["brand"]},
            "description": facts["description"],
            "image": facts["pictures"],
            "offers": offer | {"availability": facts["availability"]},
        },
    ]
    return "".join(
        '<script type="application/ld+json">'
        + json.dumps({"@context": "https://schema.org"} | thing)
        + "</script>"
        for thing in objects
    )


@lru_cache(maxsize=8)
def _frame(size: int) -> tuple[str, str, str, str]:
    """The head, menu, icons and foot that all pages of a size share."""
    rng = Random(size)
    rules = _fill(
        size * STYLES,
        lambda: (
            f".{_words(rng, 1)}-{rng.randrange(999)}:hover>.{_words(rng, 1)}{{margin:"
            f"{rng.randrange(40)}px;color:#{rng.randrange(16**6):06x};display:flex}}"
        ),
    )
    code = _fill(
        size * SCRIPTS,
        lambda: (
            f'function {_words(rng, 1)}{rng.randrange(999)}(e,t){{return e<t?"{_words(rng, 1)}'
            f'</div>":window.{_words(rng, 1)}.push({rng.randrange(9999)})}}'
        ),
    )
    icons = _fill(
        size * ICONS,
        lambda: (
            f'<symbol id="i{rng.randrange(999)}" viewBox="0 0 24 24"><path d="M'
            + " ".join(f"{rng.uniform(-9, 24):.3f}" for _ in range(30))
            + 'z"/></symbol>'
        ),
    )
    menu = _fill(
        size * MENU,
        lambda: (
            f'<li class="menu__item menu__item--level-{rng.randrange(4)}"><a class="menu__link" '
            f'href="https://shop.example/c/{_words(rng, 1)}/{_words(rng, 1)}" data-track="menu '
            f'{rng.randrange(10**6)}">{_words(rng, 2)}</a></li>'
        ),
    )
    return (
        f"<style>{rules}</style><script>{code}</script>",
        f'<header><ul class="menu">{menu}</ul></header>',
        f'<svg style="display:none">{icons}</svg>',
        "<footer><p>Shop</p></footer></body></html>",
    )


def _card(rng: Random) -> str:
    slug = f"{_words(rng, 1)}-{_words(rng, 1)}-{rng.randrange(99_999)}"
    return (
        f'<div class="card card--small col-6 col-md-3" data-id="{rng.randrange(10**6)}">'
        f'<a class="card__link" href="/x/{slug}" data-track=\'{json.dumps(_object(rng))}\'><picture>'
        f'<source type="image/webp" srcset="{_sources(slug, "webp")}"><img class="card__image" '
        f'loading="lazy" srcset="{_sources(slug, "jpg")}" alt="{_words(rng, 3)}">'
        f'</picture><span class="card__title">{_words(rng, 4)}</span></a>'
        f'<div class="card__meta"><span class="card__amount">{rng.randrange(999)}.90</span>'
        f'<button class="btn btn--icon" aria-label="{_words(rng, 2)}"></button></div></div>'
    )


def _sources(slug: str, kind: str) -> str:
    return ", ".join(f"https://img.shop.example/{slug}-{w}.{kind} {w}w" for w in (320, 640, 1280))


def _object(rng: Random) -> dict[str, Any]:
    return {
        "id": rng.randrange(10**9),
        "slug": f"{_words(rng, 1)}-{_words(rng, 1)}",
        "text": _words(rng, 6),
        "price": {"value": rng.randrange(10**4) / 100, "currency": "EUR"},
        "flags": [True, False, None],
    }


def _fill(size: float, make: Any) -> str:
    parts, length = [], 0
    while length < size:
        parts.append(make())
        length += len(parts[-1])
    return "".join(parts)


def _words(rng: Random, number: int) -> str:
    return " ".join(rng.choice(WORDS) for _ in range(number))
