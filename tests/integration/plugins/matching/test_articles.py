"""Articles over several shops on a real PostgreSQL: linked from the feed, once, whatever dies."""

from __future__ import annotations

import json
import signal
import time
from decimal import Decimal
from pathlib import Path

import pytest
import sqlalchemy as sa
from click.testing import CliRunner

from scraper import settings
from scraper.cli.main import main
from scraper.errors import ConfigError
from scraper.plugins.alerts.prices import outbox
from scraper.plugins.alerts.prices.rules import PriceRule
from scraper.plugins.matching import articles, review
from scraper.plugins.matching.catalogue import import_catalogue
from scraper.plugins.matching.commands import articles as article_commands
from scraper.plugins.matching.commands import links as link_commands
from scraper.plugins.matching.linking import decisions, step
from scraper.results import rejection
from tests.support.making import a_site, rows
from tests.support.servers.forked import run_program
from tests.support.shops.crawled_shop import Shop

GTIN = "4006381333931"
OTHER_GTIN = "5012345678900"
ARTICLES = "SELECT article_id, count(*) FROM offers GROUP BY 1 ORDER BY 1"

# A process that is killed at its statement of that number, or comes to the end.
DYING = """
import os, signal, sys
import sqlalchemy as sa
from scraper.infra.database import make_engine
from scraper.plugins.matching.linking import step
engine, left = make_engine(sys.argv[1]), [int(sys.argv[2])]
step.BATCH = 3
@sa.event.listens_for(engine, sys.argv[3])
def die(*_):
    left[0] -= 1
    if not left[0]:
        os.kill(os.getpid(), signal.SIGKILL)
while not step.run(engine, 60):
    pass
"""


# Who links and makes alerts from it, and is killed likewise. Each rule is named after its event.
EVENTS = (
    *("cheapest", "no longer cheapest", "undercut by 3%", "back in stock anywhere"),
    *("rose", "rose 5%", "changed"),
)
DYING_ALERTS = (
    DYING.partition("while not")[0]
    + """
from scraper.plugins.alerts.prices import outbox
from scraper.plugins.alerts.prices.rules import PriceRule
rules = [PriceRule.model_validate({"name": e.replace(" ", "-").replace("%", ""), "when": e}
         | ({"site": "alpha"} if e[0] in "nu" else {})) for e in sys.argv[4:]]
while not step.run(engine, 60):
    pass
outbox.collect_market(engine, [rule for rule in rules if rule.market])
outbox.collect(engine, [rule for rule in rules if not rule.market])
"""
)


class NamedShop(Shop):
    """A shop under a name of its own, with one product after another."""

    def __init__(self, engine: sa.Engine, name: str) -> None:
        super().__init__(engine)
        self.name = name
        self.site = a_site(name, revisit="0s")

    def sells(self, price: str, external_id: str = "1", **data: object) -> None:
        data = {
            "name": "Kitano kettle K200",
            "gtin": GTIN,
            "in_stock": True,
            "price_currency": "EUR",
        } | data
        url = f"https://shop.example/{self.name}/{external_id}"
        self.once(external_id=external_id, url=url, price=Decimal(price), **data)


@pytest.fixture
def shops(engine: sa.Engine) -> tuple[NamedShop, NamedShop, NamedShop]:
    return NamedShop(engine, "alpha"), NamedShop(engine, "beta"), NamedShop(engine, "gamma")


def link(engine: sa.Engine) -> None:
    while not step.run(engine, 60):
        pass


