"""Zen Cart and osCommerce, whose pages are few files with parameters, by their default markup."""

from __future__ import annotations

from html import escape

from tests.support.shops.engines.catalogue import Category, Engine, dollars
from tests.support.shops.shop_templates import Item


class ZenCart(Engine):
    """Both prices in one heading, "0 Units in Stock", and a product's address in each category."""

    fields = ("title", "price", "list_price", "availability", "sku", "brand")
    placed = True
    bought = 3

    def url(self, item: Item, category: Category | None = None) -> str:
        placed = f"&cPath={category.path('_', 'number')}" if category else ""
        return f"/index.php?main_page=product_info{placed}&products_id={item.number}"

    def list_url(self, category: Category, page: int = 1) -> str:
        return f"/index.php?main_page=index&cPath={category.path('_', 'number')}" + (
            f"&page={page}" if page > 1 else ""
        )

    def _link(self, category: Category) -> str:
        return escape(self.list_url(category))

    def frame(self, title: str, body: str, head: str = "") -> str:
        tops = "".join(
            f'<a class="category-top" href="{self._link(top)}"><span class="category-subs-parent">{top.name}</span>-&gt;</a>&nbsp;({sum(len(c.items) for c in [top, *self.shop.below(top)])})<br>'
            for top in self.shop.tops
        )
        tabs = "".join(
            f'<li><a class="category-top" href="{self._link(t)}">{t.name}</a> </li>'
            for t in self.shop.tops
        )
        special = self.shop.items[3]
        specials = f'<div class="rightBoxContainer" id="specials"><h3 class="rightBoxHeading" id="specialsHeading"><a href="/index.php?main_page=specials">Specials&nbsp;&nbsp;[more]</a></h3><div class="sideBoxContent centeredContent"><div class="sideBoxContentItem"><a href="{escape(self.url(special))}"><img src="{special.image}" alt="{special.title}"><br>{special.title}</a><div>{self._prices(special)}</div></div></div></div>'
        return (
            f'<!DOCTYPE html><html dir="ltr" lang="en"><head><title>{title} : Zen Cart!, The Art of E-commerce</title>{head}</head><body id="indexBody"><div id="mainWrapper"><div id="headerWrapper"><div id="navMainWrapper" class="group"><div id="navMain"><ul class="back"><li><a href="/">Home</a></li><li class="last"><a href="/index.php?main_page=login">Log In</a></li></ul></div></div>'
            f'<div id="navCatTabsWrapper"><div id="navCatTabs"><ul>{tabs}</ul></div></div></div><div id="contentMainWrapper"><div class="col250 navColumnOne"><div class="leftBoxContainer" id="categories"><h3 class="leftBoxHeading" id="categoriesHeading">Categories</h3><div id="categoriesContent" class="sideBoxContent">{tops}<hr id="catBoxDivider"><a class="category-links" href="/index.php?main_page=products_all">All Products ...</a></div></div></div>'
            f'<div class="col830">{body}</div><div class="col250 navColumnTwo">{specials}</div></div><div id="footer"><div id="navSuppWrapper"><ul><li><a href="/">Home</a></li><li><a href="/index.php?main_page=shippinginfo">Shipping &amp; Returns</a></li></ul></div><div id="siteinfoLegal" class="legalCopyright">Copyright &copy; 2026. Powered by <a href="https://zen.example">Zen Cart</a></div></div></div></body></html>'
        )

    def _price(self, i: Item) -> str:
        return f'<span class="productBasePrice">{dollars(i.price)}</span>'

    def _prices(self, i: Item) -> str:
        if not i.list_price:
            return self._price(i)
        off = round(100 - 100 * i.price / i.list_price)
        return (
            f'<span class="normalprice">{dollars(i.list_price)} </span>&nbsp;<span class="productSpecialPrice">{dollars(i.price)}</span>'
            f'<span class="productPriceDiscount"><br>Save:&nbsp;{off}% off</span>'
        )

    def _box(self, i: Item, category: Category | None = None) -> str:
        link = escape(self.url(i, category))
        buy = (
            f'<a href="{link}&amp;action=buy_now"><span class="cssButton normal_button button button_buy_now">&nbsp;Buy Now&nbsp;</span></a>'
            if i.available
            else '<span class="cssButton normal_button button button_sold_out_sm">&nbsp;Sold Out&nbsp;</span>'
        )
        return (
            f'<div class="centerBoxContentsListing"><div class="list-image"><a href="{link}"><img src="{i.image}" alt="{i.title}" class="listingProductImage"></a></div><h3 class="itemTitle"><a href="{link}">{i.title}</a></h3>'
            f'<div class="listingDescription">{i.description[:40]}...</div><div class="list-price">{self._prices(i)}<br><br>{buy}</div></div>'
        )

    def home(self) -> str:
        return f'<div class="centerColumn" id="indexDefault"><h1 id="indexDefaultHeading">Congratulations! You have successfully installed your shop.</h1><div class="centerBoxWrapper" id="whatsNew"><h2 class="centerBoxHeading">New Products For November</h2>{"".join(self._small(i) for i in self.shop.items[8:12])}</div></div>'

    def _small(self, i: Item) -> str:
        link = escape(self.url(i))
        return f'<div class="centerBoxContentsNew centeredContent back"><a href="{link}"><img src="{i.image}" alt="{i.title}"></a><br><a href="{link}">{i.title}</a><br>{self._prices(i)}</div>'

    def listing(self, category: Category, page: int, pages: int, on_page: list[Item]) -> str:
        subs = "".join(
            f'<div class="categoryListBoxContents"><a href="{self._link(c)}"><img src="/c/{c.number}.jpg" alt="{c.name}"><br>{c.name}</a></div>'
            for c in self.shop.below(category)
        )
        head = f'<h1 id="productListHeading">{category.name}</h1>'
        if not on_page:
            return f'<div class="centerColumn" id="indexCategories">{head}<div id="indexCategoriesRow">{subs}</div></div>'
        links = "&nbsp;".join(
            f'<strong class="current">{n}</strong>' if n == page else f'<a href="{escape(self.list_url(category, n))}" title=" Page {n} ">{n}</a>'
            for n in range(1, pages + 1)
        )  # fmt: skip
        if page < pages:
            links += f'&nbsp;<a href="{escape(self.list_url(category, page + 1))}" title=" Next Page ">[Next&nbsp;&gt;&gt;]</a>'
        first = page * self.size - self.size + 1
        count = f"Displaying <strong>{first}</strong> to <strong>{first + len(on_page) - 1}</strong> (of <strong>{len(category.items)}</strong> products)"
        boxes = "".join(self._box(i, category) for i in on_page)
        return (
            f'<div class="centerColumn" id="indexProductList">{head}<div id="productListing" class="group"><div id="productsListingTopNumber" class="navSplitPagesResult back">{count}</div><div id="productsListingListingTopLinks" class="navSplitPagesLinks forward">{links}</div>'
            f'<div class="listingProductRow">{boxes}</div><div id="productsListingListingBottomLinks" class="navSplitPagesLinks forward">{links}</div></div></div>'
        )

    def product(self, item: Item, category: Category) -> str:
        i = item
        crumbs = "".join(
            f'&nbsp;::&nbsp;\n  <a href="{self._link(c)}">{c.name}</a>' for c in category.chain
        )
        brand = f"<li>Manufactured by: {escape(i.brand)}</li>" if i.brand else ""
        buy = f'Add to Cart: <input type="text" name="cart_quantity" value="1"><br><br><input type="hidden" name="products_id" value="{i.number}"><input class="cssButton submit_button button button_in_cart" type="submit" value="Add to Cart">'
        sold = '<span class="cssButton normal_button button button_sold_out">&nbsp;Sold Out&nbsp;</span>'
        bought = "".join(map(self._small, self.shop.after(i, self.bought)))
        body = (
            f'<div id="navBreadCrumb">  <a href="/">Home</a>{crumbs}&nbsp;::&nbsp;\n{i.title}</div><div class="centerColumn" id="productGeneral"><form name="cart_quantity" action="{escape(self.url(i))}&amp;action=add_product" method="post">'
            f'<div id="prod-info-top"><h1 id="productName" class="productGeneral">{i.title}</h1><div id="pinfo-left" class="group"><div id="productMainImage" class="centeredContent back"><a href="{i.image}"><img src="{i.image}" alt="{i.title}"><br><span class="imgLink">larger image</span></a></div></div>'
            f'<div id="pinfo-right" class="group grids"><h2 id="productPrices" class="productGeneral">{self._prices(i)}</h2><div id="cartAdd">{buy if i.available else sold}</div><ul id="productDetailsList"><li>Model: {i.sku}</li><li>Shipping Weight: 7.00lbs</li><li>{i.stock} Units in Stock</li>{brand}</ul></div></div>'
            f'<div id="productDescription" class="productGeneral biggerText">{i.description}</div><p id="productDateAdded" class="productGeneral centeredContent">This product was added to our catalog on Monday 03 November, 2025.</p></form>'
            f'<div class="centerBoxWrapper" id="alsoPurchased"><h2 class="centerBoxHeading">Customers who bought this product also purchased...</h2>{bought}</div></div>'
        )
        return self.frame(
            i.title, body, f'<link rel="canonical" href="{{host}}{escape(self.url(i))}">'
        )


