"""Shops of website builders, Squarespace 7.1 and Wix Stores, and Saleor's storefront, by their default
markup."""

from __future__ import annotations

import json
from collections.abc import Iterator
from html import escape
from typing import Any

from tests.support.shops.engines.catalogue import Category, Engine, dollars
from tests.support.shops.shop_templates import Item, Shop, chunks

SITE = "Hearth & Field"


def jsonld(*blocks: dict[str, Any]) -> str:
    return "".join(f'<script type="application/ld+json">{json.dumps(b)}</script>' for b in blocks)


class Squarespace(Engine):
    """Titles for machines with the shop's name, which is every product's brand, too; a list of all
    products, `?page=2`, and a script with prices in cents and a sale price of 0.00."""

    def url(self, item: Item, category: Category | None = None) -> str:
        return f"/store/p/{item.slug}"

    def list_url(self, category: Category, page: int = 1) -> str:
        return f"/store/{category.path('/')}" + (f"?page={page}" if page > 1 else "")

    def build(self) -> Shop:
        shop = super().build()
        listed = [item for leaf in self.shop.leaves for item in leaf.items]
        parts = list(chunks(list({i.number: i for i in listed}.values()), self.size))
        for number, on_page in parts:
            path = "/store" + (f"?page={number}" if number > 1 else "")
            links = self._pager("/store", number, len(parts))
            shop.pages[path] = self.frame("Store", self._grid("Store", on_page, links))
        return shop

    def truth(self, item: Item, category: Category) -> dict[str, Any]:
        sku = f"SQ{item.number * 4391}"
        return super().truth(item, category) | {"brand": SITE, "sku": sku}

    def frame(self, title: str, body: str, head: str = "") -> str:
        folders = "".join(
            f'<div class="header-nav-folder-item"><a href="{self.list_url(top)}">{top.name}</a></div>'
            for top in self.shop.tops
        )
        website = {"url": "{host}", "name": SITE, "description": "", "@context": "http://schema.org", "@type": "WebSite"}  # fmt: skip
        named = "" if head else f'<meta property="og:title" content="{title} — {escape(SITE)}">'
        return (
            f'<!doctype html><html xmlns:og="http://opengraphprotocol.org/schema/" lang="en-US"><head><title>{title} &mdash; {escape(SITE)}</title><meta property="og:site_name" content="{escape(SITE)}">{named}{head}{jsonld(website)}</head><body id="collection-65fd0fc2aa1d0858f5af2fe4" class="view-list collection-type-products sqs-seven-one"><div id="siteWrapper" class="clearfix site-wrapper"><header data-test="header" id="header" class="header theme-col--primary"><div class="header-title-text"><a id="site-title" href="/" data-animation-role="header-element">{escape(SITE)}</a></div>'
            f'<nav class="header-nav-list"><div class="header-nav-item header-nav-item--folder"><a class="header-nav-folder-title" href="/store">Store</a><div class="header-nav-folder-content">{folders}</div></div><div class="header-nav-item"><a href="/about">About</a></div></nav><div class="showOnDesktop"><div class="header-actions-action--cart"><a href="/cart" class="cart-style-icon">Cart<div class="legacy-cart"><span class="sqs-cart-quantity">0</span></div></a></div></div></header>'
            f'<main id="page" class="container" role="main"><article class="sections" id="sections"><section class="page-section content-collection collection-type-products"><div class="content-wrapper"><div class="content">{body}</div></div></section></article></main><footer class="sections" id="footer-sections"><div class="sqs-block-content"><p>123 Demo Street, New York, NY 12345</p></div></footer></div></body></html>'
        )

    def _price(self, i: Item) -> str:
        if not i.list_price:
            return f'<div class="product-price">{dollars(i.price)}</div>'
        return f'<div class="product-price"><span class="visually-hidden v6-visually-hidden">Sale Price:</span>{dollars(i.price)} <span class="original-price"><span class="visually-hidden v6-visually-hidden">Original Price:</span>{dollars(i.list_price)}</span></div>'

    def _box(self, i: Item) -> str:
        mark = "" if i.available else '<div class="product-mark sold-out">sold out</div>'
        sale = '<div class="product-mark sale">sale</div>' if i.list_price else ""
        return (
            f'<div class="grid-item" id="thumb-{i.slug}" data-item-id="{i.number:024x}" data-controller="ProductListImageLoader"><a aria-label="{i.title}" class="grid-item-link product-lists-item" href="{self.url(i)}"></a><figure class="grid-image"><div class="grid-image-wrapper"><img data-src="https://images.squarespace-cdn.example{i.image}" src="https://images.squarespace-cdn.example{i.image}" class="grid-item-image grid-image-cover"></div></figure>'
            f'<section class="grid-meta-container"><div class="grid-main-meta"><div class="grid-title">{i.title}</div><div class="grid-prices">{self._price(i)}</div></div><div class="grid-meta-status">{mark or sale}</div></section></div>'
        )

    def _pager(self, path: str, page: int, pages: int) -> str:
        def to(number: int) -> str:
            return path + (f"?page={number}" if number > 1 else "")

        before = (
            f'<a class="list-pagination-link" href="{to(page - 1)}"><span>Previous</span></a>'
            if page > 1
            else ""
        )
        after = (
            f'<a class="list-pagination-link" href="{to(page + 1)}"><span>Next</span></a>'
            if page < pages
            else ""
        )
        return f'<nav class="list-pagination">{before}{after}</nav>' if pages > 1 else ""

    def _grid(self, name: str, on_page: list[Item], pager: str, below: str = "") -> str:
        tops = "".join(
            f'<a class="nested-category-title-link" href="{self.list_url(t)}">{t.name}</a>'
            for t in self.shop.tops
        )
        boxes = "".join(map(self._box, on_page))
        return f'<section class="products-flex-container"><div class="products-list-header"><h1 class="nested-category-title">{name}</h1><nav class="nested-category-breadcrumbs"><a class="nested-category-breadcrumb-link" href="/store">Store</a></nav><nav class="nested-category-tree-wrapper"><a class="nested-category-title-link" href="/store">All</a>{tops}{below}</nav></div><div class="list-grid products-list">{boxes}</div>{pager}</section>'

    def home(self) -> str:
        return f'<section class="hero"><h2>Made by hand</h2><a class="sqs-block-button-element" href="/store">Shop all</a></section><div class="sqs-block-product-summary"><h3>Featured</h3><div class="list-grid">{"".join(map(self._box, self.shop.items[8:12]))}</div></div>'

    def listing(self, category: Category, page: int, pages: int, on_page: list[Item]) -> str:
        below = "".join(
            f'<a class="nested-category-title-link" href="{self.list_url(c)}">{c.name}</a>'
            for c in self.shop.below(category)
        )
        pager = self._pager(self.list_url(category), page, pages)
        return self._grid(category.name, on_page, pager, below)

    def _variant(self, i: Item) -> dict[str, Any]:
        def money(amount: Any) -> dict[str, Any]:
            return {"currencyCode": "USD", "value": int(100 * (amount or 0)), "decimalValue": f"{amount or 0:.2f}", "fractionalDigits": 2}  # fmt: skip

        return {"id": f"28c210bc-2f66-4327-ac09-{i.number:012x}", "sku": f"SQ{i.number * 4391}", "price": money(i.list_price or i.price), "salePrice": money(i.list_price and i.price), "onSale": bool(i.list_price), "stock": {"unlimited": False, "quantity": i.stock}, "attributes": {}}  # fmt: skip

    def product(self, item: Item, category: Category) -> str:
        i = item
        status = "InStock" if i.available else "OutOfStock"
        offer = {"price": float(i.price), "priceCurrency": "USD", "url": f"{{host}}{self.url(i)}", "availability": status, "sku": f"SQ{i.number * 4391}", "@context": "http://schema.org", "@type": "Offer"}  # fmt: skip
        stated = {"name": f"{i.title} — {SITE}", "image": f"https://images.squarespace-cdn.example{i.image}", "description": i.description, "brand": SITE, "offers": offer, "@context": "http://schema.org", "@type": "Product"}  # fmt: skip
        context = {"websiteId": "65c59c43", "itemTitle": i.title, "product": {"variantAttributeNames": [], "variants": [self._variant(i)], "subscribable": False, "productType": 1}}  # fmt: skip
        variants = escape(json.dumps([self._variant(i)]))
        crumbs = "".join(
            f'<span class="ProductItem-nav-breadcrumb-separator"></span><a class="ProductItem-nav-breadcrumb-link" href="{self.list_url(c)}">{c.name}</a>'
            for c in category.chain
        )
        buy = (
            f'<div class="product-quantity-input" data-item-id="{i.number:024x}"><div class="quantity-label">Quantity:</div><input size="4" max="9999" min="1" value="1" type="number"></div><div class="sqs-add-to-cart-button-wrapper"><div class="sqs-add-to-cart-button sqs-suppress-edit-mode sqs-editable-button sqs-button-element--primary" role="button" tabindex="0" data-item-id="{i.number:024x}"><div class="sqs-add-to-cart-button-inner">Add To Cart</div></div></div>'
            if i.available
            else '<div class="product-mark sold-out">sold out</div>'
        )
        related = "".join(map(self._box, self.shop.after(i, 3)))
        body = (
            f'<article class="ProductItem hentry product-detail" data-item-id="{i.number:024x}"><nav class="ProductItem-nav"><div class="ProductItem-nav-breadcrumb"><a class="ProductItem-nav-breadcrumb-link" href="/store">Store</a>{crumbs}</div></nav><section class="ProductItem-summary"><section class="ProductItem-gallery"><div class="ProductItem-gallery-slides-item"><img class="ProductItem-gallery-slides-item-image" data-src="https://images.squarespace-cdn.example{i.image}" alt="{i.title}"></div></section>'
            f'<section class="ProductItem-details"><h1 class="ProductItem-details-title" data-content-field="title">{i.title}</h1><div class="ProductItem-details-checkout"><div class="ProductItem-product-price" data-controller="ProductItemVariants">{self._price(i)}</div><div class="ProductItem-details-excerpt" data-content-field="excerpt"><p>{i.description}</p></div><div class="product-variants" data-item-id="{i.number:024x}" data-variants="{variants}" data-animation-role="content" data-unlimited-stock="false"></div>{buy}</div></section></section>'
            f'<section class="ProductItem-relatedProducts"><h2>You Might Also Like</h2><div class="list-grid">{related}</div></section></article>'
        )
        head = (
            f'<link rel="canonical" href="{{host}}{self.url(i)}"><meta property="og:title" content="{i.title} — {escape(SITE)}"><meta property="og:type" content="product"><meta property="product:price:amount" content="{i.price:.2f}"><meta property="product:price:currency" content="USD"><meta property="product:availability" content="{"instock" if i.available else "oos"}">'
            f"<script>Static.SQUARESPACE_CONTEXT = {json.dumps(context)};</script>{jsonld(stated)}"
        )
        return self.frame(i.title, body, head)


