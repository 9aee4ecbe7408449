"""OfferIdentity of products across shops, and which offers are linked. Codes, titles and prices here
come in the forms in which shops write them."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scraper.feed.market import MarketEvent, ShopOffer
from scraper.plugins.alerts.prices.market_rules import match_market
from scraper.plugins.alerts.prices.rules import PriceRule
from scraper.plugins.matching.identity.attributes import find_contradiction
from scraper.plugins.matching.identity.codes import normalize_brand, normalize_mpn, parse_gtin
from scraper.plugins.matching.identity.measures import read_measures, unit_price
from scraper.plugins.matching.identity.offer import parse_price, read_offer
from scraper.plugins.matching.linking.clusters import cluster_offers
from scraper.plugins.matching.linking.evidence import (
    Learned,
    Offer,
    compare,
    learn_brands,
    learn_price_factor,
)

PLAIN = Learned({})


def make_offer(number: int, site: str, **fields: Any) -> Offer:
    fields.setdefault("price_currency", "EUR")
    return Offer(number, site, *read_offer(fields))


def articles(*offers: Offer, learned: Learned = PLAIN, **decisions: Any) -> list[set[int]]:
    """Returns the groups of two or more offers."""
    groups: dict[int, set[int]] = {}
    for offer, article in cluster_offers(offers, learned, **decisions).articles.items():
        groups.setdefault(article, set()).add(offer)
    return [group for group in groups.values() if len(group) > 1]


@pytest.mark.parametrize(
    ("text", "article", "level"),
    [
        ("4006381333931", "04006381333931", 0),
        ("4006381 333931", "04006381333931", 0),
        ("04006381333931", "04006381333931", 0),
        ("14006381333938", "04006381333931", 1),
        ("036000291452", "00036000291452", 0),
        ("0036000291452", "00036000291452", 0),
        ("96385074", "00000096385074", 0),
        ("\uff14006381333931", "04006381333931", 0),
    ],
)
def test_one_gtin_in_all_its_forms(text: str, article: str, level: int) -> None:
    assert parse_gtin(text) == (article, level)


@pytest.mark.parametrize(
    "text",
    [
        "4006381333932",
        "0000000000000",
        "9999999999994",
        "1234567890128",
        "2012345678903",
        "",
        "n/a",
    ],
)
def test_what_shops_write_instead_of_a_gtin(text: str) -> None:
    assert parse_gtin(text) is None


@given(st.text(max_size=30))
def test_any_text_is_read_as_a_code_or_as_none(text: str) -> None:
    code = parse_gtin(text)
    assert code is None or (len(code.article) == 14 and parse_gtin(code.article) is not None)
    for normalize in (normalize_mpn, normalize_brand):
        value = normalize(text)
        assert value is None or normalize(value) in (value, None)
    read_offer({"title": text, "gtin": text, "mpn": text, "brand": text})


@pytest.mark.parametrize(
    ("title", "pack", "amount", "unit"),
    [
        ("Cola 6 x 330 ml", 6, "1.980", "l"),
        ("Mineralwasser 12x1,0l", 12, "12.0", "l"),
        ("Coffee beans 500 g", 1, "0.500", "kg"),
        ("Socks pack of 5", 5, None, None),
        ("Batterien 4er Pack", 4, None, None),
        ("5G smartphone 128 GB", 1, None, None),
        ("Memory 300x 8 GB", 1, None, None),
        ("Silent fan R4-BMBS-20PK-R0", 1, None, None),
        ("Shelf 80 x 30 cm", 1, None, None),
    ],
)
def test_measures_of_a_title(title: str, pack: int, amount: str | None, unit: str | None) -> None:
    measures = read_measures(title)
    assert (measures.pack, measures.unit) == (pack, unit) or unit is None
    assert measures.amount == (None if amount is None else Decimal(amount)) or unit is None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Card 1024 MB", "Card 1 GB"),
        ("Adapter 6 x 8 inch", "Adapter 8 inch"),
        ("DVD-R 100-pack", "DVD-R 100-disc spindle"),
        ("Rug 60 x 90 cm", "Rug 90 cm"),
    ],
)
def test_one_measure_in_two_forms(one: str, other: str) -> None:
    first, second = read_offer({"title": one})[0], read_offer({"title": other})[0]
    assert find_contradiction(first.attributes, second.attributes) is None


@pytest.mark.parametrize(
    "written", ["Sony", "Brand: Sony", "Manufacturer:Sony", "Hersteller: SONY", "Fabricant : Sony"]
)
def test_a_brand_with_the_label_of_its_page(written: str) -> None:
    assert normalize_brand(written) == "sony"


@pytest.mark.parametrize(
    ("text", "currency", "price"),
    [
        ("19,90", "EUR", "19.90"),
        ("0,995", "EUR", "0.995"),
        ("0.995", None, "0.995"),
        ("1299.000", "EUR", "1299.000"),
        ("1299,000", "EUR", "1299.000"),
        ("12.500", "KWD", "12.500"),
        *[("1.299", "EUR", None), ("1,299", "EUR", None), ("12,500", "KWD", None), ("-1", "EUR", None)],
    ],
)  # fmt: skip
def test_a_mark_that_may_group_thousands_makes_a_catalogues_price_unclear(
    text: str, currency: str | None, price: str | None
) -> None:
    assert parse_price(text, currency) == (None if price is None else Decimal(price))


def test_a_unit_price_is_the_pages_own_where_it_has_one() -> None:
    measures = read_measures("Honey 250 g")
    assert unit_price(Decimal("4.00"), measures) == (Decimal(16), "kg")
    assert unit_price(Decimal("4.00"), measures, "1,59 € / 100 g") == (Decimal("15.9"), "kg")
    assert unit_price(Decimal("4.00"), read_measures("Honey")) is None


@pytest.mark.parametrize(
    ("one", "other", "attribute"),
    [
        ("Phone X 64 GB black", "Phone X 128 GB black", "gb"),
        ("Shirt, size M", "Shirt, size L", "size"),
        ("Kettle K1", "Kettle K1 refurbished", "condition"),
        ("Kettle K1", "Wasserkocher K1, generalüberholt", "condition"),
        ("Juice 1 l", "Juice 6 x 1 l", "pack"),
        ("Cable 1 m", "Cable 2 x 1 m", "pack"),
        ("Lamp schwarz", "Lamp white", "colour"),
        ("Camera D5", "Camera D5 bundle", "bundle"),
        ("Phone X 64 GB black", "Phone X 64GB noir", None),
        ("Laptop 8GB 256GB", "Laptop 256 GB", None),
        ("Memory kit 2 x 2 GB", "Memory kit 4GB", None),
        ("USB stick 2 x 8 GB", "USB stick 8 GB", "gb"),
        ("Lamp", "Lamp, black", None),
    ],
)
def test_variants_contradict_each_other(one: str, other: str, attribute: str | None) -> None:
    left, right = (read_offer({"title": title})[0].attributes for title in (one, other))
    assert find_contradiction(left, right) == find_contradiction(right, left) == attribute


def test_equal_gtins_link_whatever_the_names() -> None:
    offers = (
        make_offer(1, "a", title="Kitano K200 kettle 1.7 l", gtin="4006381333931"),
        make_offer(2, "b", title="Wasserkocher Kitano K200 1,7 l", gtin="04006381333931"),
        make_offer(3, "c", title="Bouilloire K200", gtin="4006381333931", price=Decimal(30)),
    )
    assert articles(*offers) == [{1, 2, 3}]


def test_a_box_is_another_article_than_what_is_in_it() -> None:
    pencil = make_offer(1, "a", title="Pencil HB", gtin="4006381333931")
    box = make_offer(2, "b", title="Pencil HB", gtin="14006381333938")
    assert articles(pencil, box) == []


def test_a_gtin_of_another_product_is_only_proposed() -> None:
    right = make_offer(
        1, "a", title="Kitano K200 kettle", brand="Kitano", gtin="4006381333931", price=Decimal(30)
    )
    wrong = make_offer(
        2, "b", title="Garden hose", brand="Osprey", gtin="4006381333931", price=Decimal(31)
    )
    assert articles(right, wrong) == []
    assert compare(right, wrong, PLAIN).method == "title"


def test_a_code_that_a_shop_gives_to_many_products_links_none_of_them() -> None:
    careless = [
        make_offer(n, "careless", title=f"Product {n} of the shop", gtin="4006381333931")
        for n in range(2, 3000)
    ]
    other = make_offer(1, "b", title="Product 7 of the shop", gtin="4006381333931")
    third = make_offer(5000, "c", title="Product 7", gtin="4006381333931")
    assert articles(other, *careless, third) == [{1, 5000}]


def test_part_numbers_link_within_a_brand() -> None:
    one = make_offer(1, "a", title="Sony DSC-W120 camera", brand="Sony", mpn="DSC-W120")
    same = make_offer(2, "b", title="Cybershot W120", brand="SONY Corp.", mpn="dscw120")
    other = make_offer(3, "c", title="Handle DSC-W120", brand="Nordwald", mpn="DSCW120")
    far = make_offer(4, "d", title="Sony camera", brand="Sony", mpn="DSCW120", price=Decimal(9))
    near = make_offer(5, "e", title="Sony camera", brand="Sony", mpn="DSCW120", price=Decimal(99))
    assert articles(one, same, other) == [{1, 2}]
    assert articles(far, near) == []


def test_a_brand_in_the_other_title_is_that_brand() -> None:
    fields: dict[str, Any] = {"title": "Ape Case camera bag AC165", "mpn": "AC165"}
    one = make_offer(1, "a", brand="Norazza", **fields)
    other = make_offer(2, "b", brand="Ape Case", **fields)
    third = make_offer(3, "c", brand="Osprey", **fields)
    assert articles(one, other) == [{1, 2}]
    assert articles(one, third) == []


def test_a_part_number_links_what_only_one_shop_calls_black_if_prices_are_close() -> None:
    fields: dict[str, Any] = {"brand": "Kitano", "mpn": "K200"}
    black = make_offer(1, "a", title="Kitano lamp, black", price=Decimal(30), **fields)
    plain = make_offer(2, "b", title="Kitano lamp", price=Decimal(33), **fields)
    dear = make_offer(3, "c", title="Kitano lamp", price=Decimal(60), **fields)
    assert articles(black, plain) == [{1, 2}]
    assert articles(black, dear) == []


def test_makers_with_one_part_number_stay_apart_where_a_shop_states_no_brand() -> None:
    one = make_offer(1, "a", title="Caku digu ML5311 pink", mpn="ML5311/PI", brand="Caku")
    plain = make_offer(2, "b", title="ML5311 pink digu Caku", mpn="ML5311 PI")
    other = make_offer(3, "c", title="Zuvi nuntroci ML5311 pink", mpn="ML5311-PI")
    third = make_offer(4, "d", title="Zuvi ML5311 pink", mpn="ML5311-PI", brand="Zuvi")
    assert articles(one, plain, other, third) == [{1, 2}, {3, 4}]
    # An offer that names both brands joins no two articles.
    both = make_offer(5, "e", title="ML5311 pink for Caku and Zuvi", mpn="ML5311-PI")
    assert articles(one, third, both) in ([{1, 5}], [{3, 5}], [{4, 5}], [])
    gtins = [
        make_offer(6, "f", title="Lamp", mpn="L200X", brand="K", gtin="4006381333931"),
        make_offer(7, "g", title="Lamp", mpn="L200X", brand="K", gtin="5012345678900"),
        make_offer(8, "h", title="Lamp", mpn="L200X", brand="K"),
    ]
    assert articles(*gtins) == [{6, 8}]


def test_variants_never_meet_in_one_article() -> None:
    """A third offer without a colour agrees with each of two that contradict each other."""
    black = make_offer(1, "a", title="Lamp L1 black", gtin="4006381333931")
    plain = make_offer(2, "b", title="Lamp L1", gtin="4006381333931")
    white = make_offer(3, "c", title="Lamp L1 white", gtin="4006381333931")
    assert articles(black, plain, white) == [{1, 2}]


def test_a_persons_decision_outweighs_codes() -> None:
    one = make_offer(1, "a", title="Lamp L1", gtin="4006381333931")
    other = make_offer(2, "b", title="Lamp L1", gtin="4006381333931")
    third = make_offer(3, "c", title="Something else")
    assert articles(one, other, refused={(1, 2)}) == []
    assert articles(one, other, third, confirmed={(2, 3)}) == [{1, 2, 3}]
    assert articles(one, other, third, confirmed={(2, 3)}, refused={(1, 3)}) == [{2, 3}]


def test_brands_and_prices_are_learned() -> None:
    pairs = {("hp", "hewlettpackard"): 40, ("acme", "osprey"): 2}
    own = {"hp": 50, "hewlettpackard": 30, "acme": 20}
    assert learn_brands(pairs, own) == {"hewlettpackard": "hp"}
    one = make_offer(1, "a", title="Printer", brand="HP", mpn="LJ-1020X")
    other = make_offer(2, "b", title="Printer", brand="Hewlett-Packard", mpn="LJ1020X")
    assert articles(one, other) == []
    assert articles(one, other, learned=Learned({"hewlettpackard": "hp"})) == [{1, 2}]
    assert learn_price_factor([1.0] * 10) == 3.0
    assert learn_price_factor([1.0] * 1000) == 1.5


def event(before: dict[str, str], after: dict[str, str], **stock: bool) -> MarketEvent:
    def offers(prices: dict[str, str]) -> list[ShopOffer]:
        return [
            ShopOffer(s, "1", f"https://{s}.example/1", "Lamp", Decimal(p), "EUR", stock.get(s))
            for s, p in prices.items()
        ]

    return MarketEvent(7, datetime.now(UTC), 1, 5, offers(before), offers(after))


def texts(when: str, change: MarketEvent, **more: Any) -> list[str]:
    rule = PriceRule.model_validate({"name": "r", "when": when, **more})
    return [f"{match.offer.site}: {match.text}" for match in match_market(rule, change)]


def test_rules_over_all_shops_name_the_shop_and_the_price() -> None:
    fell = event({"mine": "20", "rival": "21"}, {"mine": "20", "rival": "19"})
    rose = event({"mine": "20", "rival": "19"}, {"mine": "20", "rival": "25"})
    undercut = "mine: undercut by 5.0%: 19 EUR at rival, not 20 EUR"
    assert texts("undercut", fell, site="mine") == [undercut]
    assert texts("undercut by 5%", fell, site="mine") == [undercut]
    assert texts("undercut by 5.1%", fell, site="mine") == []
    assert texts("undercut", rose, site="mine") == []
    lost = "mine: no longer cheapest: 19 EUR at rival, not 20 EUR"
    assert texts("no longer cheapest", fell, site="mine") == [lost]
    assert texts("cheapest", fell, site="mine") == []
    assert texts("cheapest", rose, site="mine") == [
        "mine: cheapest of 2 shops: 20 EUR, then 25 EUR at rival"
    ]
    assert texts("cheapest", fell) == ["rival: cheapest of 2 shops: 19 EUR, then 20 EUR at mine"]
    # A state that lasts is not an event.
    deeper = event({"mine": "20", "rival": "19"}, {"mine": "20", "rival": "18"})
    assert texts("undercut", deeper, site="mine") == texts("cheapest", deeper) == []
    assert texts("undercut by 8%", deeper, site="mine") != []


def test_offers_that_cannot_be_bought_or_compared_do_not_count() -> None:
    sold_out = event({"mine": "20"}, {"mine": "20", "rival": "10"}, rival=False)
    assert texts("undercut", sold_out, site="mine") == []
    one = event({"mine": "20"}, {"mine": "20"})
    dollars = ShopOffer("rival", "1", None, "Lamp", Decimal(10), "USD", True)
    other = MarketEvent(1, one.at, 1, 1, one.before, [*one.after, dollars])
    assert texts("undercut", other, site="mine") == []


def test_back_in_stock_anywhere() -> None:
    def offers(*stock: bool | None) -> list[ShopOffer]:
        return [
            ShopOffer(f"s{n}", "1", None, "Lamp", Decimal(n + 1), "EUR", one)
            for n, one in enumerate(stock)
        ]

    def say(before: list[ShopOffer], after: list[ShopOffer]) -> list[str]:
        change = MarketEvent(1, datetime.now(UTC), 1, 1, before, after)
        return texts("back in stock anywhere", change)

    assert say(offers(False, False), offers(False, True)) == ["s0: back in stock at s1: 2 EUR"]
    assert say(offers(False, True), offers(True, True)) == []
    assert say(offers(None, None), offers(None, True)) == []


def test_keys_that_do_not_go_with_rules_over_all_shops() -> None:
    with pytest.raises(ValueError, match="`where` and `field` do not go with 'cheapest'"):
        PriceRule.model_validate({"name": "r", "when": "cheapest", "where": {"a": 1}})
    with pytest.raises(ValueError, match="undercut by 3%"):
        PriceRule.model_validate({"name": "r", "when": "undercut by a lot"})
