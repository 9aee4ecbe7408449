"""The index of the search on the core's table of products."""

from __future__ import annotations

from sqlalchemy import Index, func

from scraper.models import ProductRow

Index(
    "products_words_idx",
    func.product_words(ProductRow.data, ProductRow.external_id),
    postgresql_using="gin",
)
