"""What every contender crawls for: the sample shop's eight fields, here as a site definition, with
no pace to wait for."""

FIELDS = ("name", "price", "brand", "sku", "stock", "available", "category", "description")

DEFINITION = """
name: bench
start: {shop}/all?page=1
rate: unlimited
concurrency: {concurrency}
revisit: 0s
allow_private: true
listing:
  products: a.product-link
  pages: {{css: .pager .count, regex: "of (\\\\d+)", url: "?page={{page}}"}}
product:
  id: {{url: "/p/(\\\\d+)-"}}
  fields:
    name: {{css: h1, required: true}}
    price: {{css: ".product .price", type: price, required: true}}
    brand: {{css: .brand}}
    sku: {{css: td.sku}}
    stock: {{css: .stock, regex: "Only (\\\\d+) left", type: int}}
    available: {{css: .availability, type: bool, when: In stock}}
    category: {{css: .crumbs .category}}
    description: {{css: p.description}}
"""


def definition(shop: str, concurrency: int = 64) -> str:
    """The YAML text for a shop that listens at `shop`."""
    return DEFINITION.format(shop=shop, concurrency=concurrency)