def test_the_best_price_over_all_shops(
    engine: sa.Engine, shops: tuple[NamedShop, NamedShop, NamedShop]
) -> None:
    alpha, beta, gamma = shops
    alpha.sells("30.00")
    beta.sells("25.00", name="Wasserkocher Kitano K200")
    link(engine)
    gamma.sells("20.00", in_stock=False)
    gamma.sells("9.00", "2", name="Kitano cup", gtin=OTHER_GTIN)
    beta.sells("27.50", name="Wasserkocher Kitano K200")
    link(engine)
    assert rows(engine, ARTICLES) == [(1, 3), (4, 1)]
    with engine.connect() as connection:
        (article,) = articles.search_articles(connection, shops=2)
        searched = [
            articles.search_articles(connection, q) for q in (GTIN, "kitano k200", "cup", "%")
        ]
        history = articles.shop_series(articles.read_history(connection, article.id))
    row = article.row()
    assert (row["at"], str(row["price"]), row["shops"]) == ("beta", "27.50", 3)
    assert str(row["lowest_30_days"]) == "20.00" and row["spread_percent"] == Decimal("9.1")
    assert [[article.id for article in result] for result in searched] == [[1], [1], [4], []]
    assert [str(price) for _, price in history["beta"]] == ["25.00", "27.50"]
    assert rows(
        engine, "SELECT site, rank FROM article_prices WHERE article_id = 1 ORDER BY 2"
    ) == [
        ("beta", 1),
        ("alpha", 2),
        ("gamma", 3),
    ]


def read_lowest(engine: sa.Engine) -> Decimal | None:
    with engine.connect() as connection:
        (article,) = articles.search_articles(connection, GTIN)
    return article.lowest


def test_the_lowest_price_is_of_offers_of_these_days(
    engine: sa.Engine, shops: tuple[NamedShop, NamedShop, NamedShop], tmp_path: Path
) -> None:
    alpha, beta, _ = shops
    alpha.sells("30.00")
    beta.sells("20.00")
    link(engine)
    delist = "UPDATE products SET delisted_at = now() - interval '{}' WHERE crawl_id = :id"
    for age, lowest in (("29 days", "20.00"), ("31 days", "30.00")):
        with engine.begin() as connection:
            connection.execute(sa.text(delist.format(age)), {"id": beta.crawl[1]})
        assert str(read_lowest(engine)) == lowest
    alpha.sells("3.00")
    with engine.begin() as connection:
        assert rejection.reject_crawl(connection, alpha.crawl[1])
    link(engine)
    assert str(read_lowest(engine)) == "30.00"
    with engine.connect() as connection:
        (article,) = articles.search_articles(connection, GTIN)
        history = articles.shop_series(articles.read_history(connection, article.id))
    assert [str(price) for _, price in history["alpha"]] == ["30.00"], "3.00 was taken back"
    file = tmp_path / "mine.csv"
    file.write_text(f"sku,title,gtin,price\nK-1,Kettle K200,{GTIN},25.00\n")
    import_catalogue(engine, "mine", file, "EUR")
    assert str(read_lowest(engine)) == "25.00"


def test_linking_begins_with_the_second_shop(engine: sa.Engine) -> None:
    NamedShop(engine, "alpha").sells("30.00")
    step.link_offers(engine, settings.load())
    assert rows(engine, ARTICLES) == []
    beta = NamedShop(engine, "beta")
    beta.sells("25.00")
    step.link_offers(engine, settings.load())
    assert rows(engine, ARTICLES) == [(1, 2)]


def test_the_best_price_is_in_the_currency_of_most_shops(
    engine: sa.Engine, shops: tuple[NamedShop, NamedShop, NamedShop]
) -> None:
    for shop, price, currency in zip(
        shops, ("30.00", "31.00", "25.00"), ("USD", "USD", "EUR"), strict=True
    ):
        shop.sells(price, price_currency=currency)
    link(engine)
    with engine.connect() as connection:
        row = articles.read_article(connection, 1).row()
    assert (row["at"], str(row["price"]), row["currency"]) == ("alpha", "30.00", "USD")


def test_what_has_moved_is_linked_again(
    engine: sa.Engine, shops: tuple[NamedShop, NamedShop, NamedShop]
) -> None:
    alpha, beta, _ = shops
    for shop in shops:
        shop.sells("30.00")
    link(engine)
    assert rows(engine, ARTICLES) == [(1, 3)]
    # The offer by whose id the article was called leaves it.
    alpha.sells("30.00", name="Bellavita lamp", gtin=OTHER_GTIN)
    link(engine)
    assert rows(engine, ARTICLES) == [(1, 1), (2, 2)]
    alpha.sells("30.00")
    beta.sells("30.00", name="Kitano kettle K200 refurbished")
    link(engine)
    assert rows(engine, ARTICLES) == [(1, 2), (2, 1)]
    assert rows(engine, "SELECT count(*) FROM offer_links WHERE state = 'linked'") == [(1,)]


