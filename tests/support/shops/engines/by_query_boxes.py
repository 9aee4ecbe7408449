"""Zen Cart's responsive theme since version 2: side boxes with other products, a list of all
products with rows by turns, and a shop-wide sale that is marked in another way than a special."""

from __future__ import annotations

from html import escape

from tests.support.shops.engines.by_query import ZenCart
from tests.support.shops.engines.catalogue import UNLISTED, Category, dollars
from tests.support.shops.shop_templates import Item, Shop, chunks

NUMBERS = 3


class ZenCartResponsive(ZenCart):
    """`size`: products on a page of the list of all."""

    all_products = "/index.php?main_page=products_all"

    def _prices(self, i: Item) -> str:
        if not i.list_price:
            return self._price(i)
        old, new = dollars(i.list_price), dollars(i.price)
        if i.number % 4 == 0:
            return f'<span class="normalprice">{old} </span><br><span class="productSalePrice">Sale:&nbsp;{new}</span><span class="productPriceDiscount"><br>Save:&nbsp;9% off</span>'
        return f'<span class="normalprice">{old} </span>&nbsp;<span class="productSpecialPrice">{new}</span><span class="productPriceDiscount"><br>Save:&nbsp;25% off</span>'

    def frame(self, title: str, body: str, head: str = "") -> str:
        side = "".join(
            f'<div class="sideBoxContentItem"><a href="{escape(self.url(i))}"><img src="{i.image}" alt="{i.title}"><br>{i.title}</a><div>{self._prices(i)}</div></div>'
            for i in self.shop.items[3:9]
        )
        boxes = f'<div class="leftBoxContainer" id="specials"><h3 class="leftBoxHeading"><a href="/index.php?main_page=specials">Specials&nbsp;&nbsp;[more]</a></h3><div class="sideBoxContent centeredContent">{side}</div></div>'
        return (
            super().frame(title, body, head).replace('<div class="col830">', f'{boxes}<div class="col830">')
        )  # fmt: skip

    def home(self) -> str:
        chosen = "".join(
            f'<div class="centerBoxContentsFeatured centeredContent back"><a href="{escape(self.url(i))}"><img src="{i.image}" alt="{i.title}"></a><br><a href="{escape(self.url(i))}">{i.title}</a><br>{self._prices(i)}</div>'
            for i in self.shop.items[20:29]
        )
        return f'<div class="centerColumn" id="indexDefault"><h1 id="indexDefaultHeading">Congratulations!</h1><table><tr class="rowOdd"><td>12/24/2026</td><td>Closed for the holidays</td></tr></table><div class="centerBoxWrapper" id="featuredProducts"><h2 class="centerBoxHeading">Featured Products</h2>{chosen}</div></div>'

    def all_url(self, page: int) -> str:
        return self.all_products + (f"&page={page}" if page > 1 else "")

    def _list_all(self, page: int, pages: int, on_page: list[Item], total: int) -> str:
        near = range(1 + (page - 1) // NUMBERS * NUMBERS, pages + 1)[:NUMBERS]
        links = "".join(
            f'<li class="current active">{n}</li>' if n == page else f'<li><a href="{escape(self.all_url(n))}" title="Page {n}" aria-label="Go to Page {n}">{n}</a></li>'
            for n in near
        )  # fmt: skip
        if near[-1] < pages:
            links += f'<li class="ellipsis"><a href="{escape(self.all_url(near[-1] + 1))}" title="Next Set of {NUMBERS} Pages">...</a></li>'
        if page < pages:
            links += f'<li class="pagination-next"><a href="{escape(self.all_url(page + 1))}" title="Next Page" aria-label="Go to Next Page">[Next&nbsp;&raquo;]</a></li>'
        first = page * self.size - self.size + 1
        pager = f'<div class="navSplitPagesWrapper"><div class="navSplitPagesResult back">Displaying <strong>{first}</strong> to <strong>{first + len(on_page) - 1}</strong> (of <strong>{total}</strong> Products)</div><div class="navSplitPagesLinks forward"><nav class="pagination" aria-label="Pagination"><ul class="pagination">{links}</ul></nav></div></div>'
        rows = "".join(
            f'<div class="productListing-{"even" if n % 2 else "odd"}"><div class="list-image"><a href="{escape(self.url(i, self.shop.homes[i.number][0]))}" title="{i.title}"><img src="{i.image}" alt="{i.title}" class="listingProductImage"></a></div><h3 class="itemTitle"><a class="" href="{escape(self.url(i, self.shop.homes[i.number][0]))}">{i.title}</a></h3><div class="listingDescription">{i.description[:40]}...</div><div class="list-price">{self._prices(i)}</div></div>'
            for n, i in enumerate(on_page)
        )
        return f'<div class="centerColumn" id="productListing"><h1 id="allProductsDefaultHeading">All Products</h1>{pager}<div id="catList" class="tabTable">{rows}</div>{pager}</div>'

    def product(self, item: Item, category: Category) -> str:
        page = super().product(item, category)
        if not item.brand:
            return page
        box = f'<div class="leftBoxContainer" id="manufacturerinfo"><h3 class="leftBoxHeading">Manufacturer Info</h3><div id="manufacturerinfoContent" class="sideBoxContent"><div>{escape(item.brand)}</div><ul class="list-links"><li><a href="/index.php?main_page=redirect">{escape(item.brand)} Homepage</a></li><li><a href="/index.php?main_page=index&amp;manufacturers_id=3">Other products</a></li></ul></div></div>'
        return page.replace('<div class="col830">', f'{box}<div class="col830">', 1)

    def build(self) -> Shop:
        shop = super().build()
        listed = [item for n, item in enumerate(self.shop.items) if n != UNLISTED]
        parts = list(chunks(listed, self.size))
        for number, on_page in parts:
            body = self._list_all(number, len(parts), on_page, len(listed))
            shop.pages[self.all_url(number)] = self.frame("All Products", body)
        reduced = [item for item in listed if item.list_price][: self.size]
        body = self._list_all(1, 1, reduced, len(reduced))
        shop.pages["/index.php?main_page=specials"] = self.frame("Specials", body)
        return shop


WITH_BOXES = {ZenCartResponsive.__name__: ZenCartResponsive}