class WixStores(Engine):
    """Names of classes without a meaning and `data-hook`, keys of JSON-LD with capitals, labels for
    screen readers, every link absolute, and a state of all components."""

    def url(self, item: Item, category: Category | None = None) -> str:
        return f"/product-page/{item.slug}"

    def list_url(self, category: Category, page: int = 1) -> str:
        return f"/category/{category.slug}" + (f"?page={page}" if page > 1 else "")

    def frame(self, title: str, body: str, head: str = "") -> str:
        menu = "".join(
            f'<li class="wixui-dropdown-menu__item"><a data-testid="linkElement" href="{{host}}{self.list_url(top)}" class="DzUZFw"><div class="JS76Uv"><span class="jRoVmZ">{top.name}</span></div></a></li>'
            for top in self.shop.tops
        )
        return (
            f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><meta name="generator" content="Wix.com Website Builder"><title>{title} | {escape(SITE)}</title><meta property="og:site_name" content="{escape(SITE)}">{head}</head><body class="responsive"><div id="SITE_CONTAINER"><div id="main_MF" class="main_MF"><header id="SITE_HEADER" class="x4zVYf SITE_HEADER wixui-header"><nav class="HamburgerMenu" id="comp-kbgajy4j" aria-label="Site"><ul class="DYwHzA">{menu}<li><a data-testid="linkElement" href="{{host}}/about">About</a></li></ul></nav><a href="{{host}}/cart-page" data-hook="cart-icon-button" aria-label="Cart with 0 items"><svg><text data-hook="items-count">0</text></svg></a></header>'
            f'<main id="PAGES_CONTAINER" class="PAGES_CONTAINER" tabindex="-1"><div id="TPASection_j8lnx4f3" class="TPASection_j8lnx4f3"><div class="sHjn4T">{body}</div></div></main><footer id="SITE_FOOTER"><p class="font_8">info@mysite.example</p><p>© 2035 by {escape(SITE)}. Powered and secured by <a href="https://www.wix.example">Wix</a></p></footer></div></div></body></html>'
        )

    def _prices(self, i: Item) -> str:
        if not i.list_price:
            return f'<div data-hook="prices-container" class="sPtn4G"><span class="s__8jzR4n" data-hook="sr-product-item-price-to-pay">Price</span><span class="cfpn1d" data-hook="product-item-price-to-pay" data-wix-price="{dollars(i.price)}">{dollars(i.price)}</span></div>'
        return f'<div data-hook="prices-container" class="sPtn4G"><span class="s__8jzR4n" data-hook="sr-product-item-price-before-discount">Regular Price</span><span class="cfpn1d xJnBxt" data-hook="product-item-price-before-discount" data-wix-price="{dollars(i.list_price)}">{dollars(i.list_price)}</span><span class="s__8jzR4n" data-hook="sr-product-item-price-to-pay">Sale Price</span><span class="cfpn1d" data-hook="product-item-price-to-pay" data-wix-price="{dollars(i.price)}">{dollars(i.price)}</span></div>'

    def _box(self, i: Item) -> str:
        link = f"{{host}}{self.url(i)}"
        prices = (
            self._prices(i)
            if i.available
            else '<div data-hook="product-item-out-of-stock-container"><span class="dT2ZqO" data-hook="product-item-out-of-stock">Out of stock</span></div>'
        )
        ribbon = '<div data-hook="RibbonDataHook.RibbonOnImage">Sale</div>' if i.list_price else ""
        return (
            f'<li data-hook="product-list-grid-item" class="oQ4tyh"><div data-slug="{i.slug}" data-hook="product-item-root" class="ETPbIy" role="group" aria-label="{i.title} gallery"><a href="{link}" tabindex="-1" class="oQUvqL x5qIv3" data-hook="product-item-container"><div class="mS0yET" data-hook="ProductMediaDataHook.Images"><img src="https://static.wixstatic.example{i.image}" alt="{i.title}">{ribbon}</div></a><button class="bLqQ9N" data-hook="product-item-quick-view-button" aria-label="Quick View">Quick View</button>'
            f'<div class="t2u_rw" data-hook="not-image-container"><a href="{link}" class="JPDEZd" data-hook="product-item-product-details-link"><p class="sNPC28E" data-hook="product-item-name">{i.title}</p>{prices}</a></div></div></li>'
        )

    def home(self) -> str:
        return f'<h1 class="font_0">Made by hand</h1><section data-hook="gallery-app-container"><ul class="S4WbK_" data-hook="product-list-wrapper">{"".join(map(self._box, self.shop.items[8:12]))}</ul></section>'

    def listing(self, category: Category, page: int, pages: int, on_page: list[Item]) -> str:
        tree = "".join(
            f'<li data-hook="category-tree-item" class="sZp9jC"><a href="{{host}}{self.list_url(c)}" class="s_6HhQY">{c.name}</a></li>'
            for c in {c.number: c for leaf in self.shop.leaves for c in leaf.chain}.values()
        )
        links = "".join(
            f'<li class="s1hxEw"><span data-hook="page-{n}" aria-current="page" class="sUkLGT">{n}</span></li>' if n == page else f'<li class="s1hxEw"><a data-hook="page-{n}" href="{{host}}{self.list_url(category, n)}" class="sUkLGT">{n}</a></li>'
            for n in range(1, pages + 1)
        )  # fmt: skip
        if page < pages:
            links += f'<li><a data-hook="next" class="sQNPdc" href="{{host}}{self.list_url(category, page + 1)}" aria-label="Next Page"><svg></svg></a></li>'
        pager = f'<nav data-hook="pagination__root" aria-label="Pagination"><ol data-hook="pages-list">{links}</ol></nav>'
        shown = {"catalog": {"category": {"name": category.name, "numOfProducts": len(category.items), "productsWithMetaData": {"totalCount": len(category.items), "list": [self._state(i) for i in on_page]}}}}  # fmt: skip
        grid = f'<ul class="S4WbK_ uQ5Uah" data-hook="product-list-wrapper">{"".join(map(self._box, on_page))}</ul>'
        return f'<section data-hook="gallery-root"><nav aria-label="Browse by" data-hook="category-tree"><h2>Browse by</h2><ul>{tree}</ul></nav><h1 data-hook="category-header-title">{category.name}</h1><p data-hook="total-products-counter">{len(category.items)} products</p>{grid if on_page else ""}{pager if pages > 1 else ""}</section>{self._warmup(category.slug, shown)}'

    def _state(self, i: Item) -> dict[str, Any]:
        now, usual = float(i.price), float(i.list_price or i.price)
        return {
            "id": f"d6c0f1a3-{i.number:x}", "urlPart": i.slug, "name": i.title, "sku": i.sku,
            "price": usual, "formattedPrice": dollars(i.list_price or i.price),
            "comparePrice": 0, "discountedPrice": now, "formattedDiscountedPrice": dollars(i.price),
            "currency": "USD", "brand": i.brand or None, "isInStock": i.available, "productItems": [],
            "inventory": {"status": "in_stock" if i.available else "out_of_stock", "quantity": i.stock},
        }  # fmt: skip

    def _warmup(self, key: str, content: dict[str, Any]) -> str:
        state = {"platform": {"ssrPropsUpdates": [{"TPASection_j8lnx4f3": {"id": 1}}]}, "appsWarmupData": {"1380b703-ce81-ff05-f115-39571d94dfcd": {f"page_USD_{key}": content}}}  # fmt: skip
        return f'<script type="application/json" id="wix-warmup-data">{json.dumps(state)}</script>'

    def product(self, item: Item, category: Category) -> str:
        i = item
        kind = "InStock" if i.available else "OutOfStock"
        offer = {"@type": "Offer", "url": f"{{host}}{self.url(i)}", "Availability": f"https://schema.org/{kind}", "priceCurrency": "USD", "price": f"{i.price.normalize():f}"}  # fmt: skip
        stated = {
            "@context": "https://schema.org/", "@type": "Product", "name": i.title, "sku": i.sku,
            "description": i.description, **({"brand": {"@type": "Brand", "name": i.brand}} if i.brand else {}),
            "image": [{"@type": "ImageObject", "contentUrl": f"https://static.wixstatic.example{i.image}"}],
            "Offers": offer,
        }  # fmt: skip
        old = (
            f'<span class="lFP7aJ" data-hook="formatted-secondary-price" data-wix-price="{dollars(i.list_price)}">{dollars(i.list_price)}</span><span class="s__5uwmWQ" data-hook="sr-formatted-secondary-price">Regular Price</span>'
            if i.list_price
            else ""
        )
        button = (
            '<button type="button" class="s__0vfHM" data-hook="add-to-cart" aria-disabled="false"><span class="s_4J1ix">Add to Cart</span></button>'
            if i.available
            else '<button type="button" class="s__0vfHM" data-hook="add-to-cart" aria-disabled="true" disabled><span class="s_4J1ix">Out of Stock</span></button>'
        )
        related = "".join(map(self._box, self.shop.after(i, 4)))
        body = (
            f'<article data-hook="product-page" class="sHjn4T"><nav data-hook="breadcrumbs" aria-label="breadcrumbs"><a href="{{host}}/" class="s7Vbtw">Home</a><span>/</span><a href="{{host}}{self.list_url(category)}" class="s7Vbtw">{category.name}</a><span>/</span><span aria-current="page">{i.title}</span></nav><div class="r6jyyC"><div data-hook="main-media-image-wrapper"><img src="https://static.wixstatic.example{i.image}" alt="{i.title}"></div></div>'
            f'<div class="JNNpZ7"><h1 data-hook="product-title" class="WMWBB7">{i.title}</h1><div data-hook="sku" class="nwsr6I">SKU: {i.sku}</div><div data-hook="product-prices-wrapper" class="RRx9Jy"><div data-hook="product-price" class="TQPRme">{old}<span data-hook="formatted-primary-price" class="C2nLFV" data-wix-price="{dollars(i.price)}">{dollars(i.price)}</span><span class="s__5uwmWQ" data-hook="sr-formatted-primary-price">{"Sale " if old else ""}Price</span></div></div>'
            f'<div data-hook="number-input-spinner-container"><label>Quantity</label><input type="number" aria-label="Quantity" value="1" min="1"></div><div data-hook="product-page-add-to-cart">{button}</div><section data-hook="description-wrapper"><pre data-hook="description" class="cDjBF3"><p>{i.description}</p></pre></section></div>'
            f'<section data-hook="related-products-container"><h2>Related Products</h2><ul class="S4WbK_" data-hook="slider-items">{related}</ul></section></article>{self._warmup(i.slug, {"catalog": {"product": self._state(i)}})}'
        )
        head = f'<link rel="canonical" href="{{host}}{self.url(i)}"><meta property="og:title" content="{i.title} | {escape(SITE)}"><meta property="og:type" content="product"><meta property="product:price:amount" content="{i.price}"><meta property="product:price:currency" content="USD"><meta property="product:availability" content="{"in stock" if i.available else "out of stock"}">{jsonld(stated)}'
        return self.frame(i.title, body, head)


