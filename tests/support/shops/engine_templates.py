"""Shops in the markup that known engines make by default, with what surrounds it on their pages:
menus, carts, other products, variants."""

from __future__ import annotations

import json
from decimal import Decimal
from html import escape

from tests.support.shops.shop_templates import GROUPS, Item, Shop, chunks, euro, items, truth_of


def us(price: Decimal) -> str:
    return f"${price:,.2f}"


def offer(i: Item, currency: str, **more: object) -> str:
    state = "InStock" if i.available else "OutOfStock"
    data = {
        "@context": "https://schema.org/",
        "@type": "Product",
        "name": i.title,
        "image": f"https://cdn.example{i.image}",
        "description": i.description,
        "sku": i.sku,
        "offers": [
            {
                "@type": "Offer",
                "price": str(i.price),
                "priceCurrency": currency,
                "availability": f"http://schema.org/{state}",
            }
        ],
        **more,
    }
    return f'<script type="application/ld+json">{json.dumps(data)}</script>'


def wordpress() -> Shop:
    """WooCommerce with Storefront, without its structured data: sale prices, related products, a
    widget of recent ones."""
    listed, pages, truth = items(), {}, {}
    widget = "".join(
        f'<li><a href="/product/{i.slug}/"><span class="product-title">{i.title}</span></a>'
        f'<span class="woocommerce-Price-amount amount"><bdi>{us(i.price)}</bdi></span></li>'
        for i in listed[:5]
    )
    side = f'<div id="secondary" class="widget-area"><ul class="product_list_widget">{widget}</ul></div>'
    head = '<header id="masthead"><ul class="menu"><li><a href="/shop/">Shop</a></li><li><a href="/my-account/">My account</a></li></ul><a class="cart-contents" href="/cart/"><span class="woocommerce-Price-amount amount">$0.00</span></a></header>'

    def money(i: Item) -> str:
        now = f'<span class="woocommerce-Price-amount amount"><bdi><span class="woocommerce-Price-currencySymbol">$</span>{i.price:,.2f}</bdi></span>'
        if i.list_price is None:
            return f'<span class="price">{now}</span>'
        was = f'<span class="woocommerce-Price-amount amount"><bdi>{us(i.list_price)}</bdi></span>'
        return f'<span class="price"><del aria-hidden="true">{was}</del> <ins>{now}</ins></span>'

    def tile(i: Item, at: int) -> str:
        classes = f"product type-product post-{i.number} status-publish {'first' if at % 3 == 0 else ''} {'instock' if i.available else 'outofstock'} product_cat-{i.category.lower().replace(' ', '-')}"
        return (
            f'<li class="{classes}"><a href="/product/{i.slug}/" class="woocommerce-LoopProduct-link woocommerce-loop-product__link">'
            f'<img width="324" src="{i.image[:-4]}-324x324.jpg" class="attachment-woocommerce_thumbnail" alt="">'
            f'<h2 class="woocommerce-loop-product__title">{i.title}</h2>{money(i)}</a>'
            f'<a href="?add-to-cart={i.number}" class="button add_to_cart_button">Add to cart</a></li>'
        )

    for number, on_page in chunks(listed, 12):
        pager = "".join(
            f'<li><span class="page-numbers current">{n}</span></li>' if n == number
            else f'<li><a class="page-numbers" href="/shop/page/{n}/">{n}</a></li>'
            for n in range(1, 5)
        )  # fmt: skip
        if number < 4:
            pager += f'<li><a class="next page-numbers" href="/shop/page/{number + 1}/">→</a></li>'
        tiles = "".join(tile(i, at) for at, i in enumerate(on_page))
        pages["/shop/" if number == 1 else f"/shop/page/{number}/"] = (
            f'<title>Shop – Example</title>{head}<main><p class="woocommerce-result-count">Showing {number * 12 - 11}–{min(number * 12, 40)} of 40 results</p>'
            f'<ul class="products columns-3">{tiles}</ul><nav class="woocommerce-pagination"><ul class="page-numbers">{pager}</ul></nav></main>{side}'
        )
    for i in listed:
        path = f"/product/{i.slug}/"
        stock = (
            f'<p class="stock in-stock">{i.stock} in stock</p>'
            if i.available
            else '<p class="stock out-of-stock">Out of stock</p>'
        )
        related = "".join(tile(o, at) for at, o in enumerate(listed[i.number % 36 :][:4]))
        pages[path] = (
            f"<title>{i.title} – Example</title>{head}"
            f'<nav class="woocommerce-breadcrumb"><a href="/">Home</a> / <a href="/product-category/{i.category}/">{i.category}</a> / {i.title}</nav>'
            f'<div id="product-{i.number}" class="product type-product post-{i.number}"><div class="woocommerce-product-gallery"><img src="{i.image[:-4]}-600x600.jpg" class="wp-post-image" data-large_image="{i.image}" alt="{i.title}"></div>'
            f'<div class="summary entry-summary"><h1 class="product_title entry-title">{i.title}</h1><p class="price">{money(i).replace("span class=" + chr(34) + "price", "span class=" + chr(34) + "x")}</p>'
            f'<div class="woocommerce-product-details__short-description"><p>{i.description[:50]}</p></div>{stock}'
            f'<form class="cart"><button class="single_add_to_cart_button button alt">Add to cart</button></form>'
            f'<div class="product_meta"><span class="sku_wrapper">SKU: <span class="sku">{i.sku}</span></span> <span class="posted_in">Category: <a rel="tag">{i.category}</a></span></div></div>'
            f'<div class="woocommerce-tabs"><div class="woocommerce-Tabs-panel--description" id="tab-description"><h2>Description</h2><p>{i.description}</p></div></div>'
            f'<section class="related products"><h2>Related products</h2><ul class="products columns-4">{related}</ul></section></div>{side}'
        )
        truth[path] = truth_of(i, "title", "price", "list_price", "availability", "sku", "category")
    return Shop("/shop/", pages, truth, 4)


