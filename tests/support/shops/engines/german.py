"""Oxid and JTL-Shop, by their default markup."""

from __future__ import annotations

from decimal import Decimal
from html import escape

from tests.support.shops.engines.catalogue import Category, Engine
from tests.support.shops.shop_templates import Item


def euros(price: Decimal) -> str:
    return f"{price:,.2f}".translate(str.maketrans(",.", ".,")) + " €"


class Oxid(Engine):
    """Addresses in words with the category, `?pgNr=1` for page 2, and a crossed-out price."""

    currency = "EUR"
    fields = ("title", "price", "list_price", "availability", "sku", "brand")
    placed = True

    def url(self, item: Item, category: Category | None = None) -> str:
        return f"/{(category or self.shop.homes[item.number][0]).path('/', 'name')}/{item.title.replace(' ', '-')}.html"

    def list_url(self, category: Category, page: int = 1) -> str:
        return f"/{category.path('/', 'name')}/" + (f"?pgNr={page - 1}" if page > 1 else "")

    def frame(self, title: str, body: str, head: str = "") -> str:
        menu = "".join(
            f'<li class="nav-item dropdown"><a href="{self.list_url(top)}" class="nav-link dropdown-toggle">{top.name}</a><ul class="dropdown-menu">{"".join(f"""<li class="dropdown-item"><a href="{self.list_url(c)}" class="dropdown-link">{c.name}</a></li>""" for c in self.shop.below(top))}</ul></li>'
            for top in self.shop.tops
        )
        return (
            f'<!DOCTYPE html><html lang="de"><head><title>{title} | OXID eShop</title>{head}</head><body class="cl-alist"><header id="header"><div class="header-box"><a href="/" title="" class="logo-link"><img src="/logo.svg" alt="OXID"></a><div class="menus-dropdowns"><div class="minibasket-menu"><button class="btn">0 Artikel</button></div></div></div>'
            f'<nav id="mainnav" class="navbar"><ul id="navigation" class="navbar-nav">{menu}</ul></nav></header><div id="wrapper"><div class="container-xxl"><div class="content" id="content">{body}</div></div></div>'
            '<footer id="footer"><ul class="services list-unstyled"><li><a href="/kontakt/">Kontakt</a></li><li><a href="/warenkorb/">Warenkorb</a></li></ul><div class="vat-info"><span>* Alle Preise inkl. MwSt., zzgl. Versandkosten</span></div></footer></body></html>'
        )

    def _box(self, i: Item, category: Category | None = None) -> str:
        link = self.url(i, category)
        old = (
            f'<span class="oldPrice text-muted"><del>{euros(i.list_price)}</del></span> '
            if i.list_price
            else ""
        )
        return (
            f'<div class="productBox"><form name="tobasket.{i.number}" action="/index.php?" method="post"><div class="picture text-center"><a href="{link}" title="{i.title}"><img src="{i.image}" alt="{i.title}" class="img-fluid"></a></div>'
            f'<div class="listDetails"><div class="title"><a id="productList_{i.number}" href="{link}" class="title" title="{i.title}"><span>{i.title}</span></a></div><div class="price text-center"><div class="content">{old}<span id="productPrice_productList_{i.number}" class="lead text-nowrap">{euros(i.price)} *</span></div></div><div class="actions"><a class="btn btn-primary" href="{link}">Mehr Informationen</a></div></div></form></div>'
        )

    def home(self) -> str:
        return f'<h1 class="sr-only">Startseite</h1><div class="boxwrapper" id="boxwrapper_newItems"><div class="page-header"><h3>Frisch eingetroffen!</h3></div><div class="list-container" id="newItems">{"".join(map(self._box, self.shop.items[8:12]))}</div></div>'

    def listing(self, category: Category, page: int, pages: int, on_page: list[Item]) -> str:
        subs = "".join(
            f'<div class="card subcat"><div class="card-header"><a id="moreSubCat_{n}" href="{self.list_url(c)}">{c.name}</a> ({len(c.items)})</div></div>'
            for n, c in enumerate(self.shop.below(category), 1)
        )
        pager = "".join(
            f'<li class="page-item{" active" if n == page else ""}"><a class="page-link" href="{self.list_url(category, n)}">{n}</a></li>'
            for n in range(1, pages + 1)
        )
        if page < pages:
            pager += f'<li class="page-item next"><a class="page-link" href="{self.list_url(category, page + 1)}" aria-label="Weiter">»</a></li>'
        pager = f'<ul class="pagination">{pager}</ul>' if pages > 1 else ""
        boxes = "".join(self._box(i, category) for i in on_page)
        return f'<div class="page-header"><h1>{category.name}</h1></div><div class="subcatList">{subs}</div><div class="refineParams">{pager}</div><div class="list-container" id="productList">{boxes}</div>{pager}'

    def product(self, item: Item, category: Category) -> str:
        i = item
        crumbs = "".join(
            f'<li class="breadcrumb-item"><a href="{self.list_url(c)}" title="{c.name}"><span>{c.name}</span></a></li>'
            for c in category.chain
        )
        old = (
            f'<del class="price-old">{euros(i.list_price)}</del><br><small class="text-muted">statt UVP</small>'
            if i.list_price
            else ""
        )
        stock = (
            '<span class="stockFlag lowStock text-success"><i class="fa fa-circle"></i> Sofort lieferbar</span>'
            if i.available
            else '<span class="stockFlag notOnStock"><i class="fa fa-circle text-danger"></i> Artikel ist nicht auf Lager</span>'
        )
        buy = (
            '<div class="tobasketFunction"><input id="amountToBasket" type="text" name="am" value="1"><button id="toBasket" type="submit" class="btn btn-primary">In den Warenkorb</button></div>'
            if i.available
            else ""
        )
        brand = (
            f'<a href="/Hersteller/" title="{escape(i.brand)}"><img src="/out/m.png" alt="{escape(i.brand)}"></a><dl class="attributes row"><dt class="col-md-3">Hersteller</dt><dd class="col-md-9">{escape(i.brand)}</dd></dl>'
            if i.brand
            else ""
        )
        related = "".join(map(self._box, self.shop.after(i, 3)))
        body = (
            f'<nav aria-label="breadcrumb" id="breadcrumb"><ol class="breadcrumb"><li class="text-muted">Sie sind hier:</li>{crumbs}<li class="breadcrumb-item active"><a href="{self.url(i, category)}" title="{i.title}"><span>{i.title}</span></a></li></ol></nav>'
            f'<div id="details_container"><div id="details"><form class="js-oxProductForm" action="/index.php?" method="post"><input type="hidden" name="aid" value="{i.number}"><div class="detailsInfo row"><div class="col-md-4 details-col-left"><div class="picture text-center"><a href="{i.image}" id="zoom1"><img src="{i.image}" alt="{i.title}" class="img-fluid"></a></div></div>'
            f'<div class="col-md-8 details-col-middle"><h1 id="productTitle">{i.title}</h1><span class="small text-muted">Artikelnummer: {i.sku}</span><div class="shortdesc lead" id="productShortdesc">{i.description[:50]}</div><div class="stockinfo">{stock}</div><div class="pricebox"><div class="tprice">{old}</div><label id="productPrice" class="price h4"><strong><span>{euros(i.price)} *</span></strong></label></div>{buy}</div></div></form></div>'
            f'<div class="relatedInfo"><div id="description" class="tab-pane">{i.description}</div>{brand}<div class="boxwrapper" id="boxwrapper_cross"><h3>Kennen Sie schon?</h3><div class="list-container" id="cross">{related}</div></div></div></div>'
        )
        return self.frame(
            i.title,
            body,
            f'<link rel="canonical" href="{{host}}{self.url(i)}"><meta property="og:type" content="product"><meta property="og:title" content="{i.title}">',
        )


