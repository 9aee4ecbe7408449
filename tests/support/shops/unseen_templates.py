"""Shops made before anybody looked at how discovery decides, to be judged by: menus full of cards,
prices in pieces, recommendations in the product's own markup, prices next to the price."""

from __future__ import annotations

import json
from decimal import Decimal
from html import escape

from tests.support.shops.shop_templates import Item, Shop, chunks, euro, items, truth_of


def cornerstone() -> Shop:
    """English: prices without and with tax, a menu and a footer full of product cards, related
    products in the cards of the listing."""
    listed, pages, truth = items(), {}, {}

    def card(i: Item) -> str:
        return (
            f'<li class="product"><article class="card" data-entity-id="{i.number}">'
            f'<figure class="card-figure"><a href="{{host}}/{i.slug}/"><img class="card-image lazyload" data-src="{i.image}" src="/img/loading.svg" alt="{i.title}"></a>'
            f'<figcaption><a href="/cart.php?action=add&amp;product_id={i.number}" class="button">Add to Cart</a></figcaption></figure>'
            f'<div class="card-body"><p class="card-text">{escape(i.brand)}</p><h4 class="card-title"><a href="{{host}}/{i.slug}/">{i.title}</a></h4>'
            f'<div class="card-text" data-test-info-type="price"><div class="price-section price-section--withoutTax"><span class="price price--withoutTax">£{i.price / 2:,.2f}</span> <abbr title="Excluding Tax">(Ex. VAT)</abbr></div>'
            f'<div class="price-section price-section--withTax"><span class="price price--withTax">£{i.price:,.2f}</span> <abbr title="Including Tax">(Inc. VAT)</abbr></div></div></div></article></li>'
        )

    menu = (
        '<div class="banner">We use cookies. <button>Accept all</button> <a href="/privacy/">More</a></div><nav class="navPages"><ul>'
        + "".join(f'<li><a href="/{g.lower()}/">{g}</a></li>' for g in ("Kitchen", "Garden"))
        + f'</ul><div class="navPage-featured"><h5>Best sellers</h5>{"".join(map(card, listed[3:9]))}</div></nav>'
    )
    footer = f"<footer><h5>Recently viewed</h5>{''.join(map(card, listed[20:23]))}<p>Free delivery over £50.00</p></footer>"
    for number, on_page in chunks(listed, 16):
        pager = "".join(
            f'<li class="pagination-item"><a class="pagination-link" href="{{host}}/shop-all/?page={n}">{n}</a></li>'
            for n in (1, 2, 3)
        )
        pages["/shop-all/" if number == 1 else f"/shop-all/?page={number}"] = (
            f'<html lang="en"><title>Shop all</title>{menu}<main><h1>Shop all</h1><ul class="productGrid">{"".join(map(card, on_page))}</ul>'
            f'<nav class="pagination" aria-label="pagination"><ul>{pager}</ul></nav></main>{footer}'
        )
    for n, i in enumerate(listed):
        rrp = (
            f'<div class="price-section rrp-price--withTax">RRP: <span class="price price--rrp">£{i.list_price:,.2f}</span></div>'
            if i.list_price
            else ""
        )
        buy = (
            '<input class="button button--primary" type="submit" value="Add to Cart">'
            if i.available
            else '<p class="productView-soldout">Out of stock</p>'
        )
        path = f"/{i.slug}/"
        pages[path] = (
            f'<html lang="en"><title>{i.title} - Cornerstone</title>{menu}<ol class="breadcrumbs"><li><a href="/">Home</a></li><li><a href="/c/">{i.category}</a></li><li>{i.title}</li></ol>'
            f'<div class="productView"><section class="productView-images"><img class="productView-image--default" src="{i.image}" alt="{i.title}"></section>'
            f'<section class="productView-details"><h1 class="productView-title">{i.title}</h1><h2 class="productView-brand"><a href="/brands/{n % 5}">{escape(i.brand)}</a></h2>'
            f'<div class="productView-price"><div class="price-section price-section--withoutTax"><span class="price price--withoutTax">£{i.price / 2:,.2f}</span> <abbr>(Ex. VAT)</abbr></div>'
            f'<div class="price-section price-section--withTax"><span class="price price--withTax">£{i.price:,.2f}</span> <abbr>(Inc. VAT)</abbr></div>{rrp}</div>'
            f'<dl class="productView-info"><dt class="productView-info-name sku-label">SKU:</dt><dd class="productView-info-value" data-product-sku>{i.sku}</dd>'
            f'<dt class="productView-info-name upc-label">UPC:</dt><dd class="productView-info-value" data-product-upc>{i.gtin}</dd></dl>{buy}</section>'
            f'<article class="productView-description"><div class="tab-content"><p>{i.description}</p></div></article></div>'
            f'<h2>Related Products</h2><ul class="productGrid">{"".join(map(card, listed[(n + 5) % 30 :][:4]))}</ul>{footer}'
        )
        truth[path] = truth_of(i, "title", "price", "sku", "gtin", "brand")
    return Shop("/shop-all/", pages, truth, 3)