def dawn() -> Shop:
    """Shopify's Dawn: cards with screen-reader labels, og tags, JSON in a script, a sort form."""
    listed, pages, truth = items(), {}, {}
    head = '<header class="header"><ul class="list-menu"><li><a href="/">Home</a></li><li><a href="/collections/all">Catalog</a></li><li><a href="/pages/contact">Contact</a></li></ul></header>'

    def money(i: Item) -> str:
        sale = i.list_price is not None
        return (
            f'<div class="price {"price--on-sale" if sale else ""}"><div class="price__container"><div class="price__regular"><span class="visually-hidden">Regular price</span>'
            f'<span class="price-item price-item--regular">{us(i.price)} USD</span></div>'
            + (
                f'<div class="price__sale"><span class="visually-hidden">Regular price</span><span><s class="price-item price-item--regular">{us(i.list_price)} USD</s></span>'
                f'<span class="visually-hidden">Sale price</span><span class="price-item price-item--sale">{us(i.price)} USD</span></div>'
                if i.list_price else ""
            )
            + "</div></div>"
        )  # fmt: skip

    def card(i: Item) -> str:
        return (
            f'<li class="grid__item"><div class="card-wrapper product-card-wrapper"><div class="card"><div class="card__inner"><div class="card__media"><img src="//cdn.example{i.image}?v=1&width=533" alt="{i.title}"></div>'
            f'<div class="card__content"><div class="card__information"><h3 class="card__heading"><a href="/products/{i.slug}" class="full-unstyled-link">{i.title}</a></h3></div></div></div>'
            f'<div class="card__content"><div class="card__information"><h3 class="card__heading h5" id="title-{i.number}"><a href="/products/{i.slug}" id="CardLink-{i.number}" class="full-unstyled-link">{i.title}</a></h3>{money(i)}</div></div></div></div></li>'
        )

    for number, on_page in chunks(listed, 16):
        pager = "".join(
            f'<li><a href="/collections/all?page={n}" class="pagination__item link" aria-label="Page {n}">{n}</a></li>'
            for n in range(1, 4)
            if n != number
        )
        if number < 3:
            pager += f'<li><a href="/collections/all?page={number + 1}" class="pagination__item pagination__item--prev pagination__item-arrow" aria-label="Next page"><svg></svg></a></li>'
        if number > 1:
            pager = (
                f'<li><a href="/collections/all?page={number - 1}" class="pagination__item pagination__item--next pagination__item-arrow" aria-label="Previous page"><svg></svg></a></li>'
                + pager
            )
        pages["/collections/all" if number == 1 else f"/collections/all?page={number}"] = (
            f'<html lang="en"><title>Products – Example</title>{head}<main><p>40 products</p><ul id="product-grid" class="grid product-grid">{"".join(map(card, on_page))}</ul>'
            f'<nav class="pagination" role="navigation"><ul class="pagination__list">{pager}</ul></nav></main>'
        )
    for i in listed:
        path = f"/products/{i.slug}"
        button = "Add to cart" if i.available else "Sold out"
        pages[path] = (
            f'<html lang="en"><title>{i.title} – Example</title><meta property="og:type" content="product"><meta property="og:title" content="{i.title}">'
            f'<meta property="og:image" content="http://cdn.example{i.image}"><meta property="og:price:amount" content="{i.price}"><meta property="og:price:currency" content="USD">'
            f'<meta name="description" content="{i.description[:60]}">{head}{offer(i, "USD", brand={"@type": "Brand", "name": i.brand})}'
            f'<main><div class="product__info-container"><p class="product__text caption-with-letter-spacing">{escape(i.brand)}</p><div class="product__title"><h1>{i.title}</h1></div>{money(i)}'
            f'<button type="submit" name="add" {"" if i.available else "disabled"}>{button}</button><div class="product__description rte"><p>{i.description}</p></div></div></main>'
            f'<product-recommendations class="related-products"><ul class="grid">{"".join(card(o) for o in listed[i.number % 35 :][:4])}</ul></product-recommendations>'
        )
        truth[path] = truth_of(i, "title", "price", "availability", "sku", "brand", "description")
    return Shop("/collections/all", pages, truth, 3)


