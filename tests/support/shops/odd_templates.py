"""Shops that are odd each in their own way: without a class, in other scripts, with data in a script
alone, with variants, with a base address."""

from __future__ import annotations

import json
from html import escape

from tests.support.shops.shop_templates import Shop, chunks, items, truth_of


def plain() -> Shop:
    """English, written by hand in the nineties: no class, no list, no picture in it, numbers in
    brackets."""
    listed, pages, truth = items(), {}, {}
    for number, on_page in chunks(listed, 20):
        rows = "".join(
            f'<p><b><a href="show.cgi?item={i.number}">{i.title}</a></b> - EUR {i.price:,.2f}</p>'
            for i in on_page
        )
        pager = " ".join(
            f"[{n}]" if n == number else f'[<a href="list{n}.html">{n}</a>]' for n in (1, 2)
        )
        pages[f"/old/list{number}.html"] = (
            f"<html><title>List</title><body bgcolor=white><center><a href=/>home</a></center><hr>{rows}<hr>{pager}</body></html>"
        )
    for i in listed:
        path = f"/old/show.cgi?item={i.number}"
        state = "in stock" if i.available else "sold out"
        pages[path] = (
            f"<html><title>{i.title}</title><body><center><a href=list1.html>back</a></center><hr><h2>{i.title}</h2>"
            f'<img src="..{i.image}"><p>{i.description}</p><table border=1><tr><td>Price:</td><td>EUR {i.price:,.2f}</td></tr>'
            f"<tr><td>Order no.:</td><td>x</td></tr><tr><td>Item number:</td><td>{i.sku}</td></tr><tr><td>Availability:</td><td>{state}</td></tr></table></body></html>"
        )
        truth[path] = truth_of(i, "title", "price", "availability", "sku")
    return Shop("/old/list1.html", pages, truth, 2)


def mise() -> Shop:
    """Japanese: yen, "next" and labels in kanji."""
    listed, pages, truth = items(), {}, {}
    for number, on_page in chunks(listed, 10):
        cards = "".join(
            f'<dl class="goods"><dt><a href="/shop/g/g{i.number}/"><img src="{i.image}" alt="{i.title}"></a></dt>'
            f'<dd class="goods_name"><a href="/shop/g/g{i.number}/">{i.title}</a></dd><dd class="goods_price">{int(i.price) * 100:,}円(税込)</dd></dl>'
            for i in on_page
        )
        following = f'<a href="/shop/c/c10_p{number + 1}/">次へ</a>' if number < 4 else ""
        pages["/shop/c/c10/" if number == 1 else f"/shop/c/c10_p{number}/"] = (
            f'<html lang="ja"><title>一覧</title><div class="list">{cards}</div><div class="navi">{following}</div>'
        )
    for i in listed:
        path = f"/shop/g/g{i.number}/"
        state = "在庫あり" if i.available else "在庫なし"
        pages[path] = (
            f'<html lang="ja"><title>{i.title}|店</title><h1 class="h1-goods">{i.title}</h1><div class="price_box">{int(i.price) * 100:,}円(税込)</div>'
            f'<dl class="spec"><dt>商品番号</dt><dd>{i.sku}</dd><dt>在庫</dt><dd>{state}</dd></dl><div class="comment">{i.description}</div>'
        )
        truth[path] = {**truth_of(i, "title", "sku"), "price": int(i.price) * 100}
    return Shop("/shop/c/c10/", pages, truth, 4)


def nextjs() -> Shop:
    """Classes that a build tool made, and the product's numbers in a script alone."""
    listed, pages, truth = items(), {}, {}
    for number, on_page in chunks(listed, 20):
        cards = "".join(
            f'<div class="sc-bdVaJa kLmNop"><a class="sc-bwzfXH hQwErt" href="/en/products/{i.slug}?v={i.number}"><span><img src="{i.image}"></span><div class="sc-htpNat aBcDeF">{i.title}</div>'
            f'<div class="sc-bxivhb gHiJkL"><span>${i.price:,.2f}</span></div></a></div>'
            for i in on_page
        )
        more = (
            f'<a href="/en/products?page={number + 1}" class="sc-ifAKCX">Load more</a>'
            if number < 2
            else ""
        )
        pages["/en/products" if number == 1 else f"/en/products?page={number}"] = (
            f'<html lang="en"><title>Products</title><div id="__next"><main><div class="sc-EHOje">{cards}</div>{more}</main></div>'
        )
    for i in listed:
        path = f"/en/products/{i.slug}?v={i.number}"
        state = {
            "props": {
                "pageProps": {
                    "product": {
                        "id": i.number,
                        "sku": i.sku,
                        "brand": i.brand.replace("&", "and"),
                        "inStock": i.available,
                        "price": str(i.price),
                    }
                }
            }
        }
        pages[path] = (
            f'<html lang="en"><title>{i.title} | Next Shop</title><meta property="og:image" content="https://cdn.example{i.image}"><div id="__next"><main><h1 class="sc-jTzLTM">{i.title}</h1>'
            f'<div class="sc-fjdhpX"><span>${i.price:,.2f}</span></div><div class="sc-jzJRlG">{i.description}</div></main></div>'
            f'<script id="__NEXT_DATA__" type="application/json">{json.dumps(state, separators=(",", ":"))}</script>'
        )
        truth[path] = truth_of(i, "title", "price")
    return Shop("/en/products", pages, truth, 2)


