"""Price alerts: one for each rule and change, whatever dies; none of what was held or taken back."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import random
import signal
import time
from decimal import Decimal
from importlib import import_module
from pathlib import Path

import pytest
import sqlalchemy as sa
from click.testing import CliRunner

from scraper import settings as settings_module
from scraper.cli.main import main
from scraper.feed import reader as feed
from scraper.feed import store
from scraper.plugins.alerts import crawls as alert_module
from scraper.plugins.alerts import preview, tab
from scraper.plugins.alerts.prices import outbox
from scraper.plugins.alerts.prices.rules import PriceRule
from scraper.plugins.alerts.sending import notify
from scraper.plugins.alerts.sending import recipients as recipient_list
from scraper.plugins.alerts.sending.notify import Notice
from scraper.results import rejection
from scraper.settings import Settings
from tests.support.judged_crawls import crawled, good, priced, put
from tests.support.judged_crawls import shop as a_shop
from tests.support.killed_alerts import deliver_through_kills
from tests.support.making import a_site, open_crawl, rows
from tests.support.servers.forked import run_program
from tests.support.servers.receivers import Mailbox, Webhook
from tests.support.shops.crawled_shop import B, Shop

# A process that is killed at its statement of that number, or comes to the end.
DYING = """
import os, signal, sys
import sqlalchemy as sa
from scraper.plugins.alerts.prices import outbox
from scraper.plugins.alerts.prices.rules import PriceRule
from scraper.infra.database import make_engine
engine, left = make_engine(sys.argv[1]), [int(sys.argv[2])]
outbox.BATCH = 40
@sa.event.listens_for(engine, sys.argv[3])
def die(*_):
    left[0] -= 1
    if not left[0]:
        os.kill(os.getpid(), signal.SIGKILL)
outbox.collect(engine, [PriceRule(name=name, when="fell") for name in ("one", "two")])
"""

# Prices that rise, fall a little, and fall much; each tenth by a crawl that is rejected.
REPLAYED = """
INSERT INTO products (site_id, external_id, page_id, crawl_id, url, data, content_hash, version)
SELECT :site, n, n, :good, 'https://shop.example/' || n, jsonb_build_object('name', 'p' || n,
       'price', (ARRAY[21, 19.9, 15])[1 + n % 3], 'price_currency', 'EUR'), gen_random_uuid(), 2
  FROM generate_series(1, :changes) n;
INSERT INTO product_versions (product_id, version, data, content_hash, valid_from, valid_to,
                              crawl_id)
SELECT id, 1, data || '{"price": 20}', gen_random_uuid(), now(), now(), :good FROM products;
INSERT INTO changes (product_id, crawl_id, site_id, version, previous_version, event)
SELECT id, CASE WHEN external_id LIKE '%0' THEN :bad ELSE :good END, site_id, 2, 1, 'changed'
  FROM products ORDER BY id;
ANALYZE
"""
EXPECTED = """
SELECT rule, c.id AS change_id
  FROM changes c JOIN products p ON p.id = c.product_id, unnest(ARRAY['one', 'two']) AS rule
 WHERE c.crawl_id <> :bad AND CAST(p.data ->> 'price' AS numeric) <= CASE rule WHEN 'one' THEN 19.9 ELSE 15 END
