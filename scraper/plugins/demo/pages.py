"""The sample shop's HTML, XML and robots.txt, written from a `ShopGeneration`. No sockets.

Links are spelled in every way that real shops use: relative, absolute, with fragments, with
tracking parameters.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from decimal import Decimal
from html import escape

from scraper.plugins.demo import words
from scraper.plugins.demo.catalogue import ShopGeneration, ShopItem, count_pages

PAGE_SIZE = 24
SITEMAP_SIZE = 500

_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;margin:0;color:#222;background:#fafafa}
header,footer{background:#123;color:#eee;padding:12px 24px}header a,footer a{color:#9cf;\
margin-right:14px}
main{max-width:980px;margin:24px auto;padding:0 16px}.crumbs{font-size:13px;color:#666}.crumbs \
li{display:inline}
.grid{display:grid;grid-template-columns:repeat(4,1fr);gap:16px}.tile{background:#fff;\
padding:12px;border-radius:6px}
.product{display:grid;grid-template-columns:1fr 1fr;gap:24px;background:#fff;padding:24px;\
border-radius:8px}
.price{font-size:24px;font-weight:600;color:#b12}.old{color:#888;text-decoration:line-through}\
.rating{color:#c80}
.specs td{padding:4px 12px 4px 0;border-bottom:1px solid #eee}.pager{margin:24px 0;display:flex;\
gap:16px}
.button{background:#063;color:#fff;padding:8px 18px;border-radius:4px;text-decoration:none;\
display:inline-block}
"""

_DELIVERY = """\
<p>We deliver within the European Union, the United Kingdom, Switzerland &amp; Norway. \
Orders placed
before 2 p.m. on a working day leave our warehouse on the same day. Bulky goods come on a pallet; \
the carrier calls
first.</p><p>You may send anything back within 30 days, unused &amp; in its packaging. We pay for \
the label. The money
is on your account within a week. Batteries &amp; lamps go back to us free of charge at the end \
of their lives.</p>"""

_PRAISE = (
    "Just what I was looking for, and it came a day early. "
    "The packaging was paper only, which I liked a lot.",
    "Good value. I'd buy it again & again, and I have shown it to all of my colleagues already.",
    "Looks just like on the picture. "
    "A bit smaller than I had thought, so do read the measurements first.",
    "Wie beschrieben, schnelle Lieferung, gerne wieder! "
    "Für den Preis gibt es wirklich nichts zu meckern.",
    "My third one from this shop. "
    "The first two still work; this one was a present for my neighbour's son.",
)


def format_money(amount: Decimal, currency: str) -> str:
    """Formats an amount as the shop does: 1.299,90 € (with a no-break space), $1,299.90."""
    plain = f"{amount:,.2f}"
    if currency == "EUR":
        return plain.translate(str.maketrans(",.", ".,")) + "\u00a0€"
    return {"USD": "$", "GBP": "£"}[currency] + plain


def _write_page(title: str, body: str, head: str = "") -> bytes:
    menu = "".join(
        f'<a href="/c/{key}?page=1">{escape(name)}</a>' for key, name in words.CATEGORIES.items()
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{escape(title)} | Sample Shop</title>\n"
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style>\n'
        f"{head}</head>\n<body>"
        f'<header><a href="/">The Sample Shop</a><nav class="menu">{menu}'
        '<a href="/c/sale?page=1">Sale %</a></nav>'
        '<form action="/search"><input name="q" placeholder="Search"></form>'
        '<a href="/basket">Basket</a></header>\n'
        f"<main>{body}</main>\n<footer>"
        "<p>&copy; The Sample Shop. All products are invented; prices include VAT.</p>"
        '<a href="/imprint">Imprint</a><a href="/basket?from=footer">Basket</a>'
        '<a href="mailto:shop@example.com">Mail</a><a href="javascript:void(0)">Cookies</a>'
        "</footer></body></html>\n"
    ).encode()


def home_page(generation: ShopGeneration) -> bytes:
    """Returns the front page, with links to all listings."""
    body = (
        f"<h1>Welcome!</h1><p>{len(generation.items)} products.</p>"
        '<a class="button" href="all?page=1">See all</a>'
    )
    return _write_page("Welcome", body)


def listing_page(generation: ShopGeneration, name: str, number: int, base_url: str) -> bytes | None:
    """Returns a listing page of 24 products; None after the last page."""
    ids = generation.listings[name]
    last = count_pages(len(ids), PAGE_SIZE)
    if not 1 <= number <= last:
        return None
    shown = ids[(number - 1) * PAGE_SIZE : number * PAGE_SIZE]
    up = "" if name == "all" else "../"
    tiles = "".join(_write_tile(generation, i, up, base_url) for i in shown)
    title = words.CATEGORIES.get(name, "Sale %" if name == "sale" else "All products")
    before = f'<a class="prev" href="?page={number - 1}">‹ Previous</a>' if number > 1 else ""
    after = (
        f'<a class="next" rel="next" href="?page={number + 1}">Next ›</a>' if number < last else ""
    )
    count = f'<span class="count">Page {number} of {last}</span>'
    pager = f'<div class="pager">{before}{count}{after}</div>'
    return _write_page(title, f'<h1>{escape(title)}</h1><div class="grid">{tiles}</div>{pager}')


def _write_tile(generation: ShopGeneration, number: int, up: str, base_url: str) -> str:
    item = generation.items.get(number)
    path = generation.gone[number] if item is None else item.linked_path
    name = "No longer available" if item is None else item.name
    price = (
        ""
        if item is None
        else f'<span class="tile-price">{format_money(item.price, item.currency)}</span>'
    )
    href = escape(_spell_url(path, number, up, base_url))
    link = f'<a class="product-link" href="{href}">{escape(name)}</a>'
    return f'<article class="tile"><h3>{link}</h3>{price}</article>'


