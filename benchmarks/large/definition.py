"""What is read of a large page: eight fields by JSON-LD alone, by CSS, or by XPath, lists, table
cells and attributes among them. They mean something on saved pages, too."""

from __future__ import annotations

READS = ("jsonld", "css", "xpath")
DEFINITION = """
name: bench
start: {shop}/all?page=1
rate: unlimited
concurrency: {concurrency}
revisit: 0s
allow_private: true
quality: none
listing:
  products: a.product-link
  pages: {{css: .pager .count, regex: "of (\\\\d+)", url: "?page={{page}}"}}
product:
  id: {{url: "/p/(\\\\d+)"}}
  fields:
"""
JSONLD = """
    name: {jsonld: name}
    price: {jsonld: offers.price}
    currency: {jsonld: offers.priceCurrency}
    brand: {jsonld: brand.name}
    sku: {jsonld: sku}
    gtin: {jsonld: gtin13}
    availability: {jsonld: offers.availability}
    description: {jsonld: description}
"""
CSS = """
    title: {css: title}
    name: {css: h1}
    image: {css: 'meta[property="og:image"]::attr(content)'}
    price: {css: .price}
    crumbs: {css: .breadcrumb a, many: true}
    pictures: {css: '.gallery img::attr(src)', many: true}
    cells: {css: table td, many: true}
    description: {css: .description p}
"""
CLASSED = "contains(concat(' ', normalize-space(@class), ' '), ' {} ')"
XPATH = f"""
    title: {{xpath: //title}}
    name: {{xpath: //h1}}
    image: {{xpath: "//meta[@property='og:image']/@content"}}
    price: {{xpath: "//*[{CLASSED.format("price")}]"}}
    crumbs: {{xpath: "//*[{CLASSED.format("breadcrumb")}]//a", many: true}}
    pictures: {{xpath: "//*[{CLASSED.format("gallery")}]//img/@src", many: true}}
    cells: {{xpath: //table//td, many: true}}
    description: {{xpath: "//*[{CLASSED.format("description")}]//p"}}
"""
FIELDS = {"jsonld": JSONLD, "css": CSS, "xpath": XPATH}

# A shop's pages have about the same fields, but saved pages are of many shops: without any that each
# page has, those with fewer would be asked for again. Only this application reads these.
SHARED = "".join(f"    of_url_{n}: {{url: '/p/(\\d+)'}}\n" for n in range(2))


def definition(shop: str, concurrency: int, read: str, *, saved: bool = False) -> str:
    head = DEFINITION.format(shop=shop, concurrency=concurrency)
    return head.rstrip() + FIELDS[read] + (SHARED if saved else "")