def luma() -> Shop:
    """Magento 2's Luma: microdata, prices in attributes, a toolbar with limits, layered navigation."""
    listed, pages, truth = items(), {}, {}
    facets = "".join(
        f'<li class="item"><a href="/all.html?cat={n}">{name} <span class="count">13</span></a></li>'
        for n, name in enumerate(GROUPS)
    )
    head = '<header class="page-header"><nav class="navigation"><ul><li class="level0"><a href="/all.html" class="level-top">All</a></li></ul></nav></header>'

    def box(i: Item) -> str:
        was = (
            f'<span class="old-price"><span class="price-container"><span class="price-label">Regular Price</span><span data-price-amount="{i.list_price}" data-price-type="oldPrice" class="price-wrapper"><span class="price">{us(i.list_price)}</span></span></span></span>'
            if i.list_price else ""
        )  # fmt: skip
        special = "special-price" if was else "normal-price"
        return (
            f'<div class="price-box price-final_price" data-product-id="{i.number}"><span class="{special}"><span class="price-container price-final_price">'
            f'<span id="product-price-{i.number}" data-price-amount="{i.price}" data-price-type="finalPrice" class="price-wrapper"><span class="price">{us(i.price)}</span></span></span></span>{was}</div>'
        )

    for number, on_page in chunks(listed, 12):
        cards = "".join(
            f'<li class="item product product-item"><div class="product-item-info"><a href="/{i.slug}.html" class="product photo product-item-photo"><img class="product-image-photo" src="/media/cache/abc{i.image}" alt="{i.title}"></a>'
            f'<div class="product details product-item-details"><strong class="product name product-item-name"><a class="product-item-link" href="/{i.slug}.html"> {i.title} </a></strong>{box(i)}</div></div></li>'
            for i in on_page
        )
        pager = "".join(
            f'<li class="item current"><strong class="page"><span class="label">You\'re currently reading page</span><span>{n}</span></strong></li>' if n == number
            else f'<li class="item"><a href="/all.html?p={n}" class="page"><span class="label">Page</span><span>{n}</span></a></li>'
            for n in range(1, 5)
        )  # fmt: skip
        if number < 4:
            pager += f'<li class="item pages-item-next"><a class="action next" href="/all.html?p={number + 1}" title="Next"><span class="label">Page</span><span>Next</span></a></li>'
        pages["/all.html" if number == 1 else f"/all.html?p={number}"] = (
            f'<title>All</title>{head}<main><div class="toolbar"><p class="toolbar-amount">Items <span class="toolbar-number">{number * 12 - 11}</span>-<span class="toolbar-number">{min(40, number * 12)}</span> of <span class="toolbar-number">40</span></p></div>'
            f'<div class="products wrapper grid"><ol class="products list items product-items">{cards}</ol></div><div class="pages"><strong class="label pages-label">Page</strong><ul class="items pages-items">{pager}</ul></div></main>'
            f'<div class="sidebar"><ol class="items">{facets}</ol></div>'
        )
    for i in listed:
        path = f"/{i.slug}.html"
        state = (
            ("available", "In stock", "InStock")
            if i.available
            else ("unavailable", "Out of stock", "OutOfStock")
        )
        pages[path] = (
            f'<title>{i.title}</title><meta property="og:type" content="product"><meta property="og:title" content="{i.title}"><meta property="product:price:amount" content="{i.price}"><meta property="product:price:currency" content="USD">{head}'
            f'<div class="breadcrumbs"><ul class="items"><li class="item home"><a href="/">Home</a></li><li class="item category3"><a href="/all.html">{i.category}</a></li><li class="item product"><strong>{i.title}</strong></li></ul></div>'
            f'<main itemscope itemtype="http://schema.org/Product"><div class="product-info-main"><h1 class="page-title"><span class="base" itemprop="name">{i.title}</span></h1>'
            f'<div class="product-info-price"><div itemprop="offers" itemscope itemtype="http://schema.org/Offer">{box(i)}<meta itemprop="price" content="{i.price}"><meta itemprop="priceCurrency" content="USD"></div>'
            f'<div class="product-info-stock-sku"><div class="stock {state[0]}" title="Availability"><span>{state[1]}</span></div><div class="product attribute sku"><strong class="type">SKU</strong><div class="value" itemprop="sku">{i.sku}</div></div></div></div>'
            f'<div class="product attribute description"><div class="value">{i.description}</div></div></div>'
            f'<table id="product-attribute-specs-table"><tr><th class="col label">Manufacturer</th><td class="col data">{escape(i.brand)}</td></tr></table></main>'
        )
        truth[path] = truth_of(
            i,
            "title",
            "price",
            "list_price",
            "availability",
            "sku",
            "brand",
            "category",
            "description",
        )
    return Shop("/all.html", pages, truth, 4)


