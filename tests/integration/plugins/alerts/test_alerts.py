"""Alerts: one a crawl to each recipient, tried again by later ticks, and never a word of where they
live."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from structlog.testing import capture_logs

from scraper.errors import ConfigError
from scraper.plugins.alerts import crawls as alert_module
from scraper.plugins.alerts.crawls import alert_crawls
from scraper.plugins.alerts.sending import notify
from scraper.plugins.alerts.sending import recipients as recipient_list
from scraper.plugins.alerts.sending.notify import Notice
from scraper.settings import Settings
from tests.support import making
from tests.support.judged_crawls import Crawl, crawled, good, shop, without
from tests.support.servers.receivers import PASSWORD, TOKEN, Mailbox, Webhook, receivers


@pytest.fixture
def told(tmp_path: Path) -> Iterator[tuple[Webhook, Mailbox, Path]]:
    with receivers(tmp_path) as found:
        yield found


def suspect(engine: sa.Engine) -> Crawl:
    crawled(engine, shop(), range(30))
    return crawled(engine, shop(), range(30), lambda number: without(good(number), "price"))


def now_again(engine: sa.Engine) -> None:
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE alerts SET not_before = now() WHERE done_at IS NULL"))


def row(engine: sa.Engine) -> tuple[object, ...]:
    """With the kinds alone of those who have it."""
    query = """SELECT attempts, ARRAY(SELECT split_part(d, ' ', 1) FROM unnest(delivered) d),
                      done_at IS NOT NULL, error FROM alerts"""
    return making.rows(engine, query)[0]


def test_every_recipient_is_notified_once(
    engine: sa.Engine, told: tuple[Webhook, Mailbox, Path]
) -> None:
    webhook, mailbox, path = told
    settings = Settings(alerts=path)
    crawl = suspect(engine)
    for _ in range(3):
        alert_crawls(engine, settings)
        now_again(engine)
    assert len(webhook.got) == len(mailbox.got) == 1
    where, message = webhook.got[0]
    assert where == f"/hooks/{TOKEN}" and message["title"] == f"shop: crawl {crawl.id} is suspect"
    assert (message["crawl"], message["site"], message["suspect"], message["type"]) == (
        crawl.id,
        "shop",
        True,
        "failure",
    )
    assert [one["field"] for one in message["reasons"]] == ["price"]
    to, subject, text = mailbox.got[0]
    assert to == "people@shop.example" and subject == message["title"]
    assert "css '.p'" in text.replace("&#x27;", "'") and f"scraper report {crawl.id}" in text
    assert "https://shop.example/p/" in text and "usually on 100%" in text
    assert row(engine) == (1, ["http", "mailto"], True, None)


def test_who_could_not_be_reached_is_notified_later_and_none_twice(
    engine: sa.Engine, told: tuple[Webhook, Mailbox, Path]
) -> None:
    webhook, mailbox, path = told
    suspect(engine)
    webhook.status = 500
    with capture_logs() as logs:
        alert_crawls(engine, Settings(alerts=path))
    assert row(engine) == (1, ["mailto"], False, "not reached: line 2 (http): HTTP 500")
    assert [line["unreached"] for line in logs if "unreached" in line] == [
        ["line 2 (http): HTTP 500"]
    ]
    alert_crawls(engine, Settings(alerts=path))
    assert row(engine)[0] == 1, "not at once"
    webhook.status = 200
    now_again(engine)
    alert_crawls(engine, Settings(alerts=path))
    assert len(webhook.got) == len(mailbox.got) == 1 and row(engine)[2:] == (True, None)


def test_it_is_given_up_after_its_tries(
    engine: sa.Engine, told: tuple[Webhook, Mailbox, Path]
) -> None:
    webhook, mailbox, path = told
    suspect(engine)
    webhook.status = 404
    for _ in range(12):
        alert_crawls(engine, Settings(alerts=path))
        now_again(engine)
    assert (
        row(engine) == (10, ["mailto"], True, "not reached: line 2 (http): HTTP 404")
        and len(mailbox.got) == 1
    )


def test_a_message_keeps_its_lines_and_its_signs(told: tuple[Webhook, Mailbox, Path]) -> None:
    webhook, mailbox, path = told
    text = "Pan <b>&amp;</b> (shop): fell https://shop.example/a?b=1&c=2\nPot: new\n  - one"
    notify.send_notice(Notice("2 products", text, {}), recipient_list.load_recipients(path))
    ((_, _, mail),) = mailbox.got
    assert mail.splitlines() == text.splitlines() and webhook.got[0][1]["message"] == text


def test_a_chat_gets_a_long_message_in_parts(told: tuple[Webhook, Mailbox, Path]) -> None:
    webhook, mailbox, path = told
    lines = [f"Pan {number} (shop): fell https://shop.example/{number}" for number in range(100)]
    notice = Notice("100 products", "\n".join(lines), {})
    chat = f"mmost://127.0.0.1:{webhook.server.server_port}/{'a' * 24}"
    to = recipient_list.parse_recipients(f"{chat}\n{webhook.address}\n{mailbox.address}", path)
    assert notify.find_failures(notice, to) == {}
    texts = [message["text"] for _, message in webhook.got if "text" in message]
    assert len(texts) == 2 and max(map(len, texts)) <= 4000
    assert [line for line in "\n".join(texts).splitlines() if line in lines] == lines
    (whole,) = [message["message"] for _, message in webhook.got if "message" in message]
    ((_, _, mail),) = mailbox.got
    assert whole.splitlines() == mail.splitlines() == lines


def test_only_the_missing_parts_of_a_long_message_are_sent_again(
    told: tuple[Webhook, Mailbox, Path],
) -> None:
    webhook, _, path = told
    lines = [f"Pan {number} (shop): fell https://shop.example/{number}" for number in range(200)]
    notice = Notice("200 products", "\n".join(lines), {})
    chat = f"mmost://127.0.0.1:{webhook.server.server_port}/{'a' * 24}"
    to = recipient_list.parse_recipients(f"{chat}\n{webhook.address}", path)
    webhook.statuses = [200, 500]
    reached, parts, unreached = notify.send_missing(notice, to[:1], ())
    assert not reached and len(parts) == 2 and unreached == ["line 1 (mmost): HTTP 500"]
    webhook.status = 500
    assert notify.send_missing(notice, to[:1], parts)[:2] == ([], [])
    webhook.status = 200
    assert notify.send_missing(notice, to, parts) == ([row.key for row in to], [], [])
    texts = [message["text"] for _, message in webhook.got if "text" in message]
    sent = [line for line in "\n".join(texts).splitlines() if line in lines]
    assert len(texts) == 3 and sorted(sent) == sorted(lines)


def test_a_recipient_that_hangs_does_not_keep_the_others(
    told: tuple[Webhook, Mailbox, Path],
) -> None:
    webhook, mailbox, path = told
    recipients = recipient_list.load_recipients(path)
    began = time.monotonic()
    assert len(notify.send_notice(Notice("before", "a text", {}), recipients)) == 2
    # What both take on this machine, many times over.
    timeout_s = max(1.0, 10 * (time.monotonic() - began))
    webhook.hangs.set()
    done = notify.send_notice(Notice("a title", "a text", {}), recipients, timeout_s=timeout_s)
    assert [one.kind for one in done] == ["mailto"] and len(mailbox.got) == 2


def test_two_coordinators_send_one_alert(
    engine: sa.Engine, told: tuple[Webhook, Mailbox, Path]
) -> None:
    webhook, mailbox, path = told
    suspect(engine)
    making.at_once([lambda: alert_crawls(engine, Settings(alerts=path)) and None] * 3)
    assert len(webhook.got) == len(mailbox.got) == 1


def test_no_address_is_stored_logged_or_shown(
    engine: sa.Engine,
    told: tuple[Webhook, Mailbox, Path],
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    webhook, mailbox, path = told
    suspect(engine)
    webhook.close()
    mailbox.close()
    caplog.set_level("DEBUG")
    with capture_logs() as logs:
        alert_crawls(engine, Settings(alerts=path))
    tables = making.rows(
        engine, "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'"
    )
    dumped = json.dumps(
        [making.rows(engine, f'SELECT * FROM "{name}"') for (name,) in tables], default=str
    )
    captured = capfd.readouterr()
    everywhere = f"{logs} {dumped} {captured.out} {captured.err} {caplog.text} {recipient_list.load_recipients(path)}"
    assert (
        row(engine)[3]
        == "not reached: line 2 (http): no connection, line 3 (mailto): no connection"
    )
    for secret in (TOKEN, PASSWORD, "127.0.0.1", "people@"):
        assert secret not in everywhere


def test_a_wrong_list_is_reported_once_and_notifies_none(engine: sa.Engine, tmp_path: Path) -> None:
    alert_module._logged_problems.clear()
    path = tmp_path / "alerts.txt"
    path.write_text(
        "https://hooks.shop.example/secret-one\nmailbox secret-two\n\nfoo://secret-three\n"
    )
    suspect(engine)
    with capture_logs() as logs:
        alert_crawls(engine, Settings(alerts=path))
        alert_crawls(engine, Settings(alerts=path))
    problems = [line["problems"] for line in logs if "problems" in line]
    assert len(problems) == 1 and [
        text.partition(": not an address")[0] for text in problems[0]
    ] == [
        f"{path}:2",
        f"{path}:4",
    ]
    assert "secret" not in str(logs) and row(engine)[0] == 0, "it waits for the list to be fixed"
    with pytest.raises(ConfigError, match="No such file"):
        recipient_list.load_recipients(tmp_path / "none.txt")


def test_a_crawl_that_failed_is_reported(
    engine: sa.Engine, told: tuple[Webhook, Mailbox, Path]
) -> None:
    webhook, _, path = told
    crawl = crawled(engine, shop(), range(5), lambda number: None)
    alert_crawls(engine, Settings(alerts=path))
    _, message = webhook.got[0]
    assert message["title"] == f"shop: crawl {crawl.id} failed" and message["status"] == "failed"
    assert "not one of 5 product pages was good" in message["note"]


def age_alerts(engine: sa.Engine, interval: str) -> None:
    with engine.begin() as connection:
        connection.execute(
            sa.text("UPDATE alerts SET created_at = now() - CAST(:age AS interval)"),
            {"age": interval},
        )


def test_what_is_a_day_old_is_not_reported(
    engine: sa.Engine, told: tuple[Webhook, Mailbox, Path]
) -> None:
    webhook, _, path = told
    suspect(engine)
    age_alerts(engine, "25 hours")
    alert_crawls(engine, Settings())
    alert_crawls(engine, Settings(alerts=path))
    assert not webhook.got and row(engine)[2:] == (True, "there was no recipient within a day")


def test_what_waited_for_a_coordinator_is_reported_however_late(
    engine: sa.Engine, told: tuple[Webhook, Mailbox, Path]
) -> None:
    webhook, _, path = told
    suspect(engine)
    age_alerts(engine, "3 days")
    alert_crawls(engine, Settings(alerts=path))
    assert len(webhook.got) == 1 and row(engine)[2:] == (True, None)