def ngstore() -> Shop:
    """An Angular shop rendered on its server: elements of its own, attributes for scopes, the
    price in pieces, JSON-LD at the end, "show more" by an offset."""
    listed, pages, truth = items(), {}, {}
    for number, on_page in chunks(listed, 8):
        cards = "".join(
            f'<app-product-tile _ngcontent-ng-c391 _nghost-ng-c77><div _ngcontent-ng-c77 class="tile"><a _ngcontent-ng-c77 routerlink="" href="/product/{i.number}/{i.slug}"><img _ngcontent-ng-c77 loading="lazy" src="{i.image}?w=200"><span _ngcontent-ng-c77 class="name">{i.title}</span></a>'
            f'<app-price _ngcontent-ng-c77><span _ngcontent-ng-c12 class="whole">{int(i.price):,}</span><span _ngcontent-ng-c12>.</span><sup _ngcontent-ng-c12>{int(i.price * 100) % 100:02}</sup><span _ngcontent-ng-c12> USD</span></app-price></div></app-product-tile>'
            for i in on_page
        )
        more = (
            f'<a _ngcontent-ng-c391 class="btn" rel="nofollow" href="/search?sort=new&amp;offset={number * 8}">Show more</a>'
            if number < 5
            else ""
        )
        pages[
            "/search?sort=new" if number == 1 else f"/search?sort=new&offset={number * 8 - 8}"
        ] = f'<html lang="en"><head><title>Search</title></head><body><app-root ng-version="18.2.1"><app-header><a href="/">ng</a><a href="/stores">Stores</a></app-header><app-search>{cards}{more}</app-search></app-root>'
    for i in listed:
        path = f"/product/{i.number}/{i.slug}"
        data = {
            "@context": "http://schema.org/",
            "@type": "Product",
            "name": i.title,
            "image": [f"https://img.example{i.image}"],
            "sku": i.sku,
            "gtin13": i.gtin,
            "brand": {"@type": "Brand", "name": i.brand},
            "aggregateRating": {"@type": "AggregateRating", "ratingValue": str(i.rating), "reviewCount": "7"},
            "offers": {"@type": "Offer", "price": float(i.price), "priceCurrency": "USD", "availability": "InStock" if i.available else "OutOfStock"},
        }  # fmt: skip
        pages[path] = (
            f'<html lang="en"><head><title>{i.title} | ng store</title></head><body><app-root ng-version="18.2.1"><app-header><a href="/">ng</a><a href="/stores">Stores</a></app-header><app-pdp><h1 _ngcontent-ng-c5>{i.title}</h1>'
            f"<app-price><span class=whole>{int(i.price):,}</span><span>.</span><sup>{int(i.price * 100) % 100:02}</sup><span> USD</span></app-price><p _ngcontent-ng-c5>{i.description}</p></app-pdp></app-root>"
            f'<script type="application/ld+json">{json.dumps(data)}</script>'
        )
        truth[path] = truth_of(
            i, "title", "price", "sku", "gtin", "brand", "availability", "rating"
        )
    return Shop("/search?sort=new", pages, truth, 5)


