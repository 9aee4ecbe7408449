"""A shop whose pages have variants, with validators: what is in `variants` is on a product's page,
as a table and as JSON-LD."""

from __future__ import annotations

import json
from dataclasses import dataclass

from tests.support.shops.conditional_shop import ConditionalShop


@dataclass
class Variant:
    size: str
    price: str | None


class VariantShop(ConditionalShop):
    """`variants` of each product by their ids; a price of None is not shown. `broken`: further rows
    of a product's table, as written."""

    def __init__(self, products: int = 3) -> None:
        super().__init__(0)
        self.variants: dict[int, dict[str, Variant]] = {}
        self.rows: dict[int, str] = {}
        self.grow(products)

    def grow(self, products: int) -> None:
        """This many products, each in three sizes."""
        for number in range(len(self.prices) + 1, products + 1):
            self.prices[number] = f"{number}.90 €"
            self.listed.append(number)
            self.variants[number] = {
                f"{number}-{size}": Variant(size, f"{number}{at}.50 €")
                for at, size in enumerate("SML")
            }

    def body(self, number: int) -> bytes:
        rows = "".join(
            f'<tr data-sku="{sku}"><td class=size>{variant.size}</td>'
            + (f"<td class=amount>{variant.price}</td>" if variant.price else "<td></td>")
            + "</tr>"
            for sku, variant in self.variants[number].items()
        )
        more = self.more.get(number, "")
        self.more[number] = (
            f"{more}<table class=variants><tr><th>Size</th><th>Price</th></tr>{rows}"
            f"{self.rows.get(number, '')}</table>{self._jsonld(number)}"
        )
        try:
            return super().body(number)
        finally:
            self.more[number] = more

    def _jsonld(self, number: int) -> str:
        variants = [
            {"@type": "Product", "sku": sku, "size": variant.size, "offers": {
                "@type": "Offer", "price": (variant.price or "").rstrip(" €"), "priceCurrency": "EUR"}}
            for sku, variant in self.variants[number].items()
        ]  # fmt: skip
        group = {"@type": "ProductGroup", "name": f"No. {number}", "hasVariant": variants}
        return f'<script type="application/ld+json">{json.dumps(group)}</script>'