def _spell_url(path: str, number: int, up: str, base_url: str) -> str:
    """Returns the URL in one of six spellings, which depends on the product and the listing."""
    match (number + len(up)) % 6:
        case 0:
            return base_url + path
        case 1:
            return f"{up}{path[1:]}"
        case 2:
            return f"{path}?utm_source=listing&utm_medium=tile"
        case 3:
            return f"{path}#reviews"
        case 4:
            return f"{base_url}{path}?utm_campaign=autumn%20sale&gclid=x{number}#top"
        case _:
            return path


def product_page(item: ShopItem, related: Iterable[ShopItem], base_url: str) -> bytes:
    """Returns a product page of about 7 KB. The related products show prices too, so that a loose
    selector matches the wrong one."""
    old = (
        ""
        if item.old_price is None
        else f'<s class="old">{format_money(item.old_price, item.currency)}</s>'
    )
    text = escape(item.description)
    tiles = "".join(map(_write_related, related))
    body = f"""
<nav><ul class="crumbs"><li><a href="/">Home</a></li> › <li class="category"><a \
href="/c/{item.category}?page=1">\
{escape(words.CATEGORIES[item.category])}</a></li> › <li>{escape(item.name)}</li></ul></nav>
<article class="product" data-id="{item.id}">
<div><img src="/img/{item.id}.jpg" alt="{escape(item.name)}" width="460" height="460"></div>
<div><p class="brand">{escape(item.brand)}</p>
<h1>
    {escape(item.name)}
</h1>
<p class="rating" data-rating="{item.rating}" title="{item.rating} of 5">★★★★★
<a href="#reviews">{item.reviews} reviews</a></p>
<p><span class="price">{format_money(item.price, item.currency)}</span> {old}</p>
<p class="availability">{"In stock" if item.stock else "Sold out"}</p>
<p class="stock">Only {item.stock} left in our warehouse</p>
<a class="button" href="/basket?add={item.id}">Add to basket</a>
<table class="specs"><tr><td>Article no.</td><td class="sku">{item.sku}</td></tr>
<tr><td>Delivery</td><td>2–4 working days</td></tr><tr><td>Returns</td><td>30 days, free of \
charge</td></tr></table>
</div></article>
<section><h2>Description</h2><p class="description">{text}</p></section>
<section><h2>Delivery &amp; returns</h2>{_DELIVERY}</section>
<section id="reviews"><h2>What customers say</h2>{_write_reviews(item)}</section>
<section class="related"><h2>Others bought</h2><div class="grid">{tiles}</div></section>"""
    return _write_page(item.name, body, _write_jsonld(item, base_url))


def _write_related(item: ShopItem) -> str:
    return (
        f'<article class="tile"><a href="{escape(item.path)}?utm_source=related">'
        f"{escape(item.name)}</a>"
        f'<p class="price">{format_money(item.price, item.currency)}</p></article>'
    )


def _write_reviews(item: ShopItem) -> str:
    reviews = ((_PRAISE[(item.id + n) % len(_PRAISE)], item.reviews + n) for n in range(4))
    return "".join(
        f"<blockquote><p>{escape(text)}</p><cite>Customer {who}</cite></blockquote>"
        for text, who in reviews
    )


def _write_jsonld(item: ShopItem, base_url: str) -> str:
    data = {
        "@context": "https://schema.org",
        "@type": "Product",
        "name": item.name,
        "sku": item.sku,
        "productID": str(item.id),
        "description": item.description,
        "image": f"{base_url}/img/{item.id}.jpg",
        "brand": {"@type": "Brand", "name": item.brand},
        "aggregateRating": {
            "@type": "AggregateRating",
            "ratingValue": str(item.rating),
            "reviewCount": item.reviews,
        },
        "offers": {
            "@type": "Offer",
            "price": str(item.price),
            "priceCurrency": item.currency,
            "availability": f"https://schema.org/{'InStock' if item.stock else 'SoldOut'}",
            "url": base_url + item.path,
        },
    }
    # A name such as "</script>" would end the script early.
    text = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")
    return f'<script type="application/ld+json">{text}</script>'


def notice_page(title: str, text: str) -> bytes:
    return _write_page(title, f"<h1>{escape(title)}</h1><p>{escape(text)}</p>")


def robots_text(base_url: str) -> bytes:
    rules = "User-agent: *\nDisallow: /basket\nDisallow: /search\n"
    return f"{rules}\nSitemap: {base_url}/sitemap.xml\n".encode()


def write_sitemaps(generation: ShopGeneration, base_url: str) -> dict[str, bytes]:
    """Returns every sitemap by its path: an index, and gzip files of the listings and of each 500
    products."""
    lists = [
        f"/{name}?page=1" if name == "all" else f"/c/{name}?page=1" for name in generation.listings
    ]
    items = [item.path for item in generation.items.values()]
    parts = {"/sitemaps/listings.xml.gz": lists}
    for start in range(0, len(items), SITEMAP_SIZE):
        parts[f"/sitemaps/products-{start // SITEMAP_SIZE + 1}.xml.gz"] = items[
            start : start + SITEMAP_SIZE
        ]
    sitemaps = {
        path: gzip.compress(_write_urlset("urlset", "url", base_url, part), mtime=0)
        for path, part in parts.items()
    }
    sitemaps["/sitemap.xml"] = _write_urlset("sitemapindex", "sitemap", base_url, list(parts))
    return sitemaps


def _write_urlset(root: str, entry: str, base_url: str, paths: list[str]) -> bytes:
    lines = "".join(f"<{entry}><loc>{escape(base_url + path)}</loc></{entry}>\n" for path in paths)
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<{root} xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n{lines}</{root}>\n'
    ).encode()