def presta() -> Shop:
    """PrestaShop's classic theme in French: ids before the slug, regular prices, a reference."""
    listed, pages, truth = items(), {}, {}
    menu = "".join(
        f'<li class="category"><a class="dropdown-item" href="/{n + 3}-{name.lower().replace(" ", "-")}">{name}</a></li>'
        for n, name in enumerate(GROUPS)
    )
    head = f'<header id="header"><div id="_desktop_top_menu"><ul class="top-menu" id="top-menu">{menu}</ul></div></header>'

    def miniature(i: Item) -> str:
        was = (
            f'<span class="regular-price" aria-label="Prix de base">{euro(i.list_price)}</span>'
            if i.list_price
            else ""
        )
        return (
            f'<div class="js-product product col-xs-12"><article class="product-miniature js-product-miniature" data-id-product="{i.number}"><div class="thumbnail-container"><a href="/maison/{i.number}-{i.slug}.html" class="thumbnail product-thumbnail"><img src="{i.image[:-4]}-home_default.jpg" alt="{i.title}"></a>'
            f'<div class="product-description"><h2 class="h3 product-title"><a href="/maison/{i.number}-{i.slug}.html">{i.title}</a></h2><div class="product-price-and-shipping">{was}<span class="price" aria-label="Prix">{euro(i.price)}</span></div></div></div></article></div>'
        )

    for number, on_page in chunks(listed, 12):
        pager = "".join(
            f'<li {"class=current" if n == number else ""}><a rel="nofollow" href="/2-accueil?page={n}" class="js-search-link">{n}</a></li>'
            for n in range(1, 5)
        )
        if number < 4:
            pager += f'<li><a rel="next" href="/2-accueil?page={number + 1}" class="next js-search-link">Suivant<i class="material-icons">&#xE315;</i></a></li>'
        pages["/2-accueil" if number == 1 else f"/2-accueil?page={number}"] = (
            f'<html lang="fr"><title>Accueil</title>{head}<section id="products"><p>Il y a 40 produits.</p><div class="products row">{"".join(map(miniature, on_page))}</div>'
            f'<nav class="pagination"><div>Affichage {number * 12 - 11}-{min(40, number * 12)} de 40 article(s)</div><ul class="page-list">{pager}</ul></nav></section>'
        )
    for i in listed:
        path = f"/maison/{i.number}-{i.slug}.html"
        was = (
            f'<div class="product-discount"><span class="regular-price">{euro(i.list_price)}</span></div>'
            if i.list_price
            else ""
        )
        state = "En stock" if i.available else "Rupture de stock"
        pages[path] = (
            f'<html lang="fr"><title>{i.title}</title><meta name="description" content="{i.description}">{head}<nav class="breadcrumb"><ol><li><a href="/"><span>Accueil</span></a></li><li><a href="/3"><span>{i.category}</span></a></li><li><span>{i.title}</span></li></ol></nav>'
            f'<section id="main"><h1 class="h1">{i.title}</h1><div class="product-cover"><img class="js-qv-product-cover" src="{i.image[:-4]}-large_default.jpg" alt="{i.title}"></div>'
            f'<div class="product-prices">{was}<div class="product-price h5"><div class="current-price"><span class="current-price-value" content="{i.price}">{euro(i.price)}</span></div></div><div class="tax-shipping-delivery-label">TTC</div></div>'
            f'<span id="product-availability">{state}</span><div class="product-manufacturer"><label class="label">Marque</label><span><a href="/brand/1">{escape(i.brand)}</a></span></div>'
            f'<div class="product-reference"><label class="label">Référence </label><span>{i.sku}</span></div><div class="product-description"><p>{i.description}</p></div>'
            f'<section class="featured-products"><h2>Vous aimerez aussi</h2><div class="products">{"".join(miniature(o) for o in listed[i.number % 36 :][:4])}</div></section></section>'
        )
        truth[path] = truth_of(
            i, "title", "price", "list_price", "availability", "sku", "brand", "category"
        )
    return Shop("/2-accueil", pages, truth, 4)


