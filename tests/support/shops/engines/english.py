"""nopCommerce, Sylius and WooCommerce's block theme, by their default markup."""

from __future__ import annotations

import json
from html import escape

from tests.support.shops.engines.catalogue import Category, Engine, dollars
from tests.support.shops.shop_templates import Item


class NopCommerce(Engine):
    """Products and categories at the root, `?pagenumber=`, labels before values, a side column."""

    fields = ("title", "price", "list_price", "availability", "sku", "gtin", "brand")

    def url(self, item: Item, category: Category | None = None) -> str:
        return f"/{item.slug}"

    def list_url(self, category: Category, page: int = 1) -> str:
        return f"/{category.slug}" + (f"?pagenumber={page}" if page > 1 else "")

    def _menu(self) -> str:
        return "".join(
            f'<li><a href="/{top.slug}">{top.name}</a>'
            + "".join(
                f'<div class="sublist-toggle"></div><ul class="sublist first-level"><li><a href="/{c.slug}">{c.name}</a></li></ul>'
                for c in self.shop.below(top)
            )
            + "</li>"
            for top in self.shop.tops
        )

    def frame(self, title: str, body: str, head: str = "") -> str:
        recent = "".join(
            f'<li><a class="product-picture" href="/{i.slug}"><img alt="Picture of {i.title}" src="{i.image}"></a><a class="product-name" href="/{i.slug}">{i.title}</a></li>'
            for i in self.shop.items[3:6]
        )
        return (
            f'<!DOCTYPE html><html lang="en" class="html-page"><head><title>Your store. {title}</title>{head}</head><body>'
            f'<div class="header"><div class="header-links"><a href="/login">Log in</a><a href="/wishlist" class="ico-wishlist"><span class="wishlist-label">Wishlist</span> <span class="wishlist-qty">(0)</span></a></div></div>'
            f'<div class="header-menu"><ul class="top-menu notmobile">{self._menu()}<li><a href="/newproducts">New products</a></li><li><a href="/blog">Blog</a></li></ul></div>'
            f'<div class="master-column-wrapper">{body}<div class="side-2"><div class="block block-recently-viewed-products"><div class="title"><strong>Recently viewed products</strong></div><ul class="list">{recent}</ul></div></div></div>'
            '<div class="footer"><div class="newsletter"><input type="email" placeholder="Enter your email here..."></div><div class="footer-powered-by">Powered by <a href="https://www.nopcommerce.example/">nopCommerce</a></div></div></body></html>'
        )

    def _box(self, i: Item) -> str:
        old = (
            f'<span class="price old-price">{dollars(i.list_price)}</span>' if i.list_price else ""
        )
        return (
            f'<div class="item-box"><div class="product-item" data-productid="{i.number}"><div class="picture"><a href="/{i.slug}" title="Show details for {i.title}"><img alt="Picture of {i.title}" src="{i.image}" title="Show details for {i.title}"></a></div>'
            f'<div class="details"><h2 class="product-title"><a href="/{i.slug}">{i.title}</a></h2><div class="description">{i.description[:60]}</div><div class="add-info"><div class="prices">{old}<span class="price actual-price">{dollars(i.price)}</span></div>'
            f'<div class="buttons"><button type="button" class="button-2 product-box-add-to-cart-button">Add to cart</button></div></div></div></div></div>'
        )

    def home(self) -> str:
        boxes = "".join(map(self._box, self.shop.items[8:12]))
        return f'<div class="page home-page"><div class="product-grid home-page-product-grid"><div class="title"><strong>Featured products</strong></div><div class="item-grid">{boxes}</div></div></div>'

    def listing(self, category: Category, page: int, pages: int, on_page: list[Item]) -> str:
        subs = "".join(
            f'<div class="item-box"><div class="sub-category-item"><h2 class="title"><a href="/{c.slug}" title="Show products in category {c.name}">{c.name}</a></h2><div class="picture"><a href="/{c.slug}"><img alt="Picture for category {c.name}" src="/c/{c.number}.jpg"></a></div></div></div>'
            for c in self.shop.below(category)
        )
        pager = "".join(
            f'<li class="current-page"><span>{n}</span></li>' if n == page else f'<li class="individual-page"><a data-page="{n}" href="{self.list_url(category, n)}">{n}</a></li>'
            for n in range(1, pages + 1)
        )  # fmt: skip
        if page < pages:
            pager += f'<li class="next-page"><a data-page="{page + 1}" href="{self.list_url(category, page + 1)}">Next</a></li>'
        boxes = "".join(map(self._box, on_page))
        grid = f'<div class="products-container"><div class="products-wrapper"><div class="product-grid"><div class="item-grid">{boxes}</div></div><div class="pager"><ul>{pager}</ul></div></div></div>'
        return f'<div class="page category-page"><div class="page-title"><h1>{category.name}</h1></div><div class="category-grid sub-category-grid"><div class="item-grid">{subs}</div></div>{grid if on_page else ""}</div>'

    def product(self, item: Item, category: Category) -> str:
        i = item
        crumbs = "".join(
            f'<li><a href="/{c.slug}"><span>{c.name}</span></a><span class="delimiter">/</span></li>'
            for c in category.chain
        )
        brand = (
            f'<div class="manufacturers"><span class="label">Manufacturer:</span><span class="value"><a href="/m">{escape(i.brand)}</a></span></div>'
            if i.brand
            else ""
        )
        code = (
            f'<div class="gtin"><span class="label">GTIN:</span><span class="value" id="gtin-{i.number}">{i.gtin}</span></div>'
            if i.gtin
            else ""
        )
        old = (
            f'<div class="old-product-price"><span>Old price:</span> <span>{dollars(i.list_price)}</span></div>'
            if i.list_price
            else ""
        )
        body = (
            f'<div class="breadcrumb"><ul><li><span><a href="/"><span>Home</span></a></span><span class="delimiter">/</span></li>{crumbs}<li><strong class="current-item">{i.title}</strong></li></ul></div>'
            f'<div class="page product-details-page"><form method="post" id="product-details-form"><div data-productid="{i.number}"><div class="product-essential"><div class="gallery"><div class="picture"><img alt="Picture of {i.title}" src="{i.image}" id="main-product-img-{i.number}"></div></div>'
            f'<div class="overview"><div class="product-name"><h1>{i.title}</h1></div><div class="short-description">{i.description[:60]}</div><div class="product-reviews-overview"><div class="rating"><div style="width: 80%"></div></div><a href="#r">1 review(s)</a></div>{brand}'
            f'<div class="availability"><div class="stock"><span class="label">Availability:</span><span class="value" id="stock-availability-value-{i.number}">{"In stock" if i.available else "Out of stock"}</span></div></div>'
            f'<div class="additional-details"><div class="sku"><span class="label">SKU:</span><span class="value" id="sku-{i.number}">{i.sku}</span></div>{code}</div><div class="prices">{old}<div class="product-price"><span class="price-label">Price:</span> <span id="price-value-{i.number}" class="price-value-{i.number}">{dollars(i.price)}</span></div></div>'
            f'<div class="add-to-cart"><label class="qty-label">Qty:</label><input type="text" value="1"></div></div><div class="full-description">{i.description}</div></div>'
            f'<div class="related-products-grid product-grid"><div class="title"><strong>Related products</strong></div><div class="item-grid">{"".join(map(self._box, self.shop.after(i, 3)))}</div></div></div></form></div>'
        )
        return self.frame(
            i.title,
            body,
            f'<meta property="og:type" content="product"><meta property="og:title" content="{i.title}">',
        )