def test_a_persons_decisions_outlast_crawls(
    engine: sa.Engine, shops: tuple[NamedShop, NamedShop, NamedShop]
) -> None:
    alpha, beta, gamma = shops
    alpha.sells("30.00")
    beta.sells("31.00")
    gamma.sells("32.00", gtin=None, name="Kitano kettle K200, steel")
    link(engine)
    with engine.connect() as connection:
        proposal = review.read_proposals(connection)[0]
    assert {proposal.left_site, proposal.right_site} & {"gamma"} and proposal.confidence > 0.5
    decisions.decide_keys(engine, ("alpha", "1"), ("beta", "1"), state="refused", by="ann")
    decisions.decide_keys(engine, ("alpha", "1"), ("gamma", "1"), state="confirmed", by="ann")
    assert rows(engine, ARTICLES) == [(1, 2), (2, 1)]
    for number in range(3):
        alpha.sells("30.00", name=f"Kettle {number}")
        beta.sells("30.00", name=f"Kettle {number}")
        gamma.sells("30.00", name=f"Lamp {number}", gtin=OTHER_GTIN)
        link(engine)
    assert rows(engine, ARTICLES) == [(1, 2), (2, 1)]
    decided = """SELECT left_id, right_id, state, decided_by FROM offer_links
                  WHERE decided_by > '' ORDER BY left_id, right_id"""
    assert rows(engine, decided) == [(1, 2, "refused", "ann"), (1, 3, "confirmed", "ann")]


def test_a_person_is_asked_once_about_two_articles(
    engine: sa.Engine, shops: tuple[NamedShop, NamedShop, NamedShop]
) -> None:
    alpha, beta, gamma = shops
    alpha.sells("30.00")
    gamma.sells("32.00", gtin=None, name="Kitano kettle K200, steel")
    beta.sells("31.00")
    link(engine)
    proposed = "SELECT count(*) FROM offer_links WHERE state = 'proposed'"
    assert rows(engine, proposed) == [(1,)]
    # An offer that leaves its article looks for others of its own.
    beta.sells("31.00", gtin=OTHER_GTIN)
    link(engine)
    assert rows(engine, proposed) == [(3,)]


def test_an_own_catalogue_is_one_of_the_shops(
    engine: sa.Engine, shops: tuple[NamedShop, NamedShop, NamedShop], tmp_path: Path
) -> None:
    shops[0].sells("18.00")
    link(engine)
    file = tmp_path / "mine.csv"
    file.write_text(f"\ufeffSKU;Title;GTIN;Price\nK-1;Kettle K200;{GTIN};19,90\nL-1;Lamp;;5\n")
    assert import_catalogue(engine, "mine", file, "EUR") == 2
    with engine.connect() as connection:
        (article,) = articles.search_articles(connection, "K200", shops=2)
    best = article.best
    assert best is not None and best.offer.site == "alpha" and article.shops == 2
    with engine.connect() as connection:
        history = articles.shop_series(articles.read_history(connection, article.id))
    assert {site: [str(price) for _, price in line] for site, line in history.items()} == {
        "alpha": ["18.00"],
        "mine": ["19.90"],
    }
    file.write_text(f"sku,title,gtin,price,currency\nK-1,Kettle K200,{GTIN},17.50,EUR\n")
    assert import_catalogue(engine, "mine", file, None) == 1
    assert rows(
        engine, "SELECT external_id, listed FROM offers WHERE site = 'mine' ORDER BY 1"
    ) == [
        ("K-1", True),
        ("L-1", False),
    ]
    for text, problem in (
        ("title\nx\n", "no column `sku`"),
        ("sku,price\nA,abc\nA,1\n", "price: 'abc' is not a number"),
        ("sku,price\nA,1\nA,2\n", "'A' is in the file twice"),
        ('sku,price\nA,"1,299"\n', "price: '1,299' is not a number"),
    ):
        file.write_text(text)
        with pytest.raises(ConfigError, match=problem):
            import_catalogue(engine, "mine", file, None)
    file.write_text("sku,title\nA,b\n")
    with pytest.raises(ConfigError, match="is a site that is crawled"):
        import_catalogue(engine, "alpha", file, None)