def taulukko() -> Shop:
    """Finnish, tables within tables and fonts, three columns a row, ids in the query, capitals."""
    listed, pages, truth = items(), {}, {}

    def money(price: Decimal) -> str:
        return f"{price:.2f}".replace(".", ",") + " euroa"

    side = '<TD WIDTH=150 VALIGN=top BGCOLOR="#CCCCFF"><A HREF="tilaus.asp">Tilaus</A><BR><A HREF="yhteys.asp">Yhteys</A><BR><A HREF="ohje.asp">Ohje</A></TD>'
    for number, on_page in chunks(listed, 9):
        rows = "".join(
            "<TR>"
            + "".join(
                f'<TD ALIGN=center><A HREF="tuote.asp?ryhma=4&tuote={i.number}"><IMG SRC="{i.image}" BORDER=0></A><BR><FONT SIZE=2><A HREF="tuote.asp?ryhma=4&tuote={i.number}">{i.title}</A></FONT><BR><B><FONT COLOR=red>{money(i.price)}</FONT></B></TD>'
                for i in on_page[at : at + 3]
            )
            + "</TR>"
            for at in range(0, len(on_page), 3)
        )
        following = (
            f'<A HREF="lista.asp?ryhma=4&sivu={number + 1}">Seuraava sivu &gt;&gt;</A>'
            if number < 5
            else ""
        )
        pages[
            "/kauppa/lista.asp?ryhma=4"
            if number == 1
            else f"/kauppa/lista.asp?ryhma=4&sivu={number}"
        ] = f"<HTML><HEAD><TITLE>Kauppa</TITLE></HEAD><BODY><TABLE WIDTH=700><TR>{side}<TD><TABLE CELLPADDING=6>{rows}</TABLE><P ALIGN=right>{following}</TD></TR></TABLE></BODY></HTML>"
    for i in listed:
        path = f"/kauppa/tuote.asp?ryhma=4&tuote={i.number}"
        state = "Varastossa" if i.available else "Loppunut varastosta"
        was = f"<S>{money(i.list_price)}</S> " if i.list_price else ""
        pages[path] = (
            f"<HTML><HEAD><TITLE>Kauppa</TITLE></HEAD><BODY><TABLE WIDTH=700><TR>{side}<TD><FONT SIZE=5><B>{i.title}</B></FONT><HR>"
            f'<TABLE><TR><TD><IMG SRC="{i.image}"></TD><TD><TABLE BORDER=1><TR><TD>Tuotenumero</TD><TD>{i.sku}</TD></TR><TR><TD>Valmistaja</TD><TD>{escape(i.brand)}</TD></TR>'
            f"<TR><TD>Hinta</TD><TD>{was}<FONT COLOR=red><B>{money(i.price)}</B></FONT></TD></TR><TR><TD>Saatavuus</TD><TD>{state}</TD></TR></TABLE></TD></TR></TABLE><P>{i.description}</P></TD></TR></TABLE></BODY></HTML>"
        )
        truth[path] = truth_of(i, "title", "price", "sku", "brand", "availability")
    return Shop("/kauppa/lista.asp?ryhma=4", pages, truth, 5)


