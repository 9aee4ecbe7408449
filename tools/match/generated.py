"""A generated set: one catalogue that ten shops sell, each under its own names, with variants,
packs, bundles, refurbished goods, and GTINs that are shared, wrong, missing or invented."""

from __future__ import annotations

import random
from decimal import Decimal
from itertools import combinations
from typing import Any

from scraper.extract.heuristics.codes import gtin_check_digit
from tools.match.sets import Key, LabelledSet

SHOPS = 10
BRANDS = {
    "Nordwald": ("Nordwald", "NORDWALD GmbH", "Nordwald"),
    "Hallmann & Roth": ("Hallmann & Roth", "H&R", "Hallmann Roth"),
    "Kitano": ("Kitano", "Kitano Corp.", "KITANO"),
    "Bellavita": ("Bellavita", "Bellavita S.p.A.", "bellavita"),
    "Osprey Tools": ("Osprey Tools", "Osprey", "Osprey Tools Inc."),
}
KINDS = {
    "drill": ("cordless drill", "Akku-Bohrschrauber", "perceuse sans fil"),
    "kettle": ("electric kettle", "Wasserkocher", "bouilloire"),
    "phone": ("smartphone", "Smartphone", "téléphone"),
    "shirt": ("t-shirt", "T-Shirt", "tee-shirt"),
    "juice": ("apple juice", "Apfelsaft", "jus de pomme"),
    "lamp": ("desk lamp", "Schreibtischlampe", "lampe de bureau"),
}
VARIANTS = {
    "drill": ("12 V", "18 V"),
    "kettle": ("1.0 l", "1.7 l"),
    "phone": ("64 GB", "128 GB", "256 GB"),
    "shirt": ("size S", "size M", "size L"),
    "juice": ("0.5 l", "1 l", "6 x 1 l"),
    "lamp": ("black", "white"),
}
COLOURS = {"black": ("black", "schwarz", "noir"), "white": ("white", "weiß", "blanc")}


def generate(products: int, seed: int) -> LabelledSet:
    """Returns a set of `products` lines of products, in two or three variants each."""
    draw = random.Random(seed)
    labelled = LabelledSet("ten shops, generated", complete=True)
    for number in range(products):
        kind = draw.choice(list(KINDS))
        brand = draw.choice(list(BRANDS))
        line = f"{draw.choice('ABDKRTX')}{draw.choice('ABDKRTX')}{draw.randint(100, 9999)}"
        base = Decimal(draw.randint(500, 90_000)) / 100
        shared = _gtin(draw)
        for place, variant in enumerate(VARIANTS[kind]):
            gtin, mpn = _gtin(draw), f"{line}-{place + 1}{draw.choice('EGU')}"
            keys: list[Key] = []
            for shop in draw.sample(range(SHOPS), draw.randint(2, 6)):
                key = f"shop{shop}", f"{number}-{place}"
                fields = _offer(draw, shop, kind, brand, line, variant, base * (place + 2) / 2)
                fields |= _codes(draw, shop, gtin, mpn, shared)
                labelled.offers[key] = fields
                keys.append(key)
                _add_relatives(draw, labelled, key, fields)
            labelled.same.update(frozenset(pair) for pair in combinations(keys, 2))
    return labelled


def _offer(
    draw: random.Random, shop: int, kind: str, brand: str, line: str, variant: str, price: Decimal
) -> dict[str, Any]:
    language = shop % 3
    named = COLOURS.get(variant, (variant,) * 3)[language]
    words = [BRANDS[brand][language], line, KINDS[kind][language], named]
    if draw.random() < 0.3:
        draw.shuffle(words)
    factor = Decimal(draw.randint(85, 125)) / 100
    return {
        "title": " ".join(words),
        "brand": BRANDS[brand][draw.randrange(3)] if draw.random() < 0.8 else None,
        "price": round(price * factor, 2),
        "price_currency": "EUR",
    }


def _codes(
    draw: random.Random, shop: int, gtin: str, mpn: str, shared: str
) -> dict[str, str | None]:
    """Returns the codes as a shop publishes them: shop 8 gives all variants one GTIN, shop 9 gives
    a thousand products the same; some are wrong, missing or placeholders."""
    chance = draw.random()
    if shop == 9:
        gtin = "4006381333931"
    elif shop == 8:
        gtin = shared
    elif chance < 0.03:
        gtin = _gtin(draw)
    elif chance < 0.06:
        gtin = "0000000000000"
    stated = gtin if draw.random() < 0.7 else None
    spelled = mpn.replace("-", draw.choice(("-", " ", "/", "")))
    return {"gtin": stated, "mpn": spelled if draw.random() < 0.6 else None}


def _add_relatives(
    draw: random.Random, labelled: LabelledSet, key: Key, fields: dict[str, Any]
) -> None:
    """Adds what else the same shop sells, with the same codes, and is not it."""
    shop, identity = key
    chance = draw.random()
    if chance < 0.05:
        title = f"{fields['title']} {draw.choice(('refurbished', 'generalüberholt'))}"
        price = round(fields["price"] * Decimal("0.7"), 2)
        labelled.offers[shop, f"{identity}-r"] = {**fields, "title": title, "price": price}
    elif chance < 0.1:
        price = round(fields["price"] * 2, 2)
        title = f"{fields['title']} pack of 2"
        labelled.offers[shop, f"{identity}-p"] = {**fields, "title": title, "price": price}
    elif chance < 0.15:
        title = f"{fields['title']} bundle with bag"
        price = round(fields["price"] * Decimal("1.2"), 2)
        labelled.offers[shop, f"{identity}-b"] = {**fields, "title": title, "price": price}


def _gtin(draw: random.Random) -> str:
    body = f"40{draw.randrange(10**10):010d}"
    return body + gtin_check_digit(body)