class JtlShop(Engine):
    """Products and categories at the root, `_s2` behind a category's name for page 2, microdata in
    lists and pages, and the former price in words."""

    currency = "EUR"
    fields = ("title", "price", "list_price", "availability", "sku", "gtin", "brand")

    def url(self, item: Item, category: Category | None = None) -> str:
        return f"/{item.title.replace(' ', '-')}"

    def list_url(self, category: Category, page: int = 1) -> str:
        return f"/{category.name}" + (f"_s{page}" if page > 1 else "")

    def frame(self, title: str, body: str, head: str = "") -> str:
        menu = "".join(
            f'<li class="nav-item nav-scrollbar-item dropdown dropdown-full"><a href="{{host}}{self.list_url(top)}" title="{top.name}" class="nav-link dropdown-toggle"><span class="nav-mobile-heading">{top.name}</span></a><div class="dropdown-menu"><div class="dropdown-body"><div class="container subcategory-wrapper"><div class="row lg-row-lg nav">{"".join(f"""<div class="nav-item-lg-m nav-item dropdown"><a href="{{host}}{self.list_url(c)}" class="categories-recursive-link d-lg-block submenu-headline submenu-headline-toplevel 1"><span class="text-truncate d-block">{c.name}</span></a></div>""" for c in self.shop.below(top))}</div></div></div></div></li>'
            for top in self.shop.tops
        )
        return (
            f'<!DOCTYPE html><html lang="de" itemscope itemtype="https://schema.org/WebPage"><head><meta http-equiv="content-type" content="text/html; charset=utf-8"><meta itemprop="name" content="{title} - JTL-Shop"><meta itemprop="url" content="{{host}}/"><title itemprop="name">{title} - JTL-Shop</title>{head}</head><body class="btn-animated desktop-device"><header class="d-print-none sticky-top fixed-navbar"><div class="toggler-logo-wrapper"><div class="logo-wrapper" itemprop="publisher" itemscope itemtype="https://schema.org/Organization"><span itemprop="name" class="d-none">Muster GmbH</span><meta itemprop="url" content="{{host}}/"><a href="{{host}}/" title="JTL-Shop" class="navbar-brand"><img src="/logo.png" alt="JTL-Shop"></a></div></div>'
            f'<div id="mainNavigation"><div class="nav-scrollbar-inner"><ul class="navbar-nav nav-scrollbar">{menu}</ul></div></div><ul class="nav-right"><li class="cart-icon-dropdown nav-item dropdown empty"><a class="nav-link" href="{{host}}/Warenkorb"><span class="cart-icon-dropdown-price">0,00 €</span></a></li></ul></header><main id="main-wrapper"><div id="content-wrapper"><div id="content">{body}</div></div></main>'
            '<footer id="footer"><div class="footnote-vat"><span>*</span> Alle Preise inkl. gesetzlicher USt., zzgl. <a href="{host}/Versand">Versand</a></div><div id="copyright"><span class="system-credits">Powered by JTL-Shop</span></div></footer></body></html>'
        )

    def _price(self, i: Item, detail: bool = False) -> str:
        old = f"Alter Preis: {euros(i.list_price)}" if i.list_price else ""
        now = '<span class="price_label nowonly">Nur </span>' if i.list_price else ""
        star = "" if detail else ' <span class="footnote-reference">*</span>'
        note = (
            f'<div class="price-note"><span class="vat_info text-muted">inkl. 19% USt., zzgl. <a href="/Versand">Versand</a></span>{f"""<div class="text-danger text-stroke text-nowrap">{old}</div>""" if old else ""}</div>'
            if detail
            else f'<div class="price-note">{f"""<div class="instead-of old-price"><small class="text-muted-util">{old}</small></div>""" if old else ""}</div>'
        )
        return f'<div class="price_wrapper">{now}<div class="price d-inline-block {"h1" if detail else "productbox-price"}{" special-price" if old else ""}"><span>{euros(i.price)}</span>{star}<meta itemprop="price" content="{i.price}"><meta itemprop="priceCurrency" content="EUR"></div>{note}</div>'

    def _box(self, i: Item) -> str:
        return (
            f'<div class="col product-wrapper col-sm-6 col-md-4 col-xl-3 col-6" itemprop="itemListElement" itemscope itemtype="https://schema.org/Product"><div id="result-wrapper_buy_form_{i.number}" data-wrapper="true" class="productbox productbox-column hover-enabled"><form id="buy_form_{i.number}" action="{{host}}{self.url(i)}" class="form form-basket"><div class="productbox-inner"><div class="productbox-image"><a href="{{host}}{self.url(i)}"><img src="{i.image}" alt="{i.title}" itemprop="image"></a></div>'
            f'<div class="productbox-title" itemprop="name"><a href="{{host}}{self.url(i)}" class="text-clamp-2">{i.title}</a></div><meta itemprop="url" content="{{host}}{self.url(i)}"><div itemprop="offers" itemscope itemtype="https://schema.org/Offer"><link itemprop="businessFunction" href="http://purl.org/goodrelations/v1#Sell">{self._price(i)}</div>'
            f'<div class="item-delivery-status">{self._stock(i)}</div><button type="submit" class="btn basket-details">In den Warenkorb</button></div></form></div></div>'
        )

    def _slide(self, i: Item) -> str:
        return (
            f'<div class="product-wrapper product-wrapper-product text-center-util" itemprop="isRelatedTo" itemscope itemtype="https://schema.org/Product"><div class="item-slider productbox-image"><a href="{{host}}{self.url(i)}"><img src="{i.image}" alt="{i.title}"><meta itemprop="image" content="{i.image}"><meta itemprop="url" content="{{host}}{self.url(i)}"></a></div>'
            f'<div class="item-slider-desc"><a href="{{host}}{self.url(i)}"><span class="item-slider-desc text-clamp-2" itemprop="name">{i.title}</span></a></div><div class="item-slider-price" itemprop="offers" itemscope itemtype="https://schema.org/Offer">{self._price(i)}</div></div>'
        )

    def _slider(self, heading: str, items: list[Item]) -> str:
        return f'<section class="slick-slider"><div class="hr-sect h2">{heading}</div><div class="slick-smooth-loading carousel">{"".join(map(self._slide, items))}</div></section>'

    def _stock(self, i: Item) -> str:
        if i.available:
            return f'<span class="status status-{2 if i.stock > 5 else 1}"><span class="fas fa-truck mr-2"></span>{"sofort verfügbar" if i.stock > 5 else "Knapper Lagerbestand"}</span>'
        return '<span class="status status-0"><span class="fas fa-truck mr-2"></span>Momentan nicht verfügbar</span>'

    def home(self) -> str:
        return self._slider("Neu im Sortiment", self.shop.items[8:12])

    def listing(self, category: Category, page: int, pages: int, on_page: list[Item]) -> str:
        subs = "".join(
            f'<div class="col sub-categories col-md-4 col-lg-3 col-6"><a href="{{host}}{self.list_url(c)}"><img src="/c/{c.number}.jpg" alt="{c.name}"></a><div class="caption"><a href="{{host}}{self.list_url(c)}">{c.name}</a></div></div>'
            for c in self.shop.below(category)
        )
        links = "".join(
            f'<li class="page-item{" active" if n == page else ""}"><a class="page-link" href="{{host}}{self.list_url(category, n)}">{n}</a></li>'
            for n in range(1, pages + 1)
        )
        if page < pages:
            links += f'<li class="page-item next"><a class="page-link" href="{{host}}{self.list_url(category, page + 1)}" aria-label="nächste"><i class="fas fa-long-arrow-alt-right"></i></a></li>'
        first = page * self.size - self.size + 1
        nav = (
            f'<div class="row productlist-page-nav"><div class="col productlist-item-info">Artikel {first} - {first + len(on_page) - 1} von {len(category.items)}</div><div class="col productlist-pagination"><nav class="navbar-pagination" aria-label="Seitennavigation"><ul class="pagination">{links}</ul></nav></div></div>'
            if pages > 1
            else ""
        )
        boxes = "".join(map(self._box, on_page))
        grid = f'{nav}<div class="row product-list layout-gallery" id="product-list" itemprop="mainEntity" itemscope itemtype="https://schema.org/ItemList">{boxes}</div>{nav}'
        return f'<div id="result-wrapper" data-wrapper="true"><div class="title"><h1 class="h2">{category.name}</h1></div><div class="row row-eq-height content-cats-small">{subs}</div>{grid if on_page else ""}</div>'

    def product(self, item: Item, category: Category) -> str:
        i = item
        steps = [("Startseite", "/"), *((c.name, self.list_url(c)) for c in category.chain)]
        crumbs = "".join(
            f'<li class="breadcrumb-item" itemprop="itemListElement" itemscope itemtype="https://schema.org/ListItem"><a itemprop="item" href="{{host}}{path}" title="{name}"><span itemprop="name">{name}</span></a><meta itemprop="position" content="{n}"></li>'
            for n, (name, path) in enumerate([*steps, (i.title, self.url(i))], 1)
        )
        back = f'<li class="breadcrumb-item breadcrumb-arrow"><a href="{{host}}{self.list_url(category)}" title="{category.name}"><span itemprop="name">{category.name}</span></a></li>'
        brand = (
            f'<li class="product-manufacturer" itemprop="brand" itemscope itemtype="https://schema.org/Organization"><strong>Hersteller:</strong> <a href="{{host}}/Hersteller" itemprop="url"><span itemprop="name">{escape(i.brand)}</span></a></li>'
            if i.brand
            else ""
        )
        gtin = (
            f'<li class="product-ean"><strong>GTIN:</strong> <span itemprop="gtin13">{i.gtin}</span></li>'
            if i.gtin
            else ""
        )
        buy = (
            '<div id="add-to-cart" class="product-buy"><div class="basket-form-inline"><input type="number" name="anzahl" value="1"><button type="submit" class="btn btn-primary">In den Warenkorb</button></div></div>'
            if i.available
            else '<div id="add-to-cart"><button type="button" class="btn btn-primary">Benachrichtigung anfordern</button></div>'
        )
        body = (
            f'<div class="container breadcrumb-wrapper"><ol id="breadcrumb" class="breadcrumb" itemprop="breadcrumb" itemscope itemtype="https://schema.org/BreadcrumbList">{back}{crumbs}</ol></div>'
            f'<div id="result-wrapper" data-wrapper="true" itemprop="mainEntity" itemscope itemtype="https://schema.org/Product"><meta itemprop="url" content="{{host}}{self.url(i)}"><form id="buy_form" action="{{host}}{self.url(i)}" method="post" class="jtl-validate"><div id="product-offer" class="row product-detail"><div class="col product-gallery col-lg-6"><img src="{i.image}" alt="{i.title}" itemprop="image"></div>'
            f'<div class="col product-info col-lg-6"><div class="product-info-inner"><div class="product-headline"><h1 class="product-title h2" itemprop="name">{i.title}</h1></div><ul class="info-essential list-unstyled"><li class="product-sku"><strong>Artikelnummer:</strong> <span itemprop="sku">{i.sku}</span></li>{gtin}<li class="product-category word-break"><strong>Kategorie:</strong> <a href="{{host}}{self.list_url(category)}" itemprop="category">{category.name}</a></li>{brand}</ul>'
            f'<div class="shortdesc" itemprop="description">{i.description[:60]}</div><div class="product-offer" itemprop="offers" itemscope itemtype="https://schema.org/Offer"><meta itemprop="url" content="{{host}}{self.url(i)}"><link itemprop="businessFunction" href="http://purl.org/goodrelations/v1#Sell"><input type="hidden" name="a" value="{i.number}">{self._price(i, detail=True)}'
            f'<div class="delivery-status"><ul class="list-unstyled"><li>{self._stock(i)}<link itemprop="availability" href="https://schema.org/{"InStock" if i.available else "OutOfStock"}"></li><li><div class="estimated-delivery">Lieferzeit: <span class="a2">2 - 3 Werktage</span></div></li></ul></div>{buy}</div></div></div></div></form>'
            f'<div id="article-tabs"><div class="tab-pane desc"><p>{i.description}</p></div></div>{self._slider("Kunden kauften dazu folgende Artikel:", self.shop.after(i, 4))}</div>'
        )
        return self.frame(
            i.title,
            body,
            f'<link rel="canonical" href="{{host}}{self.url(i)}"><meta property="og:type" content="website"><meta property="og:title" content="{i.title}">',
        )


GERMAN = {engine.__name__: engine for engine in (Oxid, JtlShop)}