"""


def rule(when: str, **more: object) -> PriceRule:
    return PriceRule.model_validate({"name": "r", "when": when, **more})


def told(engine: sa.Engine, *rules: PriceRule) -> list[str]:
    """What rules say of the whole feed."""
    with engine.connect() as connection:
        return [
            f"{hit.change.id} {hit.text}"
            for hit in outbox.match_rules(connection, rules, list(feed.read(engine, 0)))
        ]


def test_what_each_rule_reports(engine: sa.Engine) -> None:
    shop = Shop(engine)
    priced(shop, "20.00", "19.50", "9.50", "9.00", "12.00", "9.50", in_stock=True)
    priced(shop, "9.50", in_stock=False)
    priced(shop, "9.50", in_stock=True)
    shop.once(external_id="8", url=B, name="B", price=Decimal("5.00"), price_currency="USD")
    below = [
        "7 price 9.50 EUR, below 10",
        "7 price 9.50 EUR, below 10",
        "8 price 5.00 USD, below 10",
    ]
    assert told(engine, rule("below 10")) == below
    assert told(engine, rule("below 10 EUR")) == [text + " EUR" for text in below[:2]]
    assert told(engine, rule("fell 5%")) == [
        "7 price 19.50 EUR → 9.50 EUR (-51.3%)",
        "7 price 9.50 EUR → 9.00 EUR (-5.3%)",
        "7 price 12.00 EUR → 9.50 EUR (-20.8%)",
    ]
    lowest = told(engine, rule("lowest in 30 days"))
    assert [line.split()[5] for line in lowest] == ["19.50", "9.50", "9.00"]
    assert told(engine, rule("sold out")) == ["7 sold out"]
    assert told(engine, rule("back in stock")) == ["7 back in stock"]
    assert told(engine, rule("new")) == ["7 new", "8 new"]
    assert told(engine, rule("new", where={"name": "B"})) == ["8 new"]
    assert told(engine, rule("new", id="8")) == ["8 new"] and not told(
        engine, rule("new", site="x")
    )


def test_moves_from_0_are_reported_without_a_percentage(engine: sa.Engine) -> None:
    priced(Shop(engine), "0", "5.00", "0")
    up, down = "7 price 0 EUR → 5.00 EUR", "7 price 5.00 EUR → 0 EUR (-100.0%)"
    assert told(engine, rule("changed")) == [up, down]
    assert told(engine, rule("rose")) == [up] and told(engine, rule("rose 5%")) == []
    assert told(engine, rule("fell")) == told(engine, rule("fell 5%")) == [down]


def test_what_was_taken_back_is_not_reported(engine: sa.Engine) -> None:
    for _ in range(2):
        crawled(engine, a_shop(), range(30))
    cheap = crawled(
        engine,
        a_shop(),
        range(31),
        lambda n: good(n) | ({"price": good(n)["price"] * Decimal("0.9")} if n == 5 else {}),
    )
    rules = [
        rule("fell"),
        PriceRule(name="n", when="new", id="30"),
        PriceRule(name="d", when="delisted"),
    ]
    assert {line.split()[0] for line in told(engine, *rules)} == {"5", "30"}
    with engine.begin() as connection:
        assert rejection.reject_crawl(connection, cheap.id)
    assert told(engine, *rules) == []


@pytest.mark.slow
def test_none_missed_and_none_doubled_whatever_dies(engine: sa.Engine) -> None:
    """Processes die at each of their statements, and after the commit."""
    rules = [PriceRule(name=name, when="fell") for name in ("one", "two")]
    shop = Shop(engine)
    outbox.collect(engine, rules)
    priced(shop, *[str(100 - n) for n in range(60)])
    expected = [change.cursor for change in feed.read(engine, 0) if change.event == "changed"]
    url = engine.url.render_as_string(hide_password=False)
    killed = 0
    for event, at in [("before_cursor_execute", n) for n in (1, 4, 7, 9, 11)] + [("commit", 1)]:
        process = run_program(DYING, url, str(at), event)
        killed += process.returncode == -signal.SIGKILL
        assert process.returncode in (0, -signal.SIGKILL), process.stderr
    assert killed >= 4
    for _ in range(2):
        outbox.collect(engine, rules)
    for name in ("one", "two"):
        query = f"SELECT change_id FROM price_alerts WHERE rule = '{name}' ORDER BY id"
        assert [row[0] for row in rows(engine, query)] == expected and len(expected) == 59


@pytest.mark.slow
def test_changes_are_replayed_through_kills(engine: sa.Engine, tmp_path: Path) -> None:
    """`make alerts-chaos CHANGES=1000000 KILLS=100` does the same for longer."""
    number, kills = int(os.environ.get("CHANGES", "5000")), int(os.environ.get("KILLS", "4"))
    began, chance = time.monotonic(), random.Random(int(os.environ.get("SEED", "1")))
    good = open_crawl(engine, a_site())
    with engine.begin() as connection:
        outbox.consumers.set_position(connection, outbox.CONSUMER, None, 0)
        ended = "UPDATE crawls SET status = 'completed', finished_at = now()"
        connection.execute(sa.text(ended))
    bad = open_crawl(engine, a_site())
    values = {"site": good[0], "good": good[1], "bad": bad[1], "changes": number}
    with engine.begin() as connection:
        connection.execute(
            sa.text('UPDATE crawls SET reasons = \'[{"what": "rejected"}]\' WHERE id = :bad'),
            values,
        )
        for statement in REPLAYED.split(";\n"):
            connection.execute(sa.text(statement), values)

    def has_unread(connection: sa.Connection) -> bool:
        position = outbox.consumers.read_position(connection, outbox.CONSUMER, None)
        last = connection.execute(sa.text("SELECT max(id) FROM changes")).scalar_one()
        return bool(position != last)

    filled, longest_s = time.monotonic(), 2.5 if number > 10_000 else 0.5
    rules = "- {name: one, when: fell}\n- {name: two, when: fell 5%, every: 1s}\n"
    replay = deliver_through_kills(
        engine, tmp_path, rules, has_unread, kills=kills, longest_s=longest_s, chance=chance
    )
    with engine.connect() as connection:
        truth = {
            f"{row.rule}:{row.change_id}" for row in connection.execute(sa.text(EXPECTED), values)
        }
        written = [
            f"{row.rule}:{row.change_id}"
            for row in connection.execute(sa.text("SELECT rule, change_id FROM price_alerts"))
        ]
    assert len(truth) > number * 0.8 and replay.killed >= kills
    assert len(written) == len(truth) and set(written) == truth, "none missed, none doubled"
    again = replay.check_received(truth)
    print(
        f"{number:,} changes, {replay.killed} kills ({replay.at_work} at work), {len(truth):,} alerts in {time.monotonic() - filled:.0f} s "
        f"(filled in {filled - began:.0f} s): none missed, none doubled; {again} sent again with their ids"
    )


def test_a_preview_waits_for_what_is_not_decided(
    engine: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop(engine)
    asked = 0

    @sa.event.listens_for(engine, "before_cursor_execute")
    def count(*_: object) -> None:
        nonlocal asked
        asked += 1
        assert asked < 1000

    with engine.connect() as other:
        transaction = other.begin()
        shop.once(name="A")
        find_end = store.current_cursor

        def find_end_and_put(_: sa.Engine) -> int:
            end = find_end(engine)
            put(other, 1)
            return end

        monkeypatch.setattr(store, "current_cursor", find_end_and_put)
        monkeypatch.setattr(preview.time, "sleep", lambda _: transaction.rollback())
        assert len(preview.find_matches(engine, rule("new"), 7)) == 1


def test_what_is_not_decided_is_reported_later(engine: sa.Engine) -> None:
    shop = Shop(engine)
    outbox.collect(engine, [rule("new")])
    shop.once(name="A")
    outbox.AT_ONCE_S, before = 0.2, outbox.AT_ONCE_S
    try:
        with engine.connect() as other:
            transaction = other.begin()
            put(other, 1)
            shop.once(external_id="8", url=B, name="B")
            outbox.collect(engine, [rule("new")])
            transaction.rollback()
    finally:
        outbox.AT_ONCE_S = before
    outbox.collect(engine, [rule("new")])
    assert len(rows(engine, "SELECT FROM price_alerts")) == 2


def test_delivery_digest_and_commands(
    engine: sa.Engine,
    environment: Settings,
    monkeypatch: pytest.MonkeyPatch,
    people: tuple[Webhook, Mailbox, Path],
    tmp_path: Path,
) -> None:
    webhook, mailbox, recipients = people
    path = tmp_path / "alerts.yaml"
    path.write_text("- {name: drops, when: fell 5%}\n- {name: daily, when: fell, every: 1d}\n")
    monkeypatch.setenv("SCRAPER_ALERT_RULES", str(path))
    monkeypatch.setenv("SCRAPER_ALERTS", str(recipients))
    monkeypatch.setattr(
        import_module("scraper.plugins.alerts.command"), "open_engine", lambda: engine
    )
    settings_module.load.cache_clear()
    settings = settings_module.load()
    shop = Shop(engine)
    outbox.alert_prices(engine, settings)
    priced(shop, "20.00", "10.00")
    webhook.status = 500
    outbox.alert_prices(engine, settings)
    webhook.status = 200
    now = "UPDATE price_alerts SET not_before = now() WHERE done_at IS NULL AND rule = "
    for name in ("drops", "drops", "daily"):
        with engine.begin() as connection:
            connection.execute(sa.text(f"{now} '{name}'"))
        outbox.alert_prices(engine, settings)
    assert len(mailbox.got) == 2 and [one["rule"] for _, one in webhook.got] == ["drops", "daily"]
    alert = webhook.got[0][1]["alerts"][0]
    assert (alert["id"], alert["before"], alert["after"], alert["currency"]) == (
        f"drops:{alert['cursor']}", 20, 10, "EUR",
    )  # fmt: skip
    assert "price 20.00 EUR → 10.00 EUR (-50.0%)" in webhook.got[0][1]["message"]

    def ran(*words: str, code: int = 0) -> str:
        result = CliRunner().invoke(main, ["alerts", *words])
        assert result.exit_code == code, result.output
        return result.output

    listed = json.loads(ran("--json"))
    assert [(one["rule"], one["alerts"], one["waiting"]) for one in listed] == [
        ("drops", 1, 0),
        ("daily", 1, 0),
    ]
    assert (
        "(-50.0%)" in ran("test", "drops") and len(json.loads(ran("test", "drops", "--json"))) == 1
    )
    assert len(webhook.got) == 2, "nothing was sent"
    path.write_text(
        "- name: a\n  when: falls\n- {name: b, when: new, sit: x}\n- {name: b, when: new}"
    )
    wrong = ran(code=2)
    assert f"{path}:1: rule 1: when: 'falls' is not an event" in wrong
    assert f"{path}:3: rule 2: sit: unknown key" in wrong


def test_a_crawl_that_is_rejected_before_the_digest_is_not_reported(
    engine: sa.Engine, people: tuple[Webhook, Mailbox, Path], tmp_path: Path
) -> None:
    webhook, _, recipients = people
    path = tmp_path / "alerts.yaml"
    path.write_text("- {name: daily, when: new, every: 1d}")
    settings = Settings(alerts=recipients, alert_rules=path)
    outbox.alert_prices(engine, settings)
    crawl = crawled(engine, a_shop(), range(3))
    outbox.alert_prices(engine, settings)
    with engine.begin() as connection:
        assert rejection.reject_crawl(connection, crawl.id)
        connection.execute(sa.text("UPDATE price_alerts SET not_before = now()"))
    outbox.alert_prices(engine, settings)
    assert not webhook.got
    assert set(rows(engine, "SELECT done_at IS NULL, error FROM price_alerts")) == {
        (False, "the crawl was rejected")
    }


def test_rules_of_a_definition_and_whom_they_notify(
    engine: sa.Engine,
    environment: Settings,
    monkeypatch: pytest.MonkeyPatch,
    people: tuple[Webhook, Mailbox, Path],
    tmp_path: Path,
) -> None:
    webhook, mailbox, recipients = people
    recipients.write_text(
        f"garden, ops = {webhook.address}   # of the gardeners\n{mailbox.address} # of all others\n"
    )
    settings = environment.model_copy(update={"alerts": recipients, "sites_dir": tmp_path})
    shop = Shop(engine)
    shop.site = a_site(
        revisit="0s",
        alerts=[
            {"name": "drops", "when": "fell 5%", "to": "garden"},
            {"name": "gone", "when": "sold out"},
            {"name": "lost", "when": "fell", "to": ["nobody"]},
        ],
    )
    priced(shop, "30.00", availability=True)
    outbox.alert_prices(engine, settings)
    assert rows(engine, "SELECT name FROM consumers") == [(outbox.CONSUMER,)]
    priced(shop, "20.00", availability=True)
    priced(shop, "20.00", availability=False)
    outbox.alert_prices(engine, settings)
    assert [one["rule"] for _, one in webhook.got] == ["shop.drops"]
    assert [subject.split(" http")[0] for _, subject, _ in mailbox.got] == [
        "shop: 1 product sold out: A"
    ]
    assert set(rows(engine, "SELECT rule, error FROM price_alerts")) == {
        ("shop.drops", None),
        ("shop.gone", None),
        ("shop.lost", "not reached: no recipient has such a name"),
    }

    def ran(*words: str) -> str:
        result = CliRunner().invoke(main, ["alerts", *words])
        assert result.exit_code == 0, result.output
        return result.output

    command = import_module("scraper.plugins.alerts.command")
    monkeypatch.setattr(command, "open_engine", lambda: engine)
    monkeypatch.setattr(command, "load_settings", lambda: settings)
    listed = {one["rule"]: one for one in json.loads(ran("--json"))}
    assert listed["shop.drops"]["to"] == "garden" and listed["shop.lost"]["waiting"] == 1
    assert "(-33.3%)" in ran("test", "shop.drops")
    # As it is written now, and not yet taken over.
    (tmp_path / "shop.yaml").write_text(
        "start: https://shop.example/\nlisting: {products: a}\nproduct: {fields: {title: h1}}\n"
        "alerts: [{name: drops, when: below 10}]\n"
    )
    assert json.loads(ran("test", "shop.drops", "--json")) == []
    crawled(engine, a_shop(), range(5), lambda number: None)
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE sites SET enabled = false"))
    alert_module.alert_crawls(engine, settings)
    assert len(webhook.got) == 1 and len(mailbox.got) == 2, "who has a name hears of no crawl"
    outbox.alert_prices(engine, settings)
    assert rows(engine, "SELECT name FROM consumers") == [], "without rules nobody reads the feed"


def test_parts_that_a_chat_has_are_remembered(
    engine: sa.Engine, environment: Settings, people: tuple[Webhook, Mailbox, Path]
) -> None:
    webhook, _, recipients = people
    recipients.write_text(f"mmost://127.0.0.1:{webhook.server.server_port}/{'a' * 24}\n")
    settings = environment.model_copy(update={"alerts": recipients})
    shop = Shop(engine)
    shop.site = a_site(revisit="0s", alerts=[{"name": "new", "when": "new"}])
    shop.once(external_id="first", name="A", price=Decimal(1), price_currency="EUR")
    outbox.alert_prices(engine, settings)
    for number in range(30):
        url, name = f"https://shop.example/{number}", f"{number} {'pan ' * 50}"
        shop.once(
            external_id=str(number), url=url, name=name, price=Decimal(1), price_currency="EUR"
        )
    webhook.statuses = [200, 500]
    outbox.alert_prices(engine, settings)
    assert "HTTP 500" in str(rows(engine, "SELECT DISTINCT error FROM price_alerts"))
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE price_alerts SET not_before = now()"))
        (sent, *_) = tab.read(connection, {})["sent"]
    assert sent["delivered"] == [], "the chat has a part alone"
    outbox.alert_prices(engine, settings)
    texts = [message["text"] for _, message in webhook.got]
    assert len(texts) == len(set(texts)) == 2
    with engine.begin() as connection:
        (sent, *_) = tab.read(connection, {})["sent"]
    assert len(sent["delivered"]) == 1 and sent["error"] is None


def test_a_signed_webhook(people: tuple[Webhook, Mailbox, Path], tmp_path: Path) -> None:
    webhook, _, _ = people
    key = b"0123456789abcdef0123456789"
    path = tmp_path / "recipients"
    path.write_text(f"{webhook.address}#whsec_{base64.b64encode(key).decode()}\n")
    path.chmod(0o600)
    to = recipient_list.load_recipients(path)
    for _ in range(2):
        assert notify.send_notice(Notice("a title", "a text", {"n": 1}), to) == to
    headers, body = webhook.headers[0], webhook.bodies[0]
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    expected = base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
    assert headers["webhook-signature"] == f"v1,{expected}" and json.loads(body)["n"] == 1
    assert webhook.headers[1]["webhook-id"] == headers["webhook-id"], "a repetition can be dropped"
    path.write_text(f"{webhook.address}#whsec_short\n")
    with pytest.raises(Exception, match="recipients:1: not an address") as caught:
        recipient_list.load_recipients(path)
    assert "short" not in str(caught.value)


def without_price(shop: Shop) -> None:
    shop.once(name="A")


def test_a_price_that_was_not_there_for_a_while_is_compared_with_the_last_known(
    engine: sa.Engine,
) -> None:
    shop = Shop(engine)
    priced(shop, "20.00", "9.00")
    without_price(shop)
    priced(shop, "9.00")
    shop.once(name="A", price=None, price_currency=None)
    priced(shop, "8.10", "12.00")
    without_price(shop)
    priced(shop, "6.00")
    assert told(engine, rule("below 10")) == [
        "7 price 9.00 EUR, below 10",
        "7 price 6.00 EUR, below 10",
    ], "told once each time that it comes to be below"
    assert told(engine, rule("fell 5%")) == [
        "7 price 20.00 EUR → 9.00 EUR (-55.0%)",
        "7 price 9.00 EUR → 8.10 EUR (-10.0%)",
        "7 price 12.00 EUR → 6.00 EUR (-50.0%)",
    ], "a fall is none the less one because the price was away"
    assert [line.split()[5] for line in told(engine, rule("lowest in 30 days"))] == [
        *("9.00", "8.10", "6.00")
    ]
    with engine.connect() as connection:
        hits = outbox.match_rules(connection, [rule("fell")], list(feed.read(engine, 0)))
    assert [str(hit.details()["before"]) for hit in hits] == ["20.00", "9.00", "12.00"]


def test_a_currency_that_flickers_brings_nothing_below_again(engine: sa.Engine) -> None:
    shop = Shop(engine)
    for price, currency in [
        *(("20.00", "EUR"), ("9.00", "EUR"), ("9.50", "USD"), ("9.00", "EUR"), ("9.90", "USD")),
        *(("15.00", "USD"), ("8.00", "EUR"), ("9.00", "USD")),
    ]:
        shop.once(name="A", price=Decimal(price), price_currency=currency)
    assert told(engine, rule("below 10 EUR")) == ["7 price 9.00 EUR, below 10 EUR"]
    assert told(engine, rule("below 10")) == [
        "7 price 9.00 EUR, below 10",
        "7 price 8.00 EUR, below 10",
    ], "without a currency in the rule, 15 of any was above"
    assert told(engine, rule("fell")) == [
        "7 price 20.00 EUR → 9.00 EUR (-55.0%)",
        "7 price 9.00 EUR → 8.00 EUR (-11.1%)",
        "7 price 15.00 USD → 9.00 USD (-40.0%)",
    ]


def test_stock_that_was_not_known_for_a_while(engine: sa.Engine) -> None:
    shop = Shop(engine)
    for stock in (True, None, True, None, False, None, False, None, True):
        shop.once(name="A", **({} if stock is None else {"in_stock": stock}))
    assert told(engine, rule("sold out", field="in_stock")) == ["7 sold out"]
    assert told(engine, rule("back in stock")) == ["7 back in stock"]


def test_what_was_taken_back_is_not_a_last_known_price(engine: sa.Engine) -> None:
    """A rejected crawl had the price below; the good one after it is the first to be so."""
    for _ in range(2):
        crawled(engine, a_shop(), range(30))
    cheap = crawled(
        engine, a_shop(), range(30), lambda n: good(n) | ({"price": Decimal(4)} if n == 5 else {})
    )
    with engine.begin() as connection:
        assert rejection.reject_crawl(connection, cheap.id)
    limit = good(5)["price"]
    gone = crawled(
        engine, a_shop(), range(30),
        lambda n: {k: v for k, v in good(n).items() if n != 5 or not k.startswith("price")},
    )  # fmt: skip
    assert gone.id
    crawled(
        engine,
        a_shop(),
        range(30),
        lambda n: good(n) | ({"price": limit * Decimal("0.9")} if n == 5 else {}),
    )
    (line,) = told(engine, rule("fell 5%", id="5"))
    assert "(-10.0%)" in line


def due_now(engine: sa.Engine) -> None:
    with engine.begin() as connection:
        connection.execute(
            sa.text("UPDATE price_alerts SET not_before = now() WHERE done_at IS NULL")
        )


def test_the_list_of_recipients_is_edited_while_one_of_them_is_down(
    engine: sa.Engine, people: tuple[Webhook, Mailbox, Path], tmp_path: Path
) -> None:
    webhook, mailbox, recipients = people
    path = tmp_path / "alerts.yaml"
    path.write_text("- {name: drops, when: fell}")
    settings = Settings(alerts=recipients, alert_rules=path)
    second = Webhook()
    try:
        recipients.write_text(f"{webhook.address}\n{second.address}\n{mailbox.address}\n")
        outbox.alert_prices(engine, settings)
        second.status = 503
        priced(Shop(engine), "20.00", "10.00")
        outbox.alert_prices(engine, settings)
        assert (len(webhook.got), len(second.got), len(mailbox.got)) == (1, 0, 1)
        recipients.write_text(f"# moved\n{second.address}\n{mailbox.address}\n{webhook.address}\n")
        second.status = 200
        for _ in range(3):
            due_now(engine)
            outbox.alert_prices(engine, settings)
        assert (len(webhook.got), len(second.got), len(mailbox.got)) == (1, 1, 1)
    finally:
        second.close()


def test_what_waits_while_no_coordinator_works_is_reported_however_late(
    engine: sa.Engine, people: tuple[Webhook, Mailbox, Path], tmp_path: Path
) -> None:
    webhook, _, recipients = people
    path = tmp_path / "alerts.yaml"
    path.write_text("- {name: daily, when: fell, every: 1d}")
    nobody, settings = Settings(alert_rules=path), Settings(alerts=recipients, alert_rules=path)
    outbox.alert_prices(engine, settings)
    shop = Shop(engine)
    priced(shop, "20.00", "10.00")
    outbox.alert_prices(engine, settings)
    ago = "UPDATE price_alerts SET not_before = now() - interval '3 days' WHERE done_at IS NULL"
    with engine.begin() as connection:
        connection.execute(sa.text(ago))
    outbox.alert_prices(engine, settings)
    assert len(webhook.got) == 1
    priced(shop, "9.00")
    outbox.alert_prices(engine, settings)
    with engine.begin() as connection:
        connection.execute(sa.text(ago))
    for told_by in (nobody, settings):
        outbox.alert_prices(engine, told_by)
    assert len(webhook.got) == 1, "nobody was to be told then, and who comes later is not"


def test_a_rule_is_renamed_edited_or_removed_while_its_alerts_wait(
    engine: sa.Engine, people: tuple[Webhook, Mailbox, Path], tmp_path: Path
) -> None:
    webhook, _, recipients = people
    path = tmp_path / "alerts.yaml"
    path.write_text(
        "- {name: old, when: fell, every: 1d}\n- {name: kept, when: below 15, every: 1d}"
    )
    settings = Settings(alerts=recipients, alert_rules=path)
    outbox.alert_prices(engine, settings)
    priced(Shop(engine), "20.00", "10.00")
    outbox.alert_prices(engine, settings)
    path.write_text("- {name: new, when: fell}\n- {name: kept, when: below 5}")
    for _ in range(2):
        due_now(engine)
        outbox.alert_prices(engine, settings)
    assert [one["rule"] for _, one in webhook.got] == ["kept"], "as it was when the price came"
    assert rows(engine, "SELECT rule, error, done_at IS NULL FROM price_alerts ORDER BY rule") == [
        ("kept", None, False),
        ("old", "not reached: the rule no longer exists", True),
    ]
    path.write_text("- {name: old, when: sold out}\n")
    due_now(engine)
    outbox.alert_prices(engine, settings)
    assert [one["rule"] for _, one in webhook.got] == ["kept", "old"], "it has come back"


def test_a_crawl_that_is_rejected_while_alerts_are_sent(
    engine: sa.Engine, people: tuple[Webhook, Mailbox, Path], tmp_path: Path
) -> None:
    """The rejection commits after the tick has dropped what is of rejected crawls."""
    webhook, _, recipients = people
    path = tmp_path / "alerts.yaml"
    path.write_text("- {name: news, when: new}")
    settings = Settings(alerts=recipients, alert_rules=path)
    outbox.alert_prices(engine, settings)
    crawl = crawled(engine, a_shop(), range(3))

    rejected = []

    @sa.event.listens_for(engine, "before_cursor_execute")
    def reject_first(_c: object, _k: object, statement: str, *_: object) -> None:
        if statement.lstrip().startswith("DELETE FROM price_alerts") and not rejected:
            rejected.append(crawl.id)
            with engine.begin() as connection:
                assert rejection.reject_crawl(connection, crawl.id)

    outbox.alert_prices(engine, settings)
    assert rejected and not webhook.got
    sa.event.remove(engine, "before_cursor_execute", reject_first)
    outbox.alert_prices(engine, settings)
    assert not webhook.got and set(rows(engine, "SELECT error FROM price_alerts")) == {
        ("the crawl was rejected",)
    }


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/St_Johns", "UTC"])
def test_a_digest_is_due_at_whole_days_of_utc_in_any_zone(engine: sa.Engine, zone: str) -> None:
    """Whatever the server's zone is, and whether its clocks change in the night."""
    shop = Shop(engine)
    rules = [PriceRule(name="daily", when="fell", every="1d")]
    outbox.collect(engine, rules)
    with engine.begin() as connection:
        name = connection.execute(sa.text("SELECT current_database()")).scalar_one()
        connection.execute(sa.text(f"ALTER DATABASE \"{name}\" SET timezone = '{zone}'"))
    engine.dispose()
    try:
        priced(shop, "20.00", "10.00", "9.00")
        outbox.collect(engine, rules)
        (due,) = set(rows(engine, "SELECT EXTRACT(EPOCH FROM not_before) FROM price_alerts"))
        ahead = rows(engine, "SELECT not_before - now() <= interval '24 h' FROM price_alerts")
        assert due[0] % 86_400 == 0 and set(ahead) == {(True,)}
    finally:
        with engine.begin() as connection:
            connection.execute(sa.text(f'ALTER DATABASE "{name}" RESET timezone'))
        engine.dispose()
