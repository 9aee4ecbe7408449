"""1C-Bitrix's "eshop", by its default markup."""

from __future__ import annotations

import json
from decimal import Decimal
from html import escape

from tests.support.shops.engines.catalogue import Category, Engine
from tests.support.shops.shop_templates import Item


def rubles(price: Decimal) -> str:
    """Returns "1 299 ₽" and "1 299.50 ₽": zeros after the point are left out."""
    whole, _, cents = f"{price:,.2f}".partition(".")
    return f"{whole.replace(',', ' ')}{'' if cents == '00' else '.' + cents.rstrip('0')} ₽"


class Bitrix(Engine):
    """Cyrillic words, prices with a space, elements for every state of which all but one are hidden,
    microdata at the end, `?PAGEN_1=2`, and a product's address in each section."""

    currency = "RUB"
    fields = ("title", "price", "list_price", "availability", "sku", "brand")
    placed = True

    def url(self, item: Item, category: Category | None = None) -> str:
        return f"{self.list_url(category or self.shop.homes[item.number][0])}{item.slug.replace('-', '_')}/"

    def list_url(self, category: Category, page: int = 1) -> str:
        return f"/catalog/{category.slug}/" + (f"?PAGEN_1={page}" if page > 1 else "")

    def frame(self, title: str, body: str, head: str = "") -> str:
        menu = "".join(
            f'<li class="bx-nav-1-lvl bx-nav-list-1-col bx-nav-parent" data-role="bx-menu-item"><a class="bx-nav-1-lvl-link" href="{self.list_url(top)}"><span class="bx-nav-1-lvl-link-text">{top.name}<i class="fa fa-angle-down"></i></span></a><div class="bx-nav-2-lvl-container"><ul class="bx-nav-list-2-lvl">{"".join(f"""<li class="bx-nav-2-lvl"><a class="bx-nav-2-lvl-link" href="{self.list_url(c)}"><span class="bx-nav-2-lvl-link-text">{c.name}</span></a></li>""" for c in self.shop.below(top))}</ul></div></li>'
            for top in self.shop.tops
        )
        return (
            f'<!DOCTYPE html><html xml:lang="ru" lang="ru"><head><meta http-equiv="Content-Type" content="text/html; charset=UTF-8"><title>{title}</title>{head}</head><body class="bx-background-image bx-theme-blue"><div class="bx-wrapper" id="bx_eshop_wrap"><header class="bx-header"><div class="bx-header-section"><a class="bx-logo-block" href="/"><img src="/include/logo.png" alt="Интернет-магазин"></a><div class="bx-inc-orginfo"><span class="bx-inc-orginfo-phone">8 (495) 212 85 06</span><div>с 9 до 18</div></div><div class="bx-basket bx-opener"><a href="/personal/cart/">Корзина</a> 0 позиций на сумму <strong>0 ₽</strong></div></div>'
            f'<div class="bx-top-nav bx-blue" id="catalog_menu"><nav class="bx-top-nav-container"><ul class="bx-nav-list-1-lvl">{menu}</ul></nav></div></header><div class="workarea"><div class="container bx-content-section"><div class="bx-content">{body}</div></div></div>'
            '<footer class="bx-footer"><ul class="bx-inclinksfooter-list"><li><a href="/about/">О магазине</a></li><li><a href="/about/delivery/">Доставка</a></li></ul><div class="bx-up">© Интернет-магазин одежды, 2026</div></footer></div></body></html>'
        )

    def _old(self, i: Item, name: str) -> str:
        hidden = "" if i.list_price else ' style="display: none;"'
        return f'<span class="{name}" id="bx_{i.number}_price_old"{hidden}>{rubles(i.list_price or i.price)}</span>&nbsp;'

    def _box(self, i: Item, category: Category | None = None) -> str:
        link = self.url(i, category)
        off = round(100 - 100 * i.price / i.list_price) if i.list_price else 0
        buy = (
            f'<div class="product-item-button-container" id="bx_{i.number}_basket_actions"><a class="btn btn-default btn-md" href="javascript:void(0)" rel="nofollow">В корзину</a></div>'
            if i.available
            else f'<div class="product-item-button-container"><a class="btn btn-link btn-md" id="bx_{i.number}_not_avail" href="javascript:void(0)" rel="nofollow">Нет в наличии</a></div>'
        )
        return (
            f'<div class="col-xs-6 col-md-3 product-item-small-card"><div class="product-item-container" id="bx_{i.number}" data-entity="item"><div class="product-item"><a class="product-item-image-wrapper" href="{link}" title="{i.title}" data-entity="image-wrapper"><span class="product-item-image-original" style="background-image: url(\'{i.image}\');"></span><div class="product-item-label-ring" {"" if off else "style=display:none"}><span>-{off}%</span></div></a>'
            f'<div class="product-item-title"><a href="{link}" title="{i.title}">{i.title}</a></div><div class="product-item-info-container product-item-price-container" data-entity="price-block">{self._old(i, "product-item-price-old")}<span class="product-item-price-current" id="bx_{i.number}_price">{rubles(i.price)}</span></div>'
            f'<div class="product-item-info-container product-item-hidden" data-entity="buttons-block">{buy}</div></div></div></div>'
        )

    def home(self) -> str:
        return f'<h2>Новинки</h2><div class="catalog-section bx-blue" data-entity="container-1"><div class="row product-item-list-col-4" data-entity="items-row">{"".join(map(self._box, self.shop.items[8:12]))}</div></div>'

    def _crumbs(self, chain: list[Category]) -> str:
        steps = [
            ("Главная страница", "/"),
            ("Каталог", "/catalog/"),
            *((c.name, self.list_url(c)) for c in chain),
        ]
        crumbs = "".join(
            f'<div class="bx-breadcrumb-item" id="bx_breadcrumb_{n}" itemprop="itemListElement" itemscope itemtype="http://schema.org/ListItem"><i class="fa fa-angle-right"></i><a href="{path}" title="{name}" itemprop="item"><span itemprop="name">{name}</span></a><meta itemprop="position" content="{n + 1}"></div>'
            for n, (name, path) in enumerate(steps)
        )
        return f'<div class="bx-breadcrumb" itemprop="http://schema.org/breadcrumb" itemscope itemtype="http://schema.org/BreadcrumbList">{crumbs}<div style="clear:both"></div></div>'

    def listing(self, category: Category, page: int, pages: int, on_page: list[Item]) -> str:
        subs = "".join(
            f'<li id="bx_section_{c.number}"><a href="{self.list_url(c)}" class="bx_catalog_tile_img" style="background-image:url(\'/c/{c.number}.jpg\');" title="{c.name}"></a><h2 class="bx_catalog_tile_title"><a href="{self.list_url(c)}">{c.name}</a> <span>({len(c.items)})</span></h2></li>'
            for c in self.shop.below(category)
        )
        links = "".join(
            f'<li class="bx-active"><span>{n}</span></li>' if n == page else f'<li class=""><a href="{self.list_url(category, n)}"><span>{n}</span></a></li>'
            for n in range(1, pages + 1)
        )  # fmt: skip
        links += (
            f'<li class="bx-pag-next"><a href="{self.list_url(category, page + 1)}"><span>Вперед</span></a></li>'
            if page < pages
            else '<li class="bx-pag-next"><span>Вперед</span></li>'
        )
        pager = f'<div data-pagination-num="1"><div class="bx-pagination bx-blue"><div class="bx-pagination-container row"><ul><li class="bx-pag-prev"><span>Назад</span></li>{links}</ul></div></div></div>'
        boxes = "".join(self._box(i, category) for i in on_page)
        grid = f'<div class="catalog-section bx-blue" data-entity="container-1"><div class="row product-item-list-col-4" data-entity="items-row">{boxes}</div></div>{pager if pages > 1 else ""}'
        tiles = f'<div class="bx_catalog_tile"><ul class="bx_catalog_tile_ul">{subs}</ul></div>'
        return f'{self._crumbs(category.chain)}<h1 class="bx-title dbg_title" id="pagetitle">{category.name}</h1>{tiles if subs else ""}{grid if on_page else ""}'

    def _script(self, i: Item) -> str:
        prices = [{"PRICE": float(i.price), "BASE_PRICE": float(i.list_price or i.price), "CURRENCY": "RUB", "PRINT_PRICE": rubles(i.price), "PRINT_BASE_PRICE": rubles(i.list_price or i.price), "MIN_QUANTITY": 1}]  # fmt: skip
        state = {"CONFIG": {"USE_CATALOG": True, "SHOW_OLD_PRICE": True}, "PRODUCT": {"ID": str(i.number), "ACTIVE": "Y", "NAME": i.title, "CATEGORY": "Каталог", "ITEM_PRICES": prices, "MAX_QUANTITY": i.stock, "CAN_BUY": i.available}}  # fmt: skip
        single = json.dumps(state, ensure_ascii=False).replace('"', "'")
        return f"<script>BX.message({{ECONOMY_INFO_MESSAGE: 'Скидка #ECONOMY#', BTN_MESSAGE_CLOSE: 'Закрыть'}}); var obbx_{i.number} = new JCCatalogElement({single});</script>"

    def product(self, item: Item, category: Category) -> str:
        i = item
        brand = f"<dt>Производитель</dt><dd>{escape(i.brand)}</dd>" if i.brand else ""
        economy = f"Скидка {rubles(i.list_price - i.price)}" if i.list_price else ""
        on, off = ('style="display: ;"', 'style="display: none;"')[:: 1 if i.available else -1]
        old = rubles(i.list_price) if i.list_price else ""
        limit = (
            f'<div class="product-item-detail-info-container"><div class="product-item-detail-info-container-title">Наличие: <span class="product-item-quantity" data-entity="quantity-limit-value">{"много" if i.stock > 5 else "мало"}</span></div></div>'
            if i.available
            else ""
        )
        related = "".join(map(self._box, self.shop.after(i, 4)))
        kind = "InStock" if i.available else "OutOfStock"
        body = (
            f'{self._crumbs(category.chain)}<h1 class="bx-title dbg_title" id="pagetitle">{i.title}</h1><div class="bx-catalog-element bx-blue" id="bx_117848907_{i.number}" itemscope itemtype="http://schema.org/Product"><div class="container-fluid"><div class="row"><div class="col-md-6"><div class="product-item-detail-slider-container"><div class="product-item-label-ring product-item-label-big" id="bx_dsc_pict" {"" if economy else "style=display:none"}><span>{f"-{round(100 - 100 * i.price / i.list_price)}%" if i.list_price else ""}</span></div><div class="product-item-detail-slider-image active"><img src="{i.image}" alt="{i.title}" title="{i.title}" itemprop="image"></div></div></div>'
            f'<div class="col-sm-3"><div class="product-item-detail-info-section"><div class="product-item-detail-info-container"><dl class="product-item-detail-properties"><dt>Артикул</dt><dd>{i.sku}</dd>{brand}<dt>Материал</dt><dd>Дуб / Лён</dd></dl></div></div></div>'
            f'<div class="col-sm-3"><div class="product-item-detail-pay-block"><div class="product-item-detail-info-container"><div class="product-item-detail-price-old" id="bx_old_price" style="display: {"" if old else "none"};">{old}</div><div class="product-item-detail-price-current" id="bx_price">{rubles(i.price)}</div><div class="item_economy_price" id="bx_price_discount" style="display: {"" if old else "none"};">{economy}</div></div>{limit}'
            f'<div data-entity="main-button-container"><div id="bx_basket_actions" {on}><div class="product-item-detail-info-container"><a class="btn btn-default product-item-detail-buy-button" id="bx_add_basket_link" href="javascript:void(0);"><span>В корзину</span></a></div></div><div class="product-item-detail-info-container"><a class="btn btn-link product-item-detail-buy-button" id="bx_not_avail" href="javascript:void(0)" rel="nofollow" {off}>Нет в наличии</a></div></div></div></div></div>'
            f'<div class="product-item-detail-tab-content active" data-entity="tab-container" data-value="description" itemprop="description"><p>{i.description}</p></div><div class="catalog-block-header">С этим товаром покупают</div><div class="row product-item-list-col-4" data-entity="items-row">{related}</div></div>'
            f'<div class="product-item-detail-short-card-fixed hidden-xs"><table><tr><td>{i.title}</td><td><div class="product-item-detail-price-old" style="display: {"" if old else "none"};" data-entity="panel-old-price">{old}</div><div class="product-item-detail-price-current" data-entity="panel-price">{rubles(i.price)}</div></td><td><div class="product-item-detail-short-card-btn" {off} data-entity="panel-not-available-button"><a class="btn btn-link" href="javascript:void(0)" rel="nofollow">Нет в наличии</a></div></td></tr></table></div>'
            f'<meta itemprop="name" content="{i.title}"><meta itemprop="category" content="{category.path("/", "name")}"><span itemprop="offers" itemscope itemtype="http://schema.org/Offer"><meta itemprop="price" content="{i.price.normalize():f}"><meta itemprop="priceCurrency" content="RUB"><link itemprop="availability" href="http://schema.org/{kind}"></span></div>{self._script(i)}'
        )
        return self.frame(i.title, body, f'<link rel="canonical" href="{{host}}{self.url(i)}">')


RUSSIAN = {engine.__name__: engine for engine in (Bitrix,)}
