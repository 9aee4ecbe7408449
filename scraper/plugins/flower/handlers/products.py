"""The page of a site's products, their JSON, and files of them."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from scraper.plugins.flower import view
from scraper.plugins.flower.handlers.base import PAGE, ApiHandler, PageHandler
from scraper.plugins.flower.openapi.parameters import Parameter, read_all

SITE = Parameter("site", "the name of a site", required=True)
SEARCH = Parameter("search", "only products with this text", default="")
SORT = Parameter("sort", "id, or a field; with - before it the largest first", default="id")


class ProductsApi(ApiHandler):
    """A page of a site's products, or with `id` one product and its history."""

    PARAMETERS = (SITE, Parameter("id", "the product's id"), SEARCH, SORT, PAGE)

    async def get(self) -> None:
        given = read_all(self, self.PARAMETERS)
        offset = (given["page"] - 1) * view.LIMIT

        def ask(connection: sa.Connection) -> dict[str, Any]:
            if given["id"] is not None:
                return view.product_details(connection, given["site"], given["id"])
            return view.products_listing(
                connection, given["site"], given["search"], given["sort"], offset
            )

        await self.answer_with(("products", *given.values()), ask)


class ExportApi(ApiHandler):
    """A file of all matching products of a site."""

    PARAMETERS = (SITE, SEARCH, SORT)

    async def get(self, form: str) -> None:
        site, search, sort = read_all(self, self.PARAMETERS).values()
        body = await self.read_or_fail(
            ("export", form, site, search, sort),
            lambda c: view.export_products(c, site, search, sort, form),
        )
        if body is not None:
            kind = "text/csv" if form == "csv" else "application/x-ndjson"
            self.set_header("Content-Type", f"{kind}; charset=utf-8")
            self.set_header("Content-Disposition", f'attachment; filename="{site}.{form}"')
            self.finish(body)


class ProductsPage(PageHandler):
    """A site's products, and a product."""

    def get(self) -> None:
        self.render_shell("products.html")
