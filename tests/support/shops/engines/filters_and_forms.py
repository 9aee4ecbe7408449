"""Magento 1, PrestaShop 1.6 and a Vendure storefront, by the markup that their default themes are
documented to have: filters among the links of a list, statements that a script shows, and pages
that a form's buttons turn."""

from __future__ import annotations

from tests.support.shops.engines.catalogue import Category, Engine, dollars
from tests.support.shops.shop_templates import Item, Shop


class MagentoOne(Engine):
    """Filters in lists of the same tags as the menu's, "1-6 of 10" products, and a last page that
    is shown at each higher number too."""

    fields = ("title", "price", "list_price", "availability", "gtin")
    placed = True

    def url(self, item: Item, category: Category | None = None) -> str:
        folder = f"{category.path('/')}/" if category else ""
        return f"/{folder}{item.slug}.html"

    def list_url(self, category: Category, page: int = 1) -> str:
        return f"/{category.path('/')}.html" + (f"?p={page}" if page > 1 else "")

    def build(self) -> Shop:
        shop = super().build()
        for leaf in self.shop.leaves:
            last = self.list_url(leaf, -(-len(leaf.items) // self.size))
            shop.pages[self.list_url(leaf, len(leaf.items))] = shop.pages[last]
        return shop

    def frame(self, title: str, body: str, head: str = "") -> str:
        menu = "".join(
            f'<li class="level0 parent"><a href="{self.list_url(top)}" class="level0 has-children">{top.name}</a>'
            f'<ul class="level0">{"".join(f"<li class=level1><a href={self.list_url(c)} class=level1>{c.name}</a></li>" for c in self.shop.below(top))}</ul></li>'
            for top in self.shop.tops
        )
        return (
            f'<!DOCTYPE html><html lang="en"><head><title>{title}</title>{head}</head><body><div class="page"><header id="header" class="page-header"><a class="logo" href="/"><img src="/l.gif"></a><div id="header-nav" class="skip-content"><nav id="nav"><ol class="nav-primary">{menu}</ol></nav></div></header>'
            f'<div class="main-container"><div class="main">{body}</div></div><div class="footer-container"><ul><li><a href="/about/">About Us</a></li><li><a href="/contacts/">Contact Us</a></li></ul></div></div></body></html>'
        )

    def _prices(self, i: Item) -> str:
        if not i.list_price:
            return f'<div class="price-box"><span class="regular-price"><span class="price">{dollars(i.price)}</span></span></div>'
        return f'<div class="price-box"><p class="old-price"><span class="price-label">Regular Price:</span> <span class="price">{dollars(i.list_price)}</span></p><p class="special-price"><span class="price-label">Special Price</span> <span class="price">{dollars(i.price)}</span></p></div>'

    def _card(self, i: Item, category: Category) -> str:
        buy = '<button type="button" class="button btn-cart">Add to Cart</button>' if i.available else '<p class="availability out-of-stock"><span>Out of stock</span></p>'  # fmt: skip
        url = self.url(i, category)
        return f'<li class="item last"><a href="{url}" title="{i.title}" class="product-image"><img src="{i.image}" alt="{i.title}"/></a><div class="product-info"><h2 class="product-name"><a href="{url}" title="{i.title}">{i.title}</a></h2>{self._prices(i)}<div class="actions">{buy}</div></div></li>'

    def _crumbs(self, category: Category, last: str) -> str:
        parts = "".join(
            f'<li class="category{c.number}"><a href="{self.list_url(c)}">{c.name}</a><span>/ </span></li>'
            for c in category.chain
        )
        return f'<div class="breadcrumbs"><ul><li class="home"><a href="/" title="Go to Home Page">Home</a><span>/ </span></li>{parts}<li><strong>{last}</strong></li></ul></div>'

    def home(self) -> str:
        return '<div class="std"><p>Welcome.</p></div>'

    def listing(self, category: Category, page: int, pages: int, on_page: list[Item]) -> str:
        url, first = self.list_url(category), (page - 1) * self.size + 1
        filters = "".join(
            f'<li><a href="{url}?price={key}"><span class="price">{text}</span> <span class="count">({n + 2})</span></a></li>'
            for n, (key, text) in enumerate((("-100", "$0.00 - $99.99"), ("100-", "$100.00 and above"), ("200-", "$200.00 and above")))
        )  # fmt: skip
        numbers = "".join(
            f'<li class="current">{n}</li>' if n == page else f'<li><a href="{self.list_url(category, n)}">{n}</a></li>'
            for n in range(1, pages + 1)
        )  # fmt: skip
        if page < pages:
            numbers += f'<li><a class="next i-next" href="{self.list_url(category, page + 1)}" title="Next">Next</a></li>'
        cards = "".join(self._card(i, category) for i in on_page)
        count = f"{first}-{first + len(on_page) - 1} of {len(category.items)}"
        grid = f'<div class="category-products"><div class="toolbar"><a href="{url}?mode=list" class="list">List</a><div class="pager"><p class="amount">{count}</p><div class="pages"><strong>Page:</strong><ol>{numbers}</ol></div></div></div><ul class="products-grid">{cards}</ul></div>'
        return f'{self._crumbs(category, category.name)}<div class="col-left sidebar"><div class="block block-layered-nav"><dl id="narrow-by-list"><dt>Price</dt><dd><ol>{filters}</ol></dd></dl></div></div><div class="col-main"><h1>{category.name}</h1>{grid if on_page else ""}</div>'

    def product(self, item: Item, category: Category) -> str:
        i, word = item, "In stock" if item.available else "Out of stock"
        form = f'<form id="product_addtocart_form" method="post"><input type="hidden" name="product" value="{i.number}"/><div class="product-img-box"><div class="product-name"><h1>{i.title}</h1></div><img id="image-main" class="gallery-image" src="{i.image}" alt="{i.title}"/></div><div class="product-shop"><div class="product-name"><span class="h1">{i.title}</span></div><div class="price-info">{self._prices(i)}</div><div class="extra-info"><p class="availability {word.lower().replace(" ", "-")}"><span class="label">Availability:</span> <span class="value">{word}</span></p></div></div></form>'
        specs = f'<table class="data-table" id="product-attribute-specs-table"><tr><th class="label">EAN</th><td class="data">{i.gtin or "N/A"}</td></tr></table>'
        tabs = f'<dl id="collateral-tabs"><dt class="tab"><span>Description</span></dt><dd class="tab-container"><div class="tab-content"><h2>Details</h2><div class="std">{i.description}</div></div></dd><dt class="tab"><span>Additional Information</span></dt><dd class="tab-container"><div class="tab-content">{specs}</div></dd></dl>'
        return self.frame(
            i.title,
            f'{self._crumbs(category, i.title)}<div class="product-view">{form}{tabs}</div>',
        )


class PrestaShopSixteen(Engine):
    """The words for the last items on each page, hidden, and markup that says nothing of products
    that are sold out."""

    fields = ("title", "price", "list_price", "availability", "sku", "brand")

    def url(self, item: Item, category: Category | None = None) -> str:
        return f"/{self.shop.homes[item.number][0].path('/')}/{item.slug}"

    def list_url(self, category: Category, page: int = 1) -> str:
        return f"/{category.path('/')}" + (f"?p={page}" if page > 1 else "")

    def frame(self, title: str, body: str, head: str = "") -> str:
        menu = "".join(
            f'<li><a href="{self.list_url(top)}" title="{top.name}">{top.name}</a><ul>{"".join(f"<li><a href={self.list_url(c)}>{c.name}</a></li>" for c in self.shop.below(top))}</ul></li>'
            for top in self.shop.tops
        )
        return f'<!DOCTYPE html><html lang="en-us"><head><title>{title}</title>{head}</head><body><header id="header"><a href="/"><img class="logo" src="/l.png"></a><nav><ul class="sf-menu">{menu}</ul></nav></header><div id="columns">{body}</div><footer><a href="/content/4-about-us">About us</a></footer></body></html>'

    def _card(self, i: Item) -> str:
        old = f'<span class="old-price product-price">{dollars(i.list_price)}</span>' if i.list_price else ""  # fmt: skip
        word = ("success", "In Stock") if i.available else ("danger", "Out of stock")
        return f'<li><article><div class="product-container" itemscope itemtype="https://schema.org/Product"><a class="product_img_link" href="{self.url(i)}" title="{i.title}" itemprop="url"><img src="{i.image}" alt="{i.title}" itemprop="image"></a><h3 class="product-name" itemprop="name"><a class="product-name" href="{self.url(i)}" title="{i.title}">{i.title}</a></h3><div class="content_price"><span class="price product-price">{dollars(i.price)}</span> {old}</div><div class="availability"><span class="label label-{word[0]}">{word[1]}</span></div></div></article></li>'

    def home(self) -> str:
        return '<div id="slider"><h2>Summer</h2></div>'

    def listing(self, category: Category, page: int, pages: int, on_page: list[Item]) -> str:
        numbers = "".join(
            f'<li class="active"><span>{n}</span></li>' if n == page else f'<li><a href="{self.list_url(category, n)}"><span>{n}</span></a></li>'
            for n in range(1, pages + 1)
        )  # fmt: skip
        pager = f'<ul class="pagination">{numbers}</ul>' if pages > 1 else ""
        return f'<h1>{category.name}</h1><ul class="product_list grid">{"".join(map(self._card, on_page))}</ul>{pager}'

    def product(self, item: Item, category: Category) -> str:
        i, unshown = item, 'style="display: none"'
        crumbs = "".join(
            f'<li><a href="{self.list_url(c)}"><span>{c.name}</span></a></li>'
            for c in category.chain
        )
        brand = f'<p itemprop="brand" itemscope itemtype="https://schema.org/Brand"><b>Manufacturer:</b> <a href="/m"><span itemprop="name">{i.brand}</span></a></p>' if i.brand else ""  # fmt: skip
        state = '<span class="label label-success"></span>' if i.available else '<span class="label label-danger">This product is no longer in stock</span>'  # fmt: skip
        stock = f'<p id="product-availability"><span id="availability_statut" {unshown if i.available else ""}>{state}</span> <span class="label label-warning" id="last_quantities" {unshown}>Warning: Last items in stock!</span></p>'
        stated = '<link itemprop="availability" href="https://schema.org/InStock">' if i.available else ""  # fmt: skip
        old = f'<p id="old_price"><span id="old_price_display">{dollars(i.list_price)}</span></p>' if i.list_price else '<p id="old_price" class="hidden"><span id="old_price_display"></span></p>'  # fmt: skip
        offer = f'<p itemprop="offers" itemscope itemtype="https://schema.org/Offer">{stated}<meta itemprop="price" content="{i.price}"><span id="our_price_display" class="price">{dollars(i.price)}</span><meta itemprop="priceCurrency" content="USD"></p>{old}'
        return self.frame(
            i.title,
            f'<ol class="breadcrumb"><li><a href="/">Home</a></li>{crumbs}<li><a href="#">{i.title}</a></li></ol><div itemscope itemtype="https://schema.org/Product"><img id="bigpic" itemprop="image" src="{i.image}" alt="{i.title}"><h1 itemprop="name">{i.title}</h1><p id="product_reference"><b>Reference:</b> <meta itemprop="sku" content="{i.sku}"><span class="editable">{i.sku}</span></p>{brand}<div itemprop="description">{i.description}</div>{stock}<div class="content_prices">{offer}</div><input type="hidden" name="id_product" value="{i.number}"></div>',
        )


class Vendure(Engine):
    """A storefront that a server renders: pages that buttons of a form turn, and neither a count of
    products nor a crossed-out price."""

    fields = ("title", "price", "availability")

    def url(self, item: Item, category: Category | None = None) -> str:
        return f"/products/{item.slug}"

    def list_url(self, category: Category, page: int = 1) -> str:
        return f"/collections/{category.slug}" + (f"?page={page}" if page > 1 else "")

    def frame(self, title: str, body: str, head: str = "") -> str:
        menu = "".join(
            f'<a class="text-sm md:text-base" href="{self.list_url(top)}">{top.name}</a>'
            for top in self.shop.tops
        )
        return f'<!DOCTYPE html><html lang="en"><head><title>{title} - Store</title></head><body><header class="shadow-lg"><a href="/"><img src="/cube.svg" alt="logo"></a><div class="flex space-x-4 hidden sm:block">{menu}</div><form method="get" action="/search"><input type="search" name="q"></form></header><main>{body}</main><footer class="mt-24"><a href="/sign-in">Account</a></footer></body></html>'

    def home(self) -> str:
        tiles = "".join(
            f'<a href="{self.list_url(c)}" class="max-w-[300px] relative"><img src="/c/{c.number}.jpg"><span class="text-xl">{c.name}</span></a>'
            for c in self.shop.tops
        )
        return f'<section><h2>Shop by Category</h2><div class="grid">{tiles}</div></section>'

    def listing(self, category: Category, page: int, pages: int, on_page: list[Item]) -> str:
        below = "".join(
            f'<a href="{self.list_url(c)}" class="max-w-[300px] relative"><img src="/c/{c.number}.jpg"><span class="text-xl">{c.name}</span></a>'
            for c in self.shop.below(category)
        )
        cards = "".join(
            f'<a class="flex flex-col" href="{self.url(i)}"><img class="rounded-xl" alt="" src="{i.image}?w=300"/><div class="text-sm text-gray-700">{i.title}</div><div class="text-sm font-medium">{dollars(i.price)}</div></a>'
            for i in on_page
        )
        before, after = ("disabled" if off else "" for off in (page == 1, page == pages))
        pager = f'<span>{(page - 1) * self.size + 1} to {(page - 1) * self.size + len(on_page)}</span><div role="group"><button name="page" type="submit" value="{page - 1}" {before}>Prev.</button><button name="page" type="submit" value="{page + 1}" {after}>Next</button></div>'
        form = f'<form method="get" action="{self.list_url(category)}"><div class="grid">{cards}</div><div class="flex">{pager}</div></form>'
        return f'<h2 class="text-3xl">{category.name}</h2><div class="grid">{below}</div>{form if on_page else ""}'

    def product(self, item: Item, category: Category) -> str:
        i, word = item, "In stock" if item.available else "Out of stock"
        crumbs = "".join(f'<li class="mr-3"><div class="flex"><span>/</span><a class="ml-2 text-xs" href="{self.list_url(c)}">{c.name}</a></div></li>' for c in category.chain)  # fmt: skip
        return self.frame(
            i.title,
            f'<h2 class="text-3xl">{i.title}</h2><nav class="flex"><ol class="flex breadcrumbs"><li><a href="/">Home</a></li>{crumbs}</ol></nav><img src="{i.image}?w=800" alt="{i.title}" class="object-cover"/><div><h3 class="sr-only">Description</h3><div class="text-base"><p>{i.description}</p></div></div><form method="post" action="/api/active-order"><p class="text-3xl mr-4">{dollars(i.price)}</p><button type="submit">Add to cart</button><div class="mt-2 flex"><span class="text-gray-500">{i.sku}</span><span class="badge items-center">{word}</span></div></form>',
        )


FILTERS_AND_FORMS = {
    "MagentoOne": MagentoOne,
    "PrestaShopSixteen": PrestaShopSixteen,
    "Vendure": Vendure,
}