def opencart() -> Shop:
    """OpenCart's default theme: query URLs, prices in list items, "Showing 1 to 12 of 40 (4 Pages)"."""
    listed, pages, truth = items(), {}, {}
    head = '<nav id="menu"><ul class="nav navbar-nav"><li><a href="/index.php?route=product/category&path=20">All</a></li><li><a href="/index.php?route=product/category&path=21">Empty</a></li></ul></nav>'
    for number, on_page in chunks(listed, 12):
        cards = "".join(
            f'<div class="product-layout product-grid"><div class="product-thumb"><div class="image"><a href="/index.php?route=product/product&amp;path=20&amp;product_id={i.number}"><img src="{i.image[:-4]}-228x228.jpg" alt="{i.title}"></a></div>'
            f'<div class="caption"><h4><a href="/index.php?route=product/product&amp;path=20&amp;product_id={i.number}">{i.title}</a></h4><p class="price">'
            + (
                f'<span class="price-new">{us(i.price)}</span> <span class="price-old">{us(i.list_price)}</span>'
                if i.list_price
                else us(i.price)
            )
            + f'<span class="price-tax">Ex Tax: {us(i.price - 2)}</span></p></div></div></div>'
            for i in on_page
        )
        pager = "".join(
            f'<li class="active"><span>{n}</span></li>'
            if n == number
            else f'<li><a href="/index.php?route=product/category&amp;path=20&amp;page={n}">{n}</a></li>'
            for n in range(1, 5)
        )
        if number < 4:
            pager += f'<li><a href="/index.php?route=product/category&amp;path=20&amp;page={number + 1}">&gt;</a></li><li><a href="/index.php?route=product/category&amp;path=20&amp;page=4">&gt;|</a></li>'
        path = "/index.php?route=product/category&path=20" + (
            f"&page={number}" if number > 1 else ""
        )
        pages[path] = (
            f'<title>All</title>{head}<div id="content">{cards}</div><div class="row"><ul class="pagination">{pager}</ul><div class="text-right">Showing {number * 12 - 11} to {min(40, number * 12)} of 40 (4 Pages)</div></div>'
        )
    for i in listed:
        path = f"/index.php?route=product/product&path=20&product_id={i.number}"
        price = (
            f'<li><span style="text-decoration: line-through;">{us(i.list_price)}</span></li><li><h2>{us(i.price)}</h2></li>'
            if i.list_price
            else f"<li><h2>{us(i.price)}</h2></li>"
        )
        pages[path] = (
            f'<title>{i.title}</title>{head}<ul class="breadcrumb"><li><a href="/"><i class="fa fa-home"></i></a></li><li><a href="/x">{i.category}</a></li><li><a href="{path}">{i.title}</a></li></ul>'
            f'<div id="content"><ul class="thumbnails"><li><a class="thumbnail" href="{i.image}"><img src="{i.image[:-4]}-500x500.jpg" title="{i.title}" alt="{i.title}"></a></li></ul><div class="tab-content"><div class="tab-pane active" id="tab-description"><p>{i.description}</p></div></div>'
            f'<div class="col-sm-4"><h1>{i.title}</h1><ul class="list-unstyled"><li>Brand: <a href="/b">{escape(i.brand)}</a></li><li>Product Code: {i.sku}</li><li>Availability: {"In Stock" if i.available else "Out Of Stock"}</li></ul>'
            f'<ul class="list-unstyled">{price}<li>Ex Tax: {us(i.price - 2)}</li></ul></div></div>'
        )
        truth[path] = truth_of(
            i, "title", "price", "availability", "sku", "brand", "category", "description"
        )
    return Shop("/index.php?route=product/category&path=20", pages, truth, 4)