def souq() -> Shop:
    """Arabic, right to left: riyals, words of Arabic in addresses, and a sale price after the old one."""
    listed, pages, truth = items(), {}, {}
    for number, on_page in chunks(listed, 10):
        cards = "".join(
            f'<div class="s-product-card-entry"><a href="/ar/%D9%85%D9%86%D8%AA%D8%AC-{i.slug}/p{i.number}"><img src="{i.image}" alt="{i.title}"></a><h3><a href="/ar/%D9%85%D9%86%D8%AA%D8%AC-{i.slug}/p{i.number}">{i.title}</a></h3>'
            + (f'<h4 class="before">{i.list_price:,.2f} ر.س</h4>' if i.list_price else "")
            + f'<h4 class="now">{i.price:,.2f} ر.س</h4><button>أضف للسلة</button></div>'
            for i in on_page
        )
        following = (
            f'<a class="pg" href="/ar/all?page={number + 1}">التالي</a>' if number < 4 else ""
        )
        pages["/ar/all" if number == 1 else f"/ar/all?page={number}"] = (
            f'<html lang="ar" dir="rtl"><title>كل المنتجات</title><header><a href="/ar">الرئيسية</a><a href="/ar/contact">اتصل بنا</a></header><section>{cards}</section><div>{following}</div>'
        )
    for i in listed:
        path = f"/ar/%D9%85%D9%86%D8%AA%D8%AC-{i.slug}/p{i.number}"
        was = f'<span class="before">{i.list_price:,.2f} ر.س</span> ' if i.list_price else ""
        state = "متوفر" if i.available else "غير متوفر"
        pages[path] = (
            f'<html lang="ar" dir="rtl"><title>{i.title} | سوق</title><meta property="og:title" content="{i.title}"><meta property="og:image" content="https://cdn.souq.example{i.image}"><header><a href="/ar">الرئيسية</a></header>'
            f'<h1>{i.title}</h1><div class="total">{was}<span class="now">{i.price:,.2f} ر.س</span> <small>شامل الضريبة</small></div><ul><li><b>رقم المنتج:</b> <span>{i.sku}</span></li><li><b>الماركة:</b> <span>{escape(i.brand)}</span></li><li><b>التوفر:</b> <span>{state}</span></li></ul><article>{i.description}</article>'
        )
        truth[path] = truth_of(i, "title", "price", "sku")
    return Shop("/ar/all", pages, truth, 4)


def emporium() -> Shop:
    """English: the price in spans with a copy for readers aloud, a price for each ounce, monthly
    payments, and sponsored products before the product in the product's own markup."""
    listed, pages, truth = items(), {}, {}

    def price(amount: Decimal, more: str = "") -> str:
        whole, cents = f"{amount:,.2f}".split(".")
        return f'<span class="a-price{more}"><span class="a-offscreen">${whole}.{cents}</span><span aria-hidden="true"><span class="a-symbol">$</span><span class="a-whole">{whole}<span class="a-dot">.</span></span><span class="a-fraction">{cents}</span></span></span>'

    def card(i: Item) -> str:
        was = f'<span class="a-list">List: ${i.list_price:,.2f}</span>' if i.list_price else ""
        return (
            f'<div data-asin="B0{i.number}XY" class="s-result"><a class="a-link" href="/{i.slug}/dp/B0{i.number}XY/ref=sr_1"><img src="{i.image}" alt="{i.title}"></a><h2><a class="a-link" href="/{i.slug}/dp/B0{i.number}XY/ref=sr_1"><span>{i.title}</span></a></h2>'
            f'<div>{price(i.price)} <span class="per">(${i.price / 16:.2f}/Ounce)</span> {was}</div><span>{i.rating} out of 5 stars</span></div>'
        )

    for number, on_page in chunks(listed, 20):
        following = (
            '<a href="/s?k=home&amp;page=2&amp;ref=sr_pg_2" class="s-pagination-next" aria-label="Go to next page, page 2">Next</a>'
            if number < 2
            else '<span class="s-pagination-next s-pagination-disabled">Next</span>'
        )
        pages["/s?k=home" if number == 1 else "/s?k=home&page=2&ref=sr_pg_2"] = (
            f'<html lang="en-us"><title>home</title><div id="nav"><a href="/gp/cart">Cart</a><a href="/gp/help">Help</a></div><span>1-{len(on_page)} of {len(listed)} results</span><div class="s-main">{"".join(map(card, on_page))}</div>{following}'
        )
    for n, i in enumerate(listed):
        path = f"/{i.slug}/dp/B0{i.number}XY/ref=sr_1"
        other = "".join(
            f'<div class="center-col"><h5 class="title"><a href="/{o.slug}/dp/B0{o.number}XY/ref=sp_1">{o.title}</a></h5>{price(o.price)}</div>'
            for o in listed[(n + 9) % 33 :][:5]
        )
        was = (
            f'<span class="basis">List Price: {price(i.list_price, " a-text-price")}</span>'
            if i.list_price
            else ""
        )
        state = "In Stock" if i.available else "Currently unavailable."
        pages[path] = (
            f'<html lang="en-us"><title>{i.title} : Home</title><div id="nav"><a href="/gp/cart">Cart</a></div><div class="sponsored"><h4>Sponsored</h4>{other}</div>'
            f'<div id="centerCol" class="center-col"><h1 id="title" class="title"><span id="productTitle"> {i.title} </span></h1><a id="bylineInfo" href="/b/{n % 5}">Brand: {escape(i.brand)}</a><i><span>{i.rating} out of 5 stars</span></i>'
            f'<div id="corePrice">{price(i.price)} <span class="per">(${i.price / 16:.2f} / Ounce)</span><br>{was}<br>or ${i.price / 12:.2f}/mo for 12 months</div><div id="availability"><span>{state}</span></div>'
            f'<table id="details"><tr><th>Item model number</th><td>{i.sku}</td></tr><tr><th>ASIN</th><td>B0{i.number}XY</td></tr><tr><th>UPC</th><td>{i.gtin}</td></tr></table><div id="productDescription"><p>{i.description}</p></div></div>'
            f'<div class="bundle"><h4>Frequently bought together</h4>{other}<b>Total: ${i.price + 40:,.2f}</b></div>'
        )
        truth[path] = truth_of(i, "title", "price", "availability", "brand")
    return Shop("/s?k=home", pages, truth, 2)