class ZenCartClassic(ZenCart):
    """Before version 1.5.5 a price alone has no element of its own; no related products."""

    bought = 0

    def _price(self, i: Item) -> str:
        return dollars(i.price)


class OsCommerce(Engine):
    """The price in a heading before the name's, tables, and no statement about stock."""

    fields = ("title", "price", "list_price")
    placed = True

    def url(self, item: Item, category: Category | None = None) -> str:
        placed = f"cPath={category.path('_', 'number')}&" if category else ""
        return f"/product_info.php?{placed}products_id={item.number}"

    def list_url(self, category: Category, page: int = 1) -> str:
        return f"/index.php?cPath={category.path('_', 'number')}" + (
            f"&sort=2a&page={page}" if page > 1 else ""
        )

    def _link(self, category: Category) -> str:
        return escape(self.list_url(category))

    def _price(self, i: Item) -> str:
        if not i.list_price:
            return dollars(i.price)
        return f'<del>{dollars(i.list_price)}</del> <span class="productSpecialPrice">{dollars(i.price)}</span>'

    def _infobox(self, heading: str, contents: str) -> str:
        return f'<div class="ui-widget infoBoxContainer"><div class="ui-widget-header infoBoxHeading">{heading}</div><div class="ui-widget-content infoBoxContents">{contents}</div></div>'

    def frame(self, title: str, body: str, head: str = "") -> str:
        tops = "".join(
            f'<a href="{self._link(top)}">{top.name}-&gt;</a>&nbsp;({sum(len(c.items) for c in {c.number: c for c in [top, *self.shop.below(top)]}.values())})<br />'
            for top in self.shop.tops
        )
        new = self.shop.items[6]
        boxes = self._infobox("Categories", tops) + self._infobox(
            '<a href="/products_new.php">What\'s New?</a>',
            f'<div style="text-align: center;"><a href="{escape(self.url(new))}"><img src="{new.image}" alt="{new.title}"></a><br /><a href="{escape(self.url(new))}">{new.title}</a><br />{self._price(new)}</div>',
        )
        right = self._infobox('<a href="/shopping_cart.php">Shopping Cart</a>', "0 items")
        return (
            f'<!DOCTYPE html><html dir="ltr" lang="en"><head><title>{title}, osCommerce</title>{head}</head><body><div id="bodyWrapper" class="container_24"><div id="header" class="grid_24"><div id="storeLogo"><a href="/index.php"><img src="/store_logo.png" alt="osCommerce"></a></div><div id="headerShortcuts"><span class="tdbLink"><a href="/shopping_cart.php">Cart Contents</a></span></div></div>'
            f'<div id="bodyContent" class="grid_16 push_4">{body}</div><div id="columnLeft" class="grid_4 pull_16">{boxes}</div><div id="columnRight" class="grid_4">{right}</div><div class="grid_24 footer"><p align="center">Copyright &copy; 2026 <a href="/index.php">osCommerce</a></p></div></div></body></html>'
        )

    def home(self) -> str:
        cells = "".join(
            f'<td width="33%" align="center" valign="top"><a href="{escape(self.url(i))}"><img src="{i.image}" alt="{i.title}"></a><br /><a href="{escape(self.url(i))}">{i.title}</a><br />{self._price(i)}</td>'
            for i in self.shop.items[8:12]
        )
        return f'<h1>Welcome to osCommerce</h1><div class="contentContainer"><h2>New Products For November</h2><div class="contentText"><table border="0" width="100%" cellspacing="0" cellpadding="2"><tr>{cells}</tr></table></div></div>'

    def listing(self, category: Category, page: int, pages: int, on_page: list[Item]) -> str:
        if not on_page:
            subs = "".join(
                f'<td align="center" class="smallText" width="33%" valign="top"><a href="{self._link(c)}"><img src="/c/{c.number}.jpg" alt="{c.name}"><br />{c.name}</a></td>'
                for c in self.shop.below(category)
            )
            return f'<h1>{category.name}</h1><div class="contentContainer"><div class="contentText"><table border="0" width="100%"><tr>{subs}</tr></table></div></div>'
        links = "&nbsp;".join(
            f"<strong>{n}</strong>" if n == page else f'<a href="{escape(self.list_url(category, n))}" class="pageResults" title=" Page {n} "><u>{n}</u></a>'
            for n in range(1, pages + 1)
        )  # fmt: skip
        first = page * self.size - self.size + 1
        count = f'<div><span style="float: right;">Result Pages: {links}</span><span>Displaying <strong>{first}</strong> to <strong>{first + len(on_page) - 1}</strong> (of <strong>{len(category.items)}</strong> products)</span></div>'
        rows = "".join(
            f'<tr><td align="center"><a href="{escape(self.url(i, category))}"><img src="{i.image}" alt="{i.title}"></a></td><td><a href="{escape(self.url(i, category))}">{i.title}</a></td><td align="right">{self._price(i)}</td><td align="center"><span class="tdbLink"><a href="{self._link(category)}&amp;action=buy_now&amp;products_id={i.number}">Buy Now</a></span></td></tr>'
            for i in on_page
        )
        return f'<h1>{category.name}</h1><div class="contentContainer"><div class="contentText">{count}<div class="ui-widget infoBoxContainer"><div class="ui-widget-header infoBoxHeading"><table class="productListingHeader"><tr><td></td><td>Product Name</td><td align="right">Price</td><td align="center">Buy Now</td></tr></table></div><div class="ui-widget-content productListTable"><table class="productListingData">{rows}</table></div></div>{count}</div></div>'

    def product(self, item: Item, category: Category) -> str:
        i = item
        crumbs = " &raquo; ".join(
            f'<a href="{self._link(c)}" class="headerNavigation">{c.name}</a>'
            for c in category.chain
        )
        bought = "".join(
            f'<td width="33%" valign="top" align="center"><a href="{escape(self.url(o))}"><img src="{o.image}" alt="{o.title}"></a><br /><a href="{escape(self.url(o))}">{o.title}</a></td>'
            for o in self.shop.after(i, 3)
        )
        body = (
            f'<div class="breadcrumb"><a href="/" class="headerNavigation">Top</a> &raquo; {crumbs} &raquo; <a href="{escape(self.url(i))}" class="headerNavigation">{i.sku}</a></div><form name="cart_quantity" action="{escape(self.url(i))}&amp;action=add_product" method="post"><div><h1 style="float: right;">{self._price(i)}</h1><h1>{i.title}<br /><span class="smallText">[{i.sku}]</span></h1></div>'
            f'<div class="contentContainer"><div class="contentText"><div id="piGal" style="float: right;"><a href="{i.image}"><img src="{i.image}" alt="{i.title}"></a></div>{i.description}<br /></div><div class="buttonSet"><span class="buttonAction"><input type="hidden" name="products_id" value="{i.number}"><span class="tdbLink"><button type="submit">Add to Cart</button></span></span><span class="tdbLink"><a href="/product_reviews.php?products_id={i.number}">Reviews (0)</a></span></div>'
            f'<h2>Customers who bought this product also purchased</h2><div class="contentText"><table border="0" width="100%"><tr>{bought}</tr></table></div></div></form>'
        )
        return self.frame(i.title, body)


BY_QUERY = {engine.__name__: engine for engine in (ZenCart, ZenCartClassic, OsCommerce)}