def variants() -> Shop:
    """A group of variants with offers of their own, the first of which may be sold out."""
    listed, pages, truth = items(), {}, {}
    for number, on_page in chunks(listed, 20):
        cards = "".join(
            f'<section class="teaser"><h4><a href="/v/{i.slug}.{i.number}.html">{i.title}</a></h4><img src="{i.image}"><div class="teaser-price">from €{i.price:,.2f}</div></section>'
            for i in on_page
        )
        pages[f"/list/{number}"] = (
            f'<title>List</title><link rel="next" href="/list/{number + 1}">{cards}'
            if number < 2
            else f"<title>List</title>{cards}"
        )
    for i in listed:
        path = f"/v/{i.slug}.{i.number}.html"
        data = {
            "@context": "https://schema.org", "@type": "ProductGroup", "name": i.title, "productGroupID": i.sku,
            "brand": i.brand, "description": i.description,
            "hasVariant": [
                {"@type": "Product", "sku": f"{i.sku}-{size}", "name": f"{i.title} {size}",
                 "offers": {"@type": "Offer", "price": f"{i.price:.2f}", "priceCurrency": "EUR", "availability": "https://schema.org/InStock"}}
                for size in ("S", "M")
            ],
        }  # fmt: skip
        sizes = "".join(
            f'<tr><td>{size}</td><td class="row-price">€{i.price + at:,.2f}</td></tr>'
            for at, size in enumerate("SML")
        )
        pages[path] = (
            f'<title>{i.title}</title><script type="application/ld+json">{json.dumps(data)}</script><div class="stage"><h1>{i.title}</h1><div class="stage-price">€{i.price:,.2f}</div></div><table>{sizes}</table>'
        )
        truth[path] = truth_of(i, "title", "price", "brand", "description")
    return Shop("/list/1", pages, truth, 2)


def sklep() -> Shop:
    """Polish: prices with "zł", a rating in a sentence, a base address, and relative links."""
    listed, pages, truth = items(), {}, {}

    def zloty(price: object) -> str:
        return f"{price:,.2f}".replace(",", " ").replace(".", ",") + " zł"

    for number, on_page in chunks(listed, 8):
        cards = "".join(
            f'<div class="produkt"><a class="zdjecie" href="p/{i.number}/{i.slug}"><img src="{i.image[1:]}"></a><a class="nazwa" href="p/{i.number}/{i.slug}">{i.title}</a><span class="cena">{zloty(i.price)}</span></div>'
            for i in on_page
        )
        pager = f'<span class="stronicowanie">Strona {number} z 5</span>' + (
            f'<a class="dalej" href="lista?strona={number + 1}">następna</a>' if number < 5 else ""
        )
        path = "/sklep/lista" if number == 1 else f"/sklep/lista?strona={number}"
        pages[path] = (
            f'<html lang="pl"><base href="/sklep/"><title>Lista</title><div>{cards}</div>{pager}'
        )
    for i in listed:
        path = f"/sklep/p/{i.number}/{i.slug}"
        was = (
            f'<span class="stara-cena"><s>{zloty(i.list_price)}</s></span>' if i.list_price else ""
        )
        state = "dostępny" if i.available else "niedostępny"
        pages[path] = (
            f'<html lang="pl"><base href="/sklep/"><title>{i.title} - Sklep</title><h1>{i.title}</h1><div class="ceny">{was} <span class="cena">{zloty(i.price)}</span></div>'
            f'<p class="dostepnosc">Produkt {state}</p><p class="ocena-rating">Ocena: {str(i.rating).replace(".", ",")} / 5</p>'
            f"<ul><li>Kod produktu: {i.sku}</li><li>Producent: {escape(i.brand)}</li><li>EAN: {i.gtin}</li></ul><div class=opis>{i.description}</div>"
        )
        truth[path] = truth_of(
            i, "title", "price", "list_price", "availability", "sku", "gtin", "brand", "rating"
        )
    return Shop("/sklep/lista", pages, truth, 5)


def lager() -> Shop:
    """Swedish: thousands behind a space, ":-" behind prices, offsets in the path."""
    listed, pages, truth = items(), {}, {}
    for number, on_page in chunks(listed, 10):
        cards = "".join(
            f'<article data-sku="{i.sku}"><h3><a href="/vara/{i.slug}-{i.number}">{i.title}</a></h3><picture><img src="{i.image}" alt=""></picture><p class="pris">{int(i.price):,} kr</p></article>'.replace(
                ",", " "
            )
            for i in on_page
        )
        pager = "".join(
            f'<a class="sida" href="/varor/{n * 10}">{n + 1}</a>'
            for n in range(4)
            if n != number - 1
        )
        following = (
            f'<a class="nasta" aria-label="Nästa sida" href="/varor/{number * 10}">⟩</a>'
            if number < 4
            else ""
        )
        pages["/varor/0" if number == 1 else f"/varor/{(number - 1) * 10}"] = (
            f'<html lang="sv"><title>Varor</title><div class="lista">{cards}</div><div class="bladdra">{pager}{following}</div>'
        )
    for i in listed:
        path = f"/vara/{i.slug}-{i.number}"
        state = "I lager" if i.available else "Slut i lager"
        price = f"{int(i.price):,} kr".replace(",", " ")
        pages[path] = (
            f'<html lang="sv"><title>{i.title} - Lager</title><h1>{i.title}</h1><div class="kop"><div class="pris">{price}</div><div class="lagerstatus">{state}</div></div>'
            f"<table><tr><th>Artikelnummer</th><td>{i.sku}</td></tr><tr><th>Varumärke</th><td>{escape(i.brand)}</td></tr></table><div class=beskrivning>{i.description}</div>"
        )
        truth[path] = {
            **truth_of(i, "title", "availability", "sku", "brand"),
            "price": int(i.price),
        }
    return Shop("/varor/0", pages, truth, 4)


ODD = {shop.__name__: shop for shop in (plain, mise, nextjs, variants, sklep, lager)}
CURRENCIES = {"mise": "JPY", "nextjs": "USD", "sklep": "PLN", "lager": "SEK"}