def test_alerts_name_the_shop_that_is_cheaper(
    engine: sa.Engine, shops: tuple[NamedShop, NamedShop, NamedShop]
) -> None:
    alpha, beta, gamma = shops
    rules = [
        PriceRule.model_validate({"name": "under", "when": "undercut by 3%", "site": "alpha"}),
        PriceRule.model_validate({"name": "best", "when": "cheapest"}),
    ]
    alpha.sells("30.00")
    beta.sells("31.00")
    link(engine)
    outbox.collect_market(engine, rules)
    gamma.sells("28.00")
    link(engine)
    beta.sells("27.00")
    link(engine)
    for _ in range(2):
        outbox.collect_market(engine, rules)
    alerts = rows(engine, "SELECT rule, details ->> 'text' FROM price_alerts ORDER BY id")
    assert alerts == [
        (
            "under",
            "Kitano kettle K200 (alpha): undercut by 6.7%: 28.00 EUR at gamma, not 30.00 EUR "
            "https://shop.example/p",
        ),
        (
            "best",
            "Kitano kettle K200 (beta): cheapest of 3 shops: 27.00 EUR, then 28.00 EUR at gamma "
            "https://shop.example/p",
        ),
    ]


@pytest.mark.parametrize(
    ("leaver", "falls"), [(0, (1, "1")), (2, (1, "1")), (1, (0, "2"))], ids=["first", "last", "new"]
)
def test_an_offer_that_changes_its_article_hides_no_change_of_others(
    engine: sa.Engine,
    shops: tuple[NamedShop, NamedShop, NamedShop],
    leaver: int,
    falls: tuple[int, str],
) -> None:
    """An article has the number of its first offer, which may leave it, or be new in it."""
    rule = PriceRule.model_validate({"name": "best", "when": "cheapest"})
    goods: dict[str, dict[str, str]] = {"1": {}, "2": {"name": "Bella lamp", "gtin": OTHER_GTIN}}
    for place, id_ in ((0, "1"), (1, "1"), (2, "1"), (0, "2"), (2, "2")):
        price = "35.00" if (place, id_) == falls else "30.00"
        shops[place].sells(price, id_, **goods[id_])
    link(engine)
    outbox.collect_market(engine, [rule])
    shops[leaver].sells("60.00", **goods["2"])
    shops[falls[0]].sells("20.00", falls[1], **goods[falls[1]])
    link(engine)
    outbox.collect_market(engine, [rule])
    alerts = rows(engine, "SELECT details ->> 'site', details ->> 'product' FROM price_alerts")
    assert alerts == [(shops[falls[0]].name, falls[1])]


def test_alerts_of_one_shop_name_the_best_price_of_all(
    engine: sa.Engine, shops: tuple[NamedShop, NamedShop, NamedShop]
) -> None:
    alpha, beta, _ = shops
    rules = [PriceRule.model_validate({"name": when, "when": when}) for when in ("rose", "changed")]
    alpha.sells("30.00")
    beta.sells("31.00")
    link(engine)
    outbox.collect(engine, rules)
    alpha.sells("33.00")
    beta.sells("29.00")
    # Alerts do not wait until both are linked again.
    outbox.collect(engine, rules)
    alerts = rows(engine, "SELECT rule, details ->> 'text' FROM price_alerts ORDER BY id")
    text = (
        "Kitano kettle K200 (alpha): price 30.00 EUR → 33.00 EUR (+10.0%); "
        "best now 31.00 EUR at beta https://shop.example/p"
    )
    assert alerts[:2] == [("rose", text), ("changed", text)]
    assert "29.00 EUR (-6.5%); the best price of all shops" in alerts[2][1]