class Saleor(Engine):
    """A channel before every path, cursors for pages, the category as the brand in JSON-LD, a price
    range of one price, and a payload of React's in pieces."""

    fields = ("title", "price", "list_price", "availability")

    def url(self, item: Item, category: Category | None = None) -> str:
        return f"/default-channel/products/{item.slug}"

    def list_url(self, category: Category, page: int = 1) -> str:
        cursor = f"?cursor=WyJ{category.number:x}a{page * 7919:x}IjEyIl0" if page > 1 else ""
        return f"/default-channel/categories/{category.slug}{cursor}"

    def _addresses(self, item: Item) -> Iterator[tuple[str, Category]]:
        yield from super()._addresses(item)
        home = self.shop.homes[item.number][0]
        yield f"{self.url(item)}?variant=UHJvZHVjdFZhcmlhbnQ6{item.number}", home

    def frame(self, title: str, body: str, head: str = "") -> str:
        menu = "".join(
            f'<li class="inline-flex"><a class="inline-flex border-t-2 pt-px text-sm font-medium border-transparent text-neutral-500 hover:text-neutral-700" href="{self.list_url(top)}">{top.name}</a></li>'
            + "".join(
                f'<li><a class="text-sm text-neutral-500" href="{self.list_url(c)}">{c.name}</a></li>'
                for c in self.shop.below(top)
            )
            for top in self.shop.tops
        )
        return (
            f'<!DOCTYPE html><html lang="en" class="min-h-dvh"><head><meta charSet="utf-8"/><title>{title} | Saleor Storefront example</title>{head}</head><body class="min-h-dvh font-sans"><header class="sticky top-0 z-20 bg-neutral-100/50 backdrop-blur-md"><div class="mx-auto max-w-7xl px-3 sm:px-8"><div class="flex h-16 justify-between gap-4 md:gap-8"><div class="flex items-center font-bold"><a aria-label="homepage" href="/default-channel">ACME</a></div><nav class="flex w-full gap-4 lg:gap-6" aria-label="Main navigation"><ul class="hidden gap-4 overflow-x-auto whitespace-nowrap md:flex lg:gap-8 lg:px-0"><li class="inline-flex"><a class="inline-flex border-t-2 pt-px text-sm font-medium" href="/default-channel/products">All</a></li>{menu}</ul><a class="relative flex items-center" data-testid="CartNavItem" href="/default-channel/cart"><span class="sr-only">0 items in cart, view bag</span></a></nav></div></div></header>'
            f'<div class="flex min-h-[calc(100dvh-64px)] flex-col"><main class="flex-1">{body}</main><footer class="border-neutral-300 bg-neutral-50"><div class="mx-auto max-w-7xl px-4 lg:px-8"><p class="text-sm text-neutral-500">Copyright © 2026 Your Store, Inc.</p></div></footer></div></body></html>'
        )

    def _range(self, i: Item) -> str:
        if not i.list_price:
            return f'<p class="mt-1 text-sm font-medium text-neutral-900" data-testid="ProductElement_PriceRange">{dollars(i.price)}</p>'
        return f'<div class="mt-2" data-testid="ProductElement_PriceRange"><div class="flex items-center gap-2"><span class="text-base font-bold text-red-600">{dollars(i.price)}</span><span class="text-sm text-secondary-400 line-through">{dollars(i.list_price)}</span></div></div>'

    def _box(self, i: Item) -> str:
        return (
            f'<li data-testid="ProductElement"><a href="{self.url(i)}"><div><div class="aspect-square overflow-hidden bg-neutral-50"><img alt="{i.title}" loading="lazy" width="512" height="512" class="h-full w-full object-contain object-center p-2" src="/_next/image?url={i.image}&amp;w=1080&amp;q=75"/></div><div class="mt-2 flex justify-between"><div><h3 class="mt-1 text-sm font-semibold text-neutral-900">{i.title}</h3><p class="mt-1 text-sm text-neutral-500" data-testid="ProductElement_Category">{self.shop.homes[i.number][0].name}</p></div>'
            f"{self._range(i)}</div></div></a></li>"
        )

    def _list(self, on_page: list[Item]) -> str:
        boxes = "".join(map(self._box, on_page))
        return f'<ul role="list" data-testid="ProductList" class="grid grid-cols-1 gap-8 sm:grid-cols-2 lg:grid-cols-3">{boxes}</ul>'

    def home(self) -> str:
        return f'<section class="mx-auto max-w-7xl p-8 pb-16"><h2 class="sr-only">Product list</h2>{self._list(self.shop.items[8:12])}</section>'

    def _payload(self, content: dict[str, Any]) -> str:
        flight = f'7:["$","section",null,{{"className":"mx-auto","children":["$","$L1a",null,{json.dumps(content)}]}}]\n'
        pieces = [flight[at : at + 700] for at in range(0, len(flight), 700)]
        scripts = "".join(f"<script>self.__next_f.push({json.dumps([1, p])})</script>" for p in pieces)  # fmt: skip
        return f"<script>(self.__next_f=self.__next_f||[]).push([0])</script>{scripts}"

    def _state(self, i: Item, category: Category) -> dict[str, Any]:
        def gross(amount: Any) -> dict[str, Any]:
            return {"gross": {"amount": float(amount), "currency": "USD"}}

        usual = i.list_price or i.price
        variant = {"id": f"UHJvZHVjdFZhcmlhbnQ6{i.number}", "name": "UNI", "quantityAvailable": i.stock, "pricing": {"price": gross(i.price), "priceUndiscounted": gross(usual)}}  # fmt: skip
        return {
            "id": f"UHJvZHVjdDo{i.number}", "name": i.title, "slug": i.slug,
            "category": {"id": f"Q2F0ZWdvcnk6{category.number}", "name": category.name},
            "variants": [variant], "pricing": {"onSale": bool(i.list_price), "priceRange": {"start": gross(i.price), "stop": gross(i.price)}, "priceRangeUndiscounted": {"start": gross(usual)}},
        }  # fmt: skip

    def listing(self, category: Category, page: int, pages: int, on_page: list[Item]) -> str:
        subs = "".join(
            f'<a class="rounded-full border px-4 py-1 text-sm" href="{self.list_url(c)}">{c.name}</a>'
            for c in self.shop.below(category)
        )
        to = self.list_url(category, page + 1) if page < pages else "#"
        on = (
            "rounded bg-neutral-900 text-neutral-50"
            if page < pages
            else "cursor-not-allowed rounded border text-neutral-400 pointer-events-none"
        )
        pager = f'<nav class="flex items-center justify-center gap-x-4 border-neutral-200 px-4 pt-12"><a class="px-4 py-2 text-sm font-medium {on}" aria-disabled="{"false" if page < pages else "true"}" href="{to}">Next page</a></nav>'
        content = {
            "edges": [{"node": self._state(i, category)} for i in on_page],
            "totalCount": len(category.items),
        }
        return f'<div class="mx-auto max-w-7xl p-8 pb-16"><h1 class="pb-8 text-xl font-semibold">{category.name}</h1><div class="flex gap-2">{subs}</div>{self._list(on_page) + pager if on_page else ""}</div>{self._payload(content)}'

    def product(self, item: Item, category: Category) -> str:
        i = item
        kind = "InStock" if i.available else "OutOfStock"
        offers = {"@type": "AggregateOffer", "url": f"{{host}}{self.url(i)}", "availability": f"https://schema.org/{kind}", "priceCurrency": "USD", "lowPrice": float(i.price), "highPrice": float(i.price), "offerCount": 1, "seller": {"@type": "Organization", "name": "Saleor Store"}}  # fmt: skip
        stated = {"@context": "https://schema.org", "@type": "Product", "name": i.title, "description": i.description, "image": [i.image], "brand": {"@type": "Brand", "name": category.name}, "offers": offers}  # fmt: skip
        old = (
            f'<span class="text-base text-muted-foreground line-through">{dollars(i.list_price)}</span>'
            if i.list_price
            else ""
        )
        button = (
            '<button type="submit" class="h-12 items-center rounded-md bg-neutral-900 px-6 py-3 text-base font-medium leading-6 text-white shadow" aria-disabled="false">Add to bag</button>'
            if i.available
            else '<button type="submit" class="h-12 items-center rounded-md bg-neutral-900 px-6 py-3 text-base font-medium leading-6 text-white shadow" aria-disabled="true" disabled="">Out of stock</button>'
        )
        body = (
            f'{jsonld(stated)}<section class="mx-auto grid max-w-7xl p-8"><nav aria-label="Breadcrumb" class="mb-6 hidden sm:block"><ol class="flex items-center gap-2 text-sm"><li><a href="/default-channel">Home</a></li><li><a href="{self.list_url(category)}">{category.name}</a></li><li><span aria-current="page">{i.title}</span></li></ol></nav><form class="grid gap-2 sm:grid-cols-2 lg:grid-cols-8"><div class="md:col-span-1 lg:col-span-5"><img alt="{i.title}" width="1024" height="1024" class="h-full w-full object-contain" src="/_next/image?url={i.image}&amp;w=3840&amp;q=75"/></div>'
            f'<div class="flex flex-col pt-6 sm:col-span-1 sm:px-6 sm:pt-0 lg:col-span-3 lg:pt-16"><div><h1 class="mb-4 flex-auto text-3xl font-medium tracking-tight text-neutral-900">{i.title}</h1><p class="mb-8 text-sm" data-testid="ProductElement_Price"><span class="text-2xl font-semibold">{dollars(i.price)}</span>{old}</p><p class="ml-1 text-sm font-semibold text-neutral-500">{"In stock" if i.available else "Out of stock"}</p><div class="mt-8">{button}</div><div class="mt-8 space-y-6 text-sm text-neutral-500"><div>{i.description}</div></div></div></div></form></section>{self._payload({"product": self._state(i, category)})}'
        )
        return self.frame(
            i.title,
            body,
            f'<link rel="canonical" href="{{host}}{self.url(i)}"/><meta property="og:title" content="{i.title}"/>',
        )


BUILDERS = {engine.__name__: engine for engine in (Squarespace, WixStores, Saleor)}