def drogerie() -> Shop:
    """German: classes that change with every build, data-test attributes, a base price next to every
    price, a cookie banner in front, and "Seite 2 von 3"."""
    listed, pages, truth = items(), {}, {}
    banner = '<div class="css-0 e1x" role="dialog"><h1>Cookies</h1><p>Wir verwenden Cookies, ab 0,00 €.</p><button>Alle akzeptieren</button></div>'
    for number, on_page in chunks(listed, 14):
        cards = "".join(
            f'<div class="css-{i.number:x} e8" data-dmid="{i.number}"><a class="css-1a{n}" href="/{i.slug}-p400{i.number}.html"><img src="{i.image}"></a><div class="css-q{n}"><span class="css-b">{escape(i.brand)}</span><a href="/{i.slug}-p400{i.number}.html">{i.title}</a>, 250 ml</div>'
            f'<div class="css-pr"><span>{euro(i.price)}</span><span>0,25 l ({euro(i.price * 4)} je 1 l)</span></div></div>'
            for n, i in enumerate(on_page)
        )
        more = (
            f'<a class="css-z9" href="/haushalt?currentPage={number}">nächste Seite</a>'
            if number < 3
            else ""
        )
        pages["/haushalt" if number == 1 else f"/haushalt?currentPage={number - 1}"] = (
            f'<html lang="de"><title>Haushalt</title>{banner}<div class="css-list">{cards}</div><div>Seite {number} von 3 {more}</div>'
        )
    for i in listed:
        path = f"/{i.slug}-p400{i.number}.html"
        state = "Lieferbar in 2-3 Werktagen" if i.available else "Derzeit nicht lieferbar"
        was = (
            f'<span class="css-w" data-test="uvp">UVP {euro(i.list_price)}</span>'
            if i.list_price
            else ""
        )
        pages[path] = (
            f'<html lang="de"><title>{i.title} dauerhaft günstig online kaufen | drogerie.example</title>{banner}<div class="css-1{i.number:x}"><div data-test="brand">{escape(i.brand)}</div><h1 class="css-h{i.number:x}" data-test="name">{i.title}, 250 ml</h1>'
            f'<div class="css-x{i.number:x}"><span data-test="price">{euro(i.price)}</span>{was}<div data-test="base-price">0,25 l ({euro(i.price * 4)} je 1 l)</div><small>inkl. MwSt. zzgl. 4,95 € Versand</small></div><div data-test="delivery">{state}</div>'
            f"<p>Artikelnummer: {i.number}</p><p>EAN: {i.gtin}</p><details><summary>Beschreibung</summary><div>{i.description}</div></details></div>"
        )
        truth[path] = {**truth_of(i, "price", "gtin", "brand"), "title": f"{i.title}, 250 ml"}
    return Shop("/haushalt", pages, truth, 3)