def test_a_rejected_crawl_alerts_about_no_article(
    engine: sa.Engine, shops: tuple[NamedShop, NamedShop, NamedShop]
) -> None:
    alpha, beta, _ = shops
    rule = PriceRule.model_validate({"name": "under", "when": "undercut", "site": "alpha"})
    alpha.sells("30.00")
    beta.sells("31.00")
    link(engine)
    outbox.collect_market(engine, [rule])
    beta.sells("3.10")
    link(engine)
    with engine.begin() as connection:
        assert rejection.reject_crawl(connection, beta.crawl[1])
    link(engine)
    outbox.collect_market(engine, [rule])
    assert rows(engine, "SELECT FROM price_alerts") == []
    assert rows(engine, "SELECT price FROM offers WHERE site = 'beta'") == [(Decimal("31.00"),)]


@pytest.mark.parametrize("at_once", [True, False])
def test_a_delisted_offer_stays_so_when_its_values_are_reverted(
    engine: sa.Engine, shops: tuple[NamedShop, NamedShop, NamedShop], at_once: bool
) -> None:
    alpha, beta, _ = shops
    alpha.sells("30.00")
    beta.sells("31.00")
    link(engine)
    beta.sells("3.10")
    bad = beta.crawl[1]
    for _ in range(2):
        beta.sells("9.00", "2", gtin=OTHER_GTIN)
    delisted = "SELECT p.external_id FROM changes c JOIN products p ON p.id = c.product_id WHERE event = 'delisted'"
    assert rows(engine, delisted) == [("1",)]
    if not at_once:
        link(engine)
    with engine.begin() as connection:
        assert rejection.reject_crawl(connection, bad)
    link(engine)
    assert rows(
        engine, "SELECT price, listed FROM offers WHERE site = 'beta' AND external_id = '1'"
    ) == [(Decimal("31.00"), False)]


@pytest.mark.parametrize("event", ["before_cursor_execute", "commit"])
def test_a_process_that_dies_leaves_all_of_a_step_or_none(
    database: str,
    engine: sa.Engine,
    shops: tuple[NamedShop, NamedShop, NamedShop],
    event: str,
) -> None:
    for number in range(4):
        for shop in shops:
            shop.sells(f"{30 + number}.00", str(number), gtin=None, mpn=f"K20{number}X", brand="K")
    kills, at = 0, 1
    while True:
        ended = run_program(DYING, database, str(at), event)
        if ended.returncode != -signal.SIGKILL:
            assert ended.returncode == 0, ended.stderr
            break
        kills, at = kills + 1, at + 5
    assert kills > 1
    assert [count for _, count in rows(engine, ARTICLES)] == [3, 3, 3, 3]
    assert rows(engine, "SELECT count(*) FROM offer_links WHERE state = 'linked'") == [(8,)]


@pytest.mark.slow
def test_each_change_alerts_once_whatever_dies(
    database: str, engine: sa.Engine, shops: tuple[NamedShop, NamedShop, NamedShop]
) -> None:
    """Processes die at each of their statements and commits, in linking and in making alerts."""
    alpha, beta, gamma = shops

    def work(at: int, event: str) -> int:
        return run_program(DYING_ALERTS, database, str(at), event, *EVENTS).returncode

    # (stock of all, the price that beta asks first, and then)
    moves = {
        "under": (True, "31.00", "27.00"),
        "a-little": (True, "31.00", "29.50"),
        "rose": (True, "20.00", "40.00"),
        "back": (False, "31.00", "31.00"),
        "same": (True, "31.00", "31.00"),
    }

    def sell(shop: NamedShop, prices: dict[str, str], *, later: bool = False) -> None:
        """One crawl of a shop. Its products are called after the moves."""
        urls = {key: f"https://shop.example/{shop.name}/{key}" for key in prices}
        pages = shop.begin(*urls.values())
        for number, (key, price) in enumerate(prices.items()):
            shop.give(
                pages[urls[key]],
                key,
                name=f"Kitano kettle K2{number}",
                brand="Kitano",
                mpn=f"K2{number}77X",
                price=Decimal(price),
                price_currency="EUR",
                in_stock=later or moves[key][0],
            )
        shop.end()

    sell(alpha, dict.fromkeys(moves, "30.00"))
    sell(gamma, dict.fromkeys(moves, "35.00"))
    sell(beta, {key: move[1] for key, move in moves.items()})
    assert work(0, "commit") == 0
    sell(beta, {key: move[2] for key, move in moves.items()}, later=True)
    kills = 0
    for event, step_by in (("before_cursor_execute", 3), ("commit", 1)):
        at = 1
        while (code := work(at, event)) != 0:
            assert code == -signal.SIGKILL
            kills, at = kills + 1, at + step_by
    assert kills > 10
    alerts = rows(
        engine, "SELECT rule, details ->> 'product', details -> 'best' ->> 'site' FROM price_alerts"
    )
    assert sorted(alerts, key=str) == [
        ("back-in-stock-anywhere", "back", "beta"),
        ("changed", "a-little", "beta"),
        ("changed", "rose", "alpha"),
        ("changed", "under", "beta"),
        ("cheapest", "a-little", "beta"),
        ("cheapest", "rose", "alpha"),
        ("cheapest", "under", "beta"),
        ("no-longer-cheapest", "a-little", "beta"),
        ("no-longer-cheapest", "under", "beta"),
        ("rose", "rose", "alpha"),
        ("rose-5", "rose", "alpha"),
        ("undercut-by-3", "under", "beta"),
    ]


