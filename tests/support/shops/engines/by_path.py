"""LiteCart, whose addresses are words and marks (`pots-c-12/red-pot-p-105`), by its default
markup."""

from __future__ import annotations

import json
from html import escape

from tests.support.shops.engines.catalogue import Category, Engine, dollars
from tests.support.shops.shop_templates import Item


class LiteCart(Engine):
    """Links to an account in the menu of categories, sub-categories on their parents' pages alone,
    a tree of categories next to each product, and a brand's block before the codes only where there
    is a brand."""

    fields = ("title", "price", "list_price", "availability", "sku", "gtin", "brand")
    placed = True

    def url(self, item: Item, category: Category | None = None) -> str:
        home = self.list_url(category or self.shop.homes[item.number][0])
        return f"{home}thing-{item.number}-p-{item.number}"

    def list_url(self, category: Category, page: int = 1) -> str:
        folders = "".join(f"{part.slug}-c-{part.number}/" for part in category.chain)
        return f"/{folders}" + (f"?page={page}" if page > 1 else "")

    def frame(self, title: str, body: str, head: str = "") -> str:
        menu = "".join(
            f'<li><a class="nav-link" href="{self.list_url(top)}">{top.name}</a></li>'
            for top in self.shop.tops
        )
        account = '<li><a class="nav-link" href="/create_account">Create Account</a></li><li><a class="nav-link" href="/reset_password">Lost Password</a></li>'
        return (
            f'<!DOCTYPE html><html lang="en"><head><title>{title}</title>{head}</head><body><div id="page-container"><nav id="site-menu"><div class="navbar navbar-sticky"><ul class="nav navbar-nav"><li class="categories dropdown"><a class="nav-link" href="#">Categories</a><ul class="dropdown-menu">{menu}</ul></li>'
            f'<li class="account dropdown"><a href="#" class="nav-link">Sign In</a><ul class="dropdown-menu">{account}</ul></li></ul></div></nav>{body}<footer id="footer"><p>Copyright 2026</p></footer></div></body></html>'
        )

    def _tree(self, opened: Category | None) -> str:
        shown = ""
        for top in self.shop.tops:
            is_open = opened is not None and top in opened.chain
            below = "".join(
                f'<li class="category-{c.number}"><a href="{self.list_url(c)}">{c.name}</a></li>'
                for c in self.shop.below(top)
                if is_open
            )
            inner = f'<ul class="nav nav-stacked">{below}</ul>' if below else ""
            state = " opened active" if is_open else ""
            shown += f'<li class="category-{top.number}{state}"><a href="{self.list_url(top)}"><i class="fa"></i> {top.name}</a>{inner}</li>'
        return f'<div id="sidebar"><section id="box-category-tree" class="box"><div class="card-header"><h2 class="card-title">Categories</h2></div><div class="card-body"><ul class="nav nav-stacked nav-pills">{shown}</ul></div></section></div>'

    def _price(self, item: Item) -> str:
        if not item.list_price:
            return f'<span class="price">{dollars(item.price)}</span>'
        return f'<del class="regular-price">{dollars(item.list_price)}</del> <strong class="campaign-price">{dollars(item.price)}</strong>'

    def _card(self, item: Item, category: Category | None = None) -> str:
        return (
            f'<article class="product"><a class="link" href="{self.url(item, category)}" data-id="{item.number}" data-sku="{item.sku}"><div class="image-wrapper"><img class="image" src="{item.image}" alt=""></div><div class="info"><h4 class="name">{item.title}</h4>'
            f'<div class="manufacturer-name">{escape(item.brand or "")}&nbsp;</div><div class="description">{item.description[:60]}</div><div class="price-wrapper">{self._price(item)}</div></div></a></article>'
        )

    def home(self) -> str:
        latest = "".join(map(self._card, self.shop.items[8:12]))
        return f'<main id="content"><section id="box-latest-products" class="card"><h2 class="card-title">Latest Products</h2><div class="listing products columns">{latest}</div></section></main>'

    def listing(self, category: Category, page: int, pages: int, on_page: list[Item]) -> str:
        below = "".join(
            f'<article class="category"><a class="link" href="{self.list_url(c)}"><div class="caption">{c.name}</div></a></article>'
            for c in self.shop.below(category)
        )
        cards = "".join(self._card(item, category) for item in on_page)
        turns = ""
        if pages > 1:
            numbers = "".join(
                f'<li><a class="page-link" href="{self.list_url(category, n)}">{n}</a></li>'
                for n in range(1, pages + 1)
            )
            following = (
                f'<li><a class="page-link" href="{self.list_url(category, page + 1)}">Next</a></li>'
                if page < pages
                else ""
            )
            turns = f'<ul class="pagination">{numbers}{following}</ul>'
        return f'{self._tree(category)}<main id="content"><article id="box-category" class="card"><h1 class="title">{category.name}</h1><nav class="categories">{below}</nav><section class="listing products columns">{cards}</section>{turns}</article></main>'

    def product(self, item: Item, category: Category) -> str:
        crumbs = "".join(
            f'<li><a href="{self.list_url(c)}">{c.name}</a></li>' for c in category.chain
        )
        stated = {
            "@context": "https://schema.org/", "@type": "Product", "productID": item.number,
            "sku": item.sku, "gtin14": item.gtin, "mpn": "", "name": item.title, "image": item.image,
            "offers": {"@type": "Offer", "priceCurrency": "USD", "price": float(item.price),
                       "availability": f"https://schema.org/{'InStock' if item.available else 'OutOfStock'}"},
        }  # fmt: skip
        if item.brand:
            stated["brand"] = {"@type": "Brand", "name": item.brand}
        brand = f'<div class="manufacturer"><a href="/brand-m-1/"><h3>{escape(item.brand)}</h3></a></div>' if item.brand else ""  # fmt: skip
        gtin = f'<div class="gtin">GTIN: <span class="value">{item.gtin}</span></div>' if item.gtin else ""  # fmt: skip
        stock = f'<div class="stock-available">Stock Status: <span class="value">{item.stock} pcs</span></div>' if item.available else '<div class="stock-unavailable">Stock Status: <span class="value">Sold Out</span></div>'  # fmt: skip
        similar = "".join(map(self._card, self.shop.after(item, 4)))
        return self.frame(
            item.title,
            f'{self._tree(category)}<main id="content"><ul class="breadcrumb"><li><a href="/">Home</a></li><li><a href="/categories">Categories</a></li>{crumbs}<li>{item.title}</li></ul>'
            f'<article id="box-product" data-id="{item.number}" data-sku="{item.sku}"><div class="row"><div class="col-md-6"><a class="main-image" href="{item.image}"><img src="{item.image}"></a></div><div class="col-md-6"><h1 class="title">{item.title}</h1><p class="short-description">{item.description[:50]}</p>{brand}'
            f'<div class="codes"><div class="sku">SKU: <span class="value">{item.sku}</span></div>{gtin}</div><div class="stock-status">{stock}</div><div class="buy_now"><form method="post"><input type="hidden" name="product_id" value="{item.number}"><div class="price-wrapper">{self._price(item)}</div><button name="add_cart_product" type="submit">Add To Cart</button></form></div></div></div>'
            f'<h3>Description</h3><div class="description"><p>{item.description}</p></div></article><section id="box-similar-products" class="card"><h2 class="card-title">Similar Products</h2><div class="listing products columns">{similar}</div></section></main>',
            f'<link rel="canonical" href="{{host}}{self.url(item, category)}"><script type="application/ld+json">{json.dumps(stated)}</script>',
        )


BY_PATH = {"LiteCart": LiteCart}