def loja() -> Shop:
    """Portuguese of Brazil: from a price to a price, a price by PIX, instalments, JSON-LD with an
    offer for every seller, numbers in the path."""
    listed, pages, truth = items(), {}, {}

    def real(price: Decimal) -> str:
        return "R$ " + f"{price:,.2f}".replace(",", "_").replace(".", ",").replace("_", ".")

    for number, on_page in chunks(listed, 12):
        cards = "".join(
            f'<li class="vitrine__item"><a href="/{i.slug}-{i.number}/p" title="{i.title}"><img src="{i.image}"><strong>{i.title}</strong>'
            + (f"<s>De {real(i.list_price)}</s>" if i.list_price else "")
            + f"<em>Por {real(i.price)}</em><span>em até 10x de {real(i.price / 10)} sem juros</span></a></li>"
            for i in on_page
        )
        pager = "".join(
            f'<a href="/casa/pagina/{n}"{" class=on" if n == number else ""}>{n}</a>'
            for n in range(1, 5)
        )
        pages["/casa" if number == 1 else f"/casa/pagina/{number}"] = (
            f'<html lang="pt-BR"><title>Casa</title><p>40 produtos encontrados</p><ul class="vitrine">{cards}</ul><div class="pg">{pager}</div>'
        )
    for i in listed:
        path = f"/{i.slug}-{i.number}/p"
        data = {
            "@context": "https://schema.org/",
            "@type": "Product",
            "@id": f"https://loja.example{path}",
            "name": i.title,
            "brand": {"@type": "Brand", "name": i.brand},
            "image": f"https://loja.example{i.image}",
            "description": i.description,
            "mpn": f"{i.number}",
            "sku": i.sku,
            "gtin": i.gtin,
            "offers": {
                "@type": "AggregateOffer",
                "lowPrice": float(i.price),
                "highPrice": float(i.price + 9),
                "priceCurrency": "BRL",
                "offerCount": 2,
                "offers": [
                    {"@type": "Offer", "price": float(i.price + at), "priceCurrency": "BRL", "availability": f"http://schema.org/{'InStock' if i.available else 'OutOfStock'}", "seller": {"@type": "Organization", "name": f"Loja {at}"}}
                    for at in (0, 9)
                ],
            },
        }  # fmt: skip
        was = (
            f'<span class="preco-de">De: <s>{real(i.list_price)}</s></span>' if i.list_price else ""
        )
        buy = "<button>Comprar</button>" if i.available else "<p>Produto indisponível. Avise-me</p>"
        pages[path] = (
            f'<html lang="pt-BR"><title>{i.title} - Loja</title><script type="application/ld+json">{json.dumps(data)}</script><h1>{i.title}</h1>'
            f'<div class="precos">{was}<span class="preco-pix">{real(i.price * 9 / 10)} no PIX</span><span class="preco-por">Por: {real(i.price)}</span><span class="parcelas">10x de {real(i.price / 10)} sem juros</span></div>{buy}<p>{i.description}</p>'
        )
        truth[path] = truth_of(
            i, "title", "price", "sku", "gtin", "brand", "availability", "description"
        )
    return Shop("/casa", pages, truth, 4)


