"""A storefront that React renders on the server, as EverShop's does: pagers that only scripts turn,
and script state under keys that the build made up."""

from __future__ import annotations

import json
from typing import Any

from tests.support.shops.engines.catalogue import Category, Engine, dollars
from tests.support.shops.shop_templates import Item, Shop


class EverShop(Engine):
    """Products in the folders of their categories, `?page=2` without a link, and a sitemap with a
    file of products and one of categories."""

    fields = ("title", "price", "availability", "sku")

    def url(self, item: Item, category: Category | None = None) -> str:
        home = category or self.shop.homes[item.number][0]
        return f"/{home.path('/')}/{item.slug}"

    def list_url(self, category: Category, page: int = 1) -> str:
        return f"/{category.path('/')}" + (f"?page={page}" if page > 1 else "")

    def build(self) -> Shop:
        shop = super().build()
        named = shop.pages["/sitemap.xml"]
        head, *entries = named.removesuffix("</urlset>").split("<url>")
        lists = {f"<loc>{{host}}{self.list_url(leaf)}</loc></url>" for leaf in self.shop.leaves}
        for file in ("categories", "products"):
            of_file = [e for e in entries if (e in lists) == (file == "categories")]
            shop.pages[f"/sitemap-{file}.xml"] = head + "".join(f"<url>{e}" for e in of_file) + "</urlset>"  # fmt: skip
        files = "".join(
            f"<sitemap><loc>{{host}}/sitemap-{file}.xml</loc></sitemap>"
            for file in ("products", "categories")
        )
        shop.pages["/sitemap.xml"] = f"<sitemapindex>{files}</sitemapindex>"
        return shop

    def frame(self, title: str, body: str, head: str = "") -> str:
        menu = "".join(
            f'<li class="evershop-basic-menu__item"><a href="{self.list_url(c)}" class="evershop-basic-menu__link">{c.name}</a></li>'
            for top in self.shop.tops
            for c in (top, *self.shop.below(top))
        )
        return (
            f'<!DOCTYPE html><html id="root" lang="en"><head><meta charset="utf-8"/><title>{title}</title><meta property="og:title" content="{title}"/><meta property="og:type" content="website"/>{head}</head>'
            f'<body id="body"><div id="app"><header class="header"><a class="logo-text" href="/">Evershop</a><nav aria-label="Main menu"><ul>{menu}</ul></nav><a href="/account/login"><svg width="20"></svg></a></header>'
            f'<main class="page-width min-h-36">{body}</main><footer><span>© 2022 Evershop. All Rights Reserved.</span></footer></div><script src="/assets/client/1f43cc11a40dc2a5ffc6.js"></script></body></html>'
        )

    def _card(self, i: Item) -> str:
        return f'<div class="product__list__item__inner"><a href="{self.url(i)}" class="product__list__link block"><img src="{i.image}" alt="{i.title}"/><div class="product__list__info mt-3"><h3 class="product__list__name h5">{i.title}</h3><div class="product__list__price"><span class="regular-price">{dollars(i.price)}</span></div></div></a><div class="product__list__actions"><button type="button">Add to Cart</button></div></div>'

    def _crumbs(self, category: Category, last: str) -> str:
        parts = "".join(
            f'<li data-slot="breadcrumb-item"><a href="{url}">{name}</a></li><li role="presentation"></li>'
            for url, name in [("/", "Home"), *((self.list_url(c), c.name) for c in category.chain)]
        )
        return f'<nav aria-label="breadcrumb"><ol>{parts}<li data-slot="breadcrumb-item"><span aria-current="page">{last}</span></li></ol></nav>'

    def home(self) -> str:
        return '<div class="hero"><h2>Discount 20% For All Orders Over $2000</h2></div>'

    def listing(self, category: Category, page: int, pages: int, on_page: list[Item]) -> str:
        cards = "".join(map(self._card, on_page))
        numbers = "".join(
            f'<li><a href="#" role="button" class="pagination-link">{n + 1}</a></li>'
            for n in range(pages)
        )
        pager = f'<nav role="navigation" aria-label="pagination"><ul>{numbers}</ul></nav>'
        return f'{self._crumbs(category, category.name)}<h1>{category.name}</h1><div class="sorting"><div>{len(category.items)} products</div><button type="button" role="combobox"><span>Default</span></button></div><div class="grid">{cards}</div><div class="products-pagination">{pager if pages > 1 else ""}</div>'

    def product(self, item: Item, category: Category) -> str:
        i = item
        stated: dict[str, Any] = {"name": i.title, "sku": i.sku, "inventory": {"isInStock": i.available}, "price": {"regular": {"value": float(i.price), "text": dollars(i.price)}}}  # fmt: skip
        state = {"graphqlResponse": {"e3b2ozl2xcmx099x7r": None, "e3b2ozl2xcmx099x86": stated}}
        buy = '<button type="button">Add to cart</button>' if i.available else '<button type="button" disabled>Sold out</button>'  # fmt: skip
        body = (
            f'{self._crumbs(category, i.title)}<div class="product__detail"><div class="product-media-container"><img src="{i.image}" alt="{i.title}"/></div><div class="product__detail__right"><h1 class="product__single__name">{i.title}</h1><form id="productForm"><fieldset><div class="product__single__price"><span>{dollars(i.price)}</span></div><dl class="product__single__attributes"><div><dt class="font-medium">SKU</dt><dd>{i.sku}</dd></div></dl><input type="number" name="qty" value="1"/>{buy}</fieldset></form></div>'
            f'<div class="product__single__description mt-8"><h3>Product Description</h3><p>{i.description}</p></div></div>'
        )
        return self.frame(i.title, body, f"<script>var eContext = {json.dumps(state)}</script>")


REACT = {"EverShop": EverShop}