class Sylius(Engine):
    """Semantic UI: taxons at any depth, an original price in `del`, variants' code under the name."""

    fields = ("title", "price", "list_price", "availability", "brand")

    def url(self, item: Item, category: Category | None = None) -> str:
        return f"/en_US/products/{item.slug}"

    def list_url(self, category: Category, page: int = 1) -> str:
        return f"/en_US/taxons/category/{category.path('/')}" + (
            f"?limit=6&page={page}" if page > 1 else ""
        )

    def frame(self, title: str, body: str, head: str = "") -> str:
        menu = "".join(
            f'<div class="ui simple dropdown item"><a href="{self.list_url(top)}" class="text">{top.name}</a><i class="dropdown icon"></i><div class="menu">{"".join(f"""<a href="{self.list_url(c)}" class="item">{c.name}</a>""" for c in self.shop.below(top))}</div></div>'
            for top in self.shop.tops
        )
        return (
            f'<!DOCTYPE html><html lang="en"><head><title>Fashion Web Store | {title}</title>{head}</head><body class="pushable"><div class="pusher"><div class="ui basic segment"><div class="ui top fixed menu"><div class="right menu"><a href="/en_US/login" class="item">Login</a><div class="ui simple dropdown item" id="sylius-cart-button"><span class="sylius-total" id="sylius-cart-total">$0.00</span>, 0 items</div></div></div>'
            f'<div class="ui large stackable menu">{menu}</div></div><div class="ui container">{body}</div><div id="footer" class="ui inverted vertical footer segment"><a href="/en_US/contact/">Contact us</a><div>Powered by Sylius</div></div></div></body></html>'
        )

    def _card(self, i: Item) -> str:
        old = (
            f'<del class="sylius-product-original-price">{dollars(i.list_price)}</del> '
            if i.list_price
            else ""
        )
        return (
            f'<div class="column"><div class="ui fluid card"><a href="{self.url(i)}" class="blurring dimmable image"><div class="ui dimmer"><div class="content"><div class="center"><div class="ui inverted button">View more</div></div></div></div><img src="{i.image}" alt="{i.title}" class="ui bordered image"></a>'
            f'<div class="content"><a href="{self.url(i)}" class="header sylius-product-name">{i.title}</a>{old}<div class="sylius-product-price">{dollars(i.price)}</div></div></div></div>'
        )

    def home(self) -> str:
        return f'<h2 class="ui horizontal section divider header">Latest products</h2><div class="ui four doubling cards">{"".join(map(self._card, self.shop.items[8:12]))}</div>'

    def listing(self, category: Category, page: int, pages: int, on_page: list[Item]) -> str:
        subs = "".join(
            f'<a href="{self.list_url(c)}" class="item">{c.name}</a>'
            for c in self.shop.below(category)
        )
        pager = "".join(
            f'<span class="active item">{n}</span>'
            if n == page
            else f'<a class="item" href="{escape(self.list_url(category, n))}">{n}</a>'
            for n in range(1, pages + 1)
        )
        if page < pages:
            pager += f'<a rel="next" class="next item" href="{escape(self.list_url(category, page + 1))}">Next &raquo;</a>'
        grid = (
            f'<div class="ui three column stackable grid" id="products">{"".join(map(self._card, on_page))}</div><div class="ui stackable fluid pagination menu">{pager}</div>'
            if on_page
            else '<div class="ui icon info message">There are no results to display</div>'
        )
        return f'<div class="ui breadcrumb"><a href="/en_US/" class="section">Home</a> <div class="active section">{category.name}</div></div><h1 class="ui monster section dividing header">{category.name}<div class="sub header">All of it</div></h1><div class="ui vertical menu"><div class="header item">{category.name}</div>{subs}</div>{grid}'

    def product(self, item: Item, category: Category) -> str:
        i = item
        old = (
            f'<span class="ui small header" id="product-original-price"><del>{dollars(i.list_price)}</del></span>'
            if i.list_price
            else ""
        )
        buy = (
            '<button type="submit" class="ui huge primary icon labeled button"><i class="cart icon"></i> Add to cart</button>'
            if i.available
            else '<div class="ui icon message" id="sylius-product-out-of-stock"><i class="warning icon"></i><div class="content"><div class="header">Out of stock</div></div></div>'
        )
        brand = (
            f'<tr class="item"><td class="sylius-product-attribute-name">Brand</td><td class="sylius-product-attribute-value">{escape(i.brand)}</td></tr>'
            if i.brand
            else ""
        )
        crumbs = '<div class="divider"> / </div>'.join(
            f'<a href="{self.list_url(c)}" class="section">{c.name}</a>' for c in category.chain
        )
        body = (
            f'<div class="ui breadcrumb"><a href="/en_US/" class="section">Home</a><div class="divider"> / </div>{crumbs}<div class="divider"> / </div><div class="active section">{i.title}</div></div><div class="ui two column stackable grid"><div class="column"><a href="{i.image}" class="ui fluid image"><img src="{i.image}" id="main-image" alt="{i.title}"></a></div>'
            f'<div class="column"><h1 id="sylius-product-name" class="ui monster dividing header">{i.title}</h1><div class="ui star rating"></div><div class="product-prices">{old}<span class="ui huge header" id="product-price">{dollars(i.price)}</span></div><p>{i.description[:70]}</p><div class="ui segment" id="sylius-product-selecting-variant">{buy}</div></div></div>'
            f'<div class="ui top attached large tabular menu"><a class="item active">Details</a><a class="item">Attributes</a></div><div class="ui bottom attached tab segment active">{i.description}</div><div class="ui bottom attached tab segment"><table id="sylius-product-attributes" class="ui definition table">{brand}</table></div>'
            f'<div id="associations"><h2 class="ui horizontal section divider header">Similar products</h2><div class="ui four doubling cards">{"".join(map(self._card, self.shop.after(i, 4)))}</div></div>'
        )
        return self.frame(
            i.title,
            body,
            f'<meta property="og:type" content="product"><meta property="og:title" content="{i.title}">',
        )