def librairie() -> Shop:
    """French, RDFa: what a product is says `property` and `typeof`, with a prefix, and
    classes say nothing."""
    listed, pages, truth = items(), {}, {}
    for number, on_page in chunks(listed, 10):
        cards = "".join(
            f'<div class="views-row"><span class="field-content"><a href="/livre/{i.number}" rel="bookmark"><img src="{i.image}" alt=""></a></span><div class="views-field"><a href="/livre/{i.number}">{i.title}</a></div><div class="views-field">{euro(i.price)}</div></div>'
            for i in on_page
        )
        more = (
            f'<li class="pager-next"><a title="Aller à la page suivante" href="/livres?page={number}">suivant ›</a></li>'
            if number < 4
            else ""
        )
        pages["/livres" if number == 1 else f"/livres?page={number - 1}"] = (
            f'<html lang="fr"><title>Livres</title><div class="view">{cards}</div><ul class="pager">{more}</ul>'
        )
    for i in listed:
        path = f"/livre/{i.number}"
        state = "InStock" if i.available else "OutOfStock"
        pages[path] = (
            f'<html lang="fr" prefix="schema: http://schema.org/ og: http://ogp.me/ns#"><title>{i.title} | Librairie</title><div typeof="schema:Product" resource="/livre/{i.number}#p"><h2 property="schema:name">{i.title}</h2>'
            f'<span property="schema:brand" typeof="schema:Brand"><span property="schema:name">{escape(i.brand)}</span></span><img property="schema:image" src="{i.image}">'
            f'<div rel="schema:offers"><div typeof="schema:Offer"><span property="schema:price" content="{i.price}">{euro(i.price)}</span><meta property="schema:priceCurrency" content="EUR"><link property="schema:availability" href="http://schema.org/{state}"></div></div>'
            f'<span property="schema:sku">{i.sku}</span> <span property="schema:gtin13" content="{i.gtin}">EAN</span><div property="schema:description">{i.description}</div></div>'
        )
        truth[path] = truth_of(
            i, "title", "price", "sku", "gtin", "brand", "availability", "description"
        )
    return Shop("/livres", pages, truth, 4)


def magazin() -> Shop:
    """Russian: roubles with spaces that do not break, an article number, "show more" for the next
    page and no other way, a slider of bestsellers in the same cards on every page."""
    listed, pages, truth = items(), {}, {}

    def rub(price: Decimal) -> str:
        return f"{int(price) * 10:,}".replace(",", "\u00a0") + "\u00a0₽"

    def card(i: Item) -> str:
        was = f'<span class="catalog-item__old">{rub(i.list_price)}</span>' if i.list_price else ""
        return (
            f'<div class="catalog-item" data-id="{i.number}"><a class="catalog-item__pic" href="/catalog/dom/{i.number}/"><img src="{i.image}"></a><a class="catalog-item__name" href="/catalog/dom/{i.number}/">{i.title}</a>'
            f'<span class="catalog-item__price">{rub(i.price)}</span>{was}<span class="catalog-item__bonus">+{i.number % 90} бонусов</span></div>'
        )

    slider = f'<div class="slider"><h3>Хиты продаж</h3>{"".join(map(card, listed[6:14]))}</div>'
    for number, on_page in chunks(listed, 8):
        more = (
            f'<button class="show-more" data-url="/catalog/dom/?PAGEN_1={number + 1}"><a href="/catalog/dom/?PAGEN_1={number + 1}">Показать ещё</a></button>'
            if number < 5
            else ""
        )
        pages["/catalog/dom/" if number == 1 else f"/catalog/dom/?PAGEN_1={number}"] = (
            f'<html lang="ru"><title>Дом</title>{slider}<div class="catalog-list">{"".join(map(card, on_page))}</div>{more}'
        )
    for i in listed:
        path = f"/catalog/dom/{i.number}/"
        was = f'<div class="detail__old">{rub(i.list_price)}</div>' if i.list_price else ""
        state = "В наличии" if i.available else "Нет в наличии"
        pages[path] = (
            f'<html lang="ru"><title>{i.title} купить в Москве</title><div class="breadcrumbs"><a href="/">Главная</a><a href="/catalog/">Каталог</a><span>{i.title}</span></div><h1>{i.title}</h1>'
            f'<div class="detail"><div class="detail__article">Артикул: {i.sku}</div><div class="detail__price">{rub(i.price)}</div>{was}<div class="detail__credit">от {rub(i.price / 24)} в месяц</div><div class="detail__stock">{state}</div>'
            f'<table class="props"><tr><td>Бренд</td><td>{escape(i.brand)}</td></tr><tr><td>Вес</td><td>{i.number % 9 + 1} кг</td></tr></table></div><div class="detail__text">{i.description}</div>{slider}'
        )
        truth[path] = {
            **truth_of(i, "title", "sku", "brand", "availability"),
            "price": int(i.price) * 10,
        }
    return Shop("/catalog/dom/", pages, truth, 5)