def shopware() -> Shop:
    """Shopware 6's storefront in German: ids at the end, product numbers, radio buttons for pages."""
    listed, pages, truth = items(), {}, {}
    head = '<header class="header-main"><div class="nav main-navigation"><a class="nav-link main-navigation-link" href="/Haus/">Haus</a></div></header>'
    for number, on_page in chunks(listed, 24):
        cards = "".join(
            f'<div class="cms-listing-col col-sm-6"><div class="card product-box box-standard"><div class="card-body"><div class="product-image-wrapper"><a href="/{i.slug}/SW{i.number}" class="product-image-link"><img src="{i.image}" class="product-image" alt="{i.title}"></a></div>'
            f'<div class="product-info"><a href="/{i.slug}/SW{i.number}" class="product-name" title="{i.title}">{i.title}</a><div class="product-description">{i.description[:40]}</div><div class="product-price-info"><div class="product-price-wrapper"><span class="product-price">{euro(i.price)}*</span></div></div></div></div></div></div>'
            for i in on_page
        )
        pager = "".join(
            f'<li class="page-item"><input type="radio" name="p" id="p{n}" value="{n}"><label class="page-link" for="p{n}">{n}</label></li>'
            for n in (1, 2)
        )
        pages["/Haus/" if number == 1 else f"/Haus/?p={number}"] = (
            f'<html lang="de-DE"><title>Haus</title>{head}<main><nav aria-label="pagination"><ul class="pagination">{pager}</ul></nav><div class="row cms-listing-row">{cards}</div></main>'
        )
    for i in listed:
        path = f"/{i.slug}/SW{i.number}"
        state = "Sofort verfügbar, Lieferzeit 1-3 Tage" if i.available else "Nicht mehr verfügbar"
        pages[path] = (
            f'<html lang="de-DE"><title>{i.title} | SW{i.number}</title><meta property="og:type" content="product"><meta property="product:brand" content="{escape(i.brand)}"><meta property="product:price:amount" content="{i.price}"><meta property="product:price:currency" content="EUR">{head}'
            f'<main itemscope itemtype="https://schema.org/Product"><h1 class="product-detail-name" itemprop="name">{i.title}</h1><div class="product-detail-price-container"><meta itemprop="price" content="{i.price}"><p class="product-detail-price">{euro(i.price)}*</p></div>'
            f'<p class="delivery-information">{state}</p><div class="product-detail-ordernumber-container"><span class="product-detail-ordernumber-label">Produktnummer:</span> <span class="product-detail-ordernumber" itemprop="sku">SW{i.number}</span></div>'
            f'<div class="product-detail-description-text" itemprop="description">{i.description}</div></main>'
        )
        truth[path] = {
            **truth_of(i, "title", "price", "availability", "brand", "description"),
            "sku": f"SW{i.number}",
        }
    return Shop("/Haus/", pages, truth, 2)


ENGINES = {shop.__name__: shop for shop in (wordpress, dawn, luma, presta, opencart, shopware)}
CURRENCIES = dict.fromkeys(("wordpress", "dawn", "luma", "opencart"), "USD")