class WooBlocks(Engine):
    """WooCommerce in a block theme: JSON-LD at the end, spoken labels, `page/2/` in the path."""

    fields = ("title", "price", "list_price", "availability", "sku")

    def url(self, item: Item, category: Category | None = None) -> str:
        return f"/product/{item.slug}/"

    def list_url(self, category: Category, page: int = 1) -> str:
        return f"/product-category/{category.path('/')}/" + (f"page/{page}/" if page > 1 else "")

    def frame(self, title: str, body: str, head: str = "") -> str:
        menu = "".join(
            f'<li class="wp-block-navigation-item wp-block-navigation-link"><a class="wp-block-navigation-item__content" href="{self.list_url(top)}"><span class="wp-block-navigation-item__label">{top.name}</span></a></li>'
            for top in self.shop.tops
        )
        return (
            f'<!DOCTYPE html><html lang="en-US"><head><title>{title} &#8211; Blocks</title>{head}</head><body class="woocommerce woocommerce-page"><div class="wp-site-blocks"><header class="wp-block-template-part"><p class="wp-block-site-title"><a href="/" rel="home">Blocks</a></p><nav class="wp-block-navigation"><ul class="wp-block-navigation__container">{menu}</ul></nav>'
            f'<div class="wc-block-mini-cart wp-block-woocommerce-mini-cart"><button class="wc-block-mini-cart__button"><span class="wc-block-mini-cart__amount">$0.00</span></button></div></header><main class="wp-block-group">{body}</main><footer class="wp-block-template-part"><p>Designed with <a href="https://wordpress.example">WordPress</a></p></footer></div></body></html>'
        )

    def _money(self, value: object) -> str:
        return f'<span class="woocommerce-Price-amount amount"><bdi><span class="woocommerce-Price-currencySymbol">&#36;</span>{value:,.2f}</bdi></span>'

    def _price(self, i: Item) -> str:
        if not i.list_price:
            return self._money(i.price)
        return f'<del aria-hidden="true">{self._money(i.list_price)}</del> <span class="screen-reader-text">Original price was: &#036;{i.list_price:,.2f}.</span><ins aria-hidden="true">{self._money(i.price)}</ins><span class="screen-reader-text">Current price is: &#036;{i.price:,.2f}.</span>'

    def _card(self, i: Item) -> str:
        badge = (
            '<div class="wp-block-woocommerce-product-sale-badge"><div class="wc-block-components-product-sale-badge"><span aria-hidden="true">Sale</span><span class="screen-reader-text">Product on sale</span></div></div>'
            if i.list_price
            else ""
        )
        return (
            f'<li class="wc-block-product post-{i.number} product type-product status-publish has-post-thumbnail {"instock" if i.available else "outofstock"}" data-wp-key="product-item-{i.number}"><div class="wc-block-components-product-image wc-block-grid__product-image"><a href="{self.url(i)}"><img src="{i.image}" alt="{i.title}" data-testid="product-image">{badge}</a></div>'
            f'<h2 class="has-text-align-center wp-block-post-title has-medium-font-size"><a href="{self.url(i)}" target="_self">{i.title}</a></h2><div class="has-font-size wp-block-woocommerce-product-price"><div class="wc-block-components-product-price wc-block-grid__product-price">{self._price(i)}</div></div>'
            f'<div class="wp-block-button wc-block-components-product-button"><button class="wp-block-button__link wp-element-button add_to_cart_button" data-product_id="{i.number}" data-product_sku="{i.sku}"><span>Add to cart</span></button></div></li>'
        )

    def home(self) -> str:
        return f'<h2>New in</h2><ul class="wc-block-product-template wp-block-woocommerce-product-template">{"".join(map(self._card, self.shop.items[8:12]))}</ul>'

    def listing(self, category: Category, page: int, pages: int, on_page: list[Item]) -> str:
        subs = "".join(
            f'<li class="wc-block-product-categories-list-item"><a href="{self.list_url(c)}"><span class="wc-block-product-categories-list-item__name">{c.name}</span></a><span class="wc-block-product-categories-list-item-count"><span aria-hidden="true">{len(c.items)}</span></span></li>'
            for c in self.shop.below(category)
        )
        pager = "".join(
            f'<span aria-current="page" class="page-numbers current">{n}</span>'
            if n == page
            else f'<a class="page-numbers" href="{self.list_url(category, n)}">{n}</a>'
            for n in range(1, pages + 1)
        )
        following = (
            f'<a href="{self.list_url(category, page + 1)}" class="wp-block-query-pagination-next">Next Page</a>'
            if page < pages
            else ""
        )
        last = page * self.size - self.size + len(on_page)
        count = (
            f"Showing {page * self.size - self.size + 1}&ndash;{last} of {len(category.items)} results"
            if pages > 1
            else f"Showing all {len(on_page)} results"
        )
        grid = (
            f'<div class="wp-block-woocommerce-product-results-count"><p class="woocommerce-result-count">{count}</p></div><ul class="wc-block-product-template wp-block-woocommerce-product-template columns-3">{"".join(map(self._card, on_page))}</ul><nav class="wp-block-query-pagination"><div class="wp-block-query-pagination-numbers">{pager}</div>{following}</nav>'
            if on_page
            else ""
        )
        return f'<h1 class="wp-block-query-title">{category.name}</h1><div class="wc-block-product-categories"><ul class="wc-block-product-categories-list">{subs}</ul></div>{grid}'

    def product(self, item: Item, category: Category) -> str:
        i = item
        data = {"@context": "https://schema.org/", "@graph": [
            {"@type": "BreadcrumbList", "itemListElement": [{"@type": "ListItem", "position": n, "item": {"name": c.name, "@id": f"https://blocks.example{self.list_url(c)}"}} for n, c in enumerate(category.chain, 1)]},
            {"@type": "Product", "@id": f"https://blocks.example{self.url(i)}#product", "name": i.title, "image": f"https://blocks.example{i.image}", "description": i.description, "sku": i.sku,
             "offers": [{"@type": "Offer", "priceSpecification": [{"@type": "UnitPriceSpecification", "price": str(i.price), "priceCurrency": "USD", "valueAddedTaxIncluded": False}, *([{"@type": "UnitPriceSpecification", "price": str(i.list_price), "priceCurrency": "USD", "priceType": "https://schema.org/ListPrice"}] if i.list_price else [])],
                         "priceValidUntil": "2027-12-31", "availability": f"https://schema.org/{'InStock' if i.available else 'OutOfStock'}", "seller": {"@type": "Organization", "name": "Blocks"}}]}]}  # fmt: skip
        stock = (
            f'<p class="stock in-stock">{i.stock} in stock</p>'
            if i.available
            else '<p class="stock out-of-stock">Out of stock</p>'
        )
        crumbs = "&nbsp;/&nbsp;".join(
            f'<a href="{self.list_url(c)}">{c.name}</a>' for c in category.chain
        )
        body = (
            f'<div class="wp-block-woocommerce-breadcrumbs"><nav class="woocommerce-breadcrumb" aria-label="Breadcrumb"><a href="/">Home</a>&nbsp;/&nbsp;{crumbs}&nbsp;/&nbsp;{i.title}</nav></div><div class="wp-block-columns"><div class="wp-block-column"><div class="woocommerce-product-gallery"><a href="{i.image}"><img src="{i.image}" class="wp-post-image" alt="{i.title}"></a></div></div>'
            f'<div class="wp-block-column"><h1 class="wp-block-post-title">{i.title}</h1><div class="wp-block-woocommerce-product-price"><div class="wc-block-components-product-price">{self._price(i)}</div></div><div class="wp-block-post-excerpt"><p class="wp-block-post-excerpt__excerpt">{i.description[:50]}</p></div><div class="wp-block-add-to-cart-form">{stock}</div>'
            f'<div class="wp-block-woocommerce-product-meta"><div class="wp-block-group"><div class="wp-block-woocommerce-product-sku wc-block-components-product-sku">SKU: <strong class="sku">{i.sku}</strong></div><div class="taxonomy-product_cat wp-block-post-terms"><span class="wp-block-post-terms__prefix">Category: </span><a href="{self.list_url(category)}" rel="tag">{category.name}</a></div></div></div></div></div>'
            f'<div class="wp-block-woocommerce-product-details"><div class="woocommerce-tabs"><div class="woocommerce-Tabs-panel"><h2>Description</h2><p>{i.description}</p></div></div></div><h2>Related products</h2><ul class="wc-block-product-template wp-block-woocommerce-product-template">{"".join(map(self._card, self.shop.after(i, 4)))}</ul>'
            f'<script type="application/ld+json">{json.dumps(data)}</script>'
        )
        return self.frame(i.title, body)


ENGLISH = {engine.__name__: engine for engine in (NopCommerce, Sylius, WooBlocks)}