def negozio() -> Shop:
    """Italian, microdata: other products stand before the product, each as a Product of its own;
    the product's offer names no currency but in its text."""
    listed, pages, truth = items(), {}, {}

    def card(i: Item) -> str:
        return (
            f'<div class="box" itemscope itemtype="https://schema.org/Product"><meta itemprop="url" content="/prodotto/{i.slug}"><a href="/prodotto/{i.slug}"><img itemprop="image" src="{i.image}"><span itemprop="name">{i.title}</span></a>'
            f'<div itemprop="offers" itemscope itemtype="https://schema.org/Offer"><span itemprop="price">{euro(i.price)}</span></div></div>'
        )

    for number, on_page in chunks(listed, 18):
        pager = "".join(f'<option value="/negozio/p-{n}">{n}</option>' for n in (1, 2, 3))
        following = (
            f'<a href="/negozio/p-{number + 1}"><i class="icon-right"></i><span class="sr">Pagina successiva</span></a>'
            if number < 3
            else ""
        )
        pages[f"/negozio/p-{number}"] = (
            f'<html lang="it"><title>Negozio</title><div class="griglia">{"".join(map(card, on_page))}</div><select>{pager}</select>{following}'
        )
    for n, i in enumerate(listed):
        path = f"/prodotto/{i.slug}"
        was = f'<span class="listino">anziché {euro(i.list_price)}</span>' if i.list_price else ""
        state = "Disponibile" if i.available else "Non disponibile"
        pages[path] = (
            f'<html lang="it"><title>{i.title} - Negozio</title><aside><h4>I più venduti</h4>{"".join(map(card, listed[(n + 3) % 36 :][:3]))}</aside>'
            f'<section itemscope itemtype="https://schema.org/Product"><h1 itemprop="name">{i.title}</h1><img itemprop="image" src="{i.image}"><div class="prezzo" itemprop="offers" itemscope itemtype="https://schema.org/Offer"><span itemprop="price">{euro(i.price)}</span>{was}</div>'
            f'<p class="disp">{state}</p><p>Cod. articolo: <b itemprop="sku">{i.sku}</b></p><p>Marca: <a href="/m/{n % 5}" itemprop="brand">{escape(i.brand)}</a></p><div itemprop="description">{i.description}</div></section>'
        )
        truth[path] = truth_of(i, "title", "price", "sku", "brand", "description")
    return Shop("/negozio/p-1", pages, truth, 3)


UNSEEN = {
    shop.__name__: shop
    for shop in (
        cornerstone,
        ngstore,
        taulukko,
        souq,
        emporium,
        drogerie,
        loja,
        librairie,
        magazin,
        negozio,
    )
}
CURRENCIES = {
    "cornerstone": "GBP",
    "ngstore": "USD",
    "souq": "SAR",
    "emporium": "USD",
    "loja": "BRL",
    "magazin": "RUB",
}