def test_the_commands(
    engine: sa.Engine,
    shops: tuple[NamedShop, NamedShop, NamedShop],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    # A process that ends closes its connections; this one does not end.
    for module in (article_commands, link_commands):
        monkeypatch.setattr(module, "open_engine", lambda: engine)
    alpha, beta, gamma = shops
    alpha.sells("30.00")
    beta.sells("25.00")
    gamma.sells("26.00", gtin=None, name="Kettle Kitano K200")

    def run(*words: str, code: int = 0, answers: str = "") -> str:
        result = CliRunner().invoke(main, list(words), input=answers)
        assert result.exit_code == code, result.output
        return result.output

    assert "3 offers of 2 articles" in run("links", "update")
    (row,) = json.loads(run("articles", "--json"))
    assert row["at"] == "beta" and row["shops"] == 2
    assert json.loads(run("articles", "kettle", "--shops", "1", "--json"))[0]["article"] == 1
    shown = json.loads(run("articles", "show", "1", "--json"))
    assert [offer["site"] for offer in shown["offers"]] == ["beta", "alpha"]
    assert "article 99 does not exist" in run("articles", "show", "99", code=2)
    assert "1 linked, 0 kept apart" in run("links", "review", "--limit", "1", answers="y\n")
    assert rows(engine, ARTICLES) == [(1, 3)]
    assert "kept apart" in run("links", "refuse", "alpha:1", "beta:1")
    assert "beta has no offer" in run("links", "confirm", "alpha:1", "beta:9", code=2)
    run("articles", "--shops", "1", "-o", "out.csv")
    assert (tmp_path / "out.csv").read_text().count("\n") == 3
    run("articles", "--shops", "1", "-o", "out.parquet")
    assert "unknown ending" in run("articles", "-o", "out.txt", code=2)


def test_a_file_of_many_articles_outlasts_the_time_of_a_transaction(
    database: str,
    engine: sa.Engine,
    shops: tuple[NamedShop, NamedShop, NamedShop],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """The server ends a transaction whose client is busy with the rows of a million articles."""
    for shop in shops[:2]:
        for number in range(3):
            shop.sells("30.00", str(number), gtin=None, brand="Kitano", mpn=f"K20{number}X")
    link(engine)
    impatient = sa.create_engine(
        database, connect_args={"options": "-c idle_in_transaction_session_timeout=50"}
    )
    sa.event.listen(impatient, "after_cursor_execute", lambda *_: time.sleep(0.2))
    monkeypatch.setattr(article_commands, "open_engine", lambda: impatient)
    monkeypatch.setattr(articles, "AT_ONCE", 1)
    path = tmp_path / "out.csv"
    result = CliRunner().invoke(main, ["articles", "-o", str(path)])
    impatient.dispose()
    assert result.exit_code == 0, result.output
    assert path.read_text().count("\n") > 2
