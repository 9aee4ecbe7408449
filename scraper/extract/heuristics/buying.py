"""Whether a page's product can be bought, by its buttons and its words about stock. Pure."""

from __future__ import annotations

import re
from typing import NamedTuple

from selectolax.lexbor import LexborHTMLParser, LexborNode

from scraper.extract.heuristics.amounts import is_hidden, short_text
from scraper.extract.heuristics.stock_words import BUTTONS, parse_availability
from scraper.extract.values import Mistyped, to_bool

LABEL_MAX = 40
_BUY = re.compile(BUTTONS["buy"], re.I)
# The labels of buttons that offer a notification instead of a purchase.
_NOTIFY = re.compile(BUTTONS["notify"], re.I)
# The names that shops give to the button, whatever its text.
_CART = ", ".join(
    f"{tag}[{attribute}*={name} i]"
    for tag in ("button", "input", "a")
    for attribute in ("id", "class", "name")
    for name in (
        "addtocart",
        "add-to-cart",
        "add_to_cart",
        "addtobasket",
        "add-to-basket",
        "buynow",
    )
)
_STOCK = ", ".join(
    f"[{attribute}*={name} i]"
    for attribute in ("class", "id")
    for name in ("stock", "avail", "lager", "dispo", "sklad", "verfueg", "voorraad")
)
_CHOICES = "form select, form input[type=radio], [class*=variant i], [class*=swatch i]"


class Buttons(NamedTuple):
    """`buyable`: a button buys; `dead`: the buying button is disabled although the page offers no
    choices to make first; `sold`: a label says that the product is not available."""

    buyable: bool
    dead: bool
    sold: bool


def find_buttons(dom: LexborHTMLParser) -> Buttons:
    buyable = dead = sold = False
    for element in dom.css("button, a, input, [role=button]"):
        attributes = element.attributes
        text = short_text(element, LABEL_MAX)
        labels = (text, *(attributes.get(key) for key in ("value", "title", "aria-label")))
        for label in labels:
            if label and len(label) <= LABEL_MAX:
                buys = _BUY.search(label) is not None
                denied = (
                    parse_availability(label.casefold()) is False
                    or _NOTIFY.fullmatch(label) is not None
                )
                if (buys or denied) and is_hidden(element):
                    break
                buyable |= buys and not _is_disabled(element)
                dead |= buys and _is_disabled(element)
                sold |= denied
    dead = dead and not buyable and dom.css_first(_CHOICES) is None
    return Buttons(buyable, dead, sold)


def read_buying_label(element: LexborNode) -> str | None:
    """Returns the label of an enabled button that buys, or None."""
    text = short_text(element, LABEL_MAX)
    return text if _BUY.search(text) and not _is_disabled(element) else None


def has_dead_button(dom: LexborHTMLParser) -> bool:
    """Returns whether a button with a buying label is disabled."""
    return any(
        _is_disabled(element) and _BUY.search(short_text(element, LABEL_MAX))
        for element in dom.css("button, a, [role=button]")
    )


def has_cart_button(dom: LexborHTMLParser) -> bool:
    """Returns whether an enabled button is named as a cart button, whatever its text."""
    return any(not _is_disabled(button) for button in dom.css(_CART))


def read_stock_text(dom: LexborHTMLParser) -> bool | None:
    """Returns the availability in elements that are named after stock or availability."""
    for element in dom.css(_STOCK)[:40]:
        text = short_text(element, 60)
        if len(text) <= 3 or is_hidden(element):
            continue
        try:
            return to_bool(text)
        except Mistyped:
            continue
    return None


def find_stated_availability(text: str) -> bool | None:
    """Returns the availability in the first short line that states one."""
    for line in text.casefold().splitlines():
        if 3 < len(line) <= LABEL_MAX and (stated := parse_availability(line)) is not None:
            return stated
    return None


def _is_disabled(element: LexborNode) -> bool:
    attributes = element.attributes
    return (
        "disabled" in attributes
        or attributes.get("aria-disabled") == "true"
        or "disabled" in (attributes.get("class") or "").split()
    )
