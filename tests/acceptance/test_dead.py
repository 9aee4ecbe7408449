"""`scraper dead` as it is typed: a shop refuses some pages and shows others without their fields;
it is repaired; its dead pages are replayed by a real fleet, and the products are the truth."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
import sqlalchemy as sa

from scraper.domain import Outcome
from scraper.settings import Settings
from scraper.views import crawl_progress as progress
from tests.acceptance.commands import Commands, assert_counted, counted
from tests.support.making import a_site, give_up, open_crawl, rows, urls
from tests.support.servers.ports import unused_port
from tests.support.shops.odd_shop import Answer, OddShop, listing, product

EVIL = '\x1b]0;owned\x07\x1b[2J\x9b31m\u202egnp.exe\x00</h1>\r\n\t"quoted"'
REFUSED = Answer(
    b"<h1>Access denied \x1b[31m</h1>", 403, headers=("X-Why: \x1b[2Jbot", "Set-Cookie: sid=s3cret")
)
ODD = ["\x1b", "\x9b", "\x07", "\u202e", "\x00", "\r"]


@pytest.fixture
def shop(environment: Settings) -> Iterator[OddShop]:
    """Site "odd": /good is good, /refused and the second listing answer 403, /empty lacks its
    title. Fresh for a week."""
    with OddShop() as found:
        start = found.serve(
            "/", listing(["/good", "/refused", "/empty"], '<a class="next" href="/more">more</a>')
        )
        found.serve("/good", product("good", "Good").encode())
        found.serve("/refused", REFUSED)
        found.serve("/empty", product("empty", None, more=EVIL).encode())
        found.serve("/more", REFUSED)
        define(environment, start)
        yield found


def define(environment: Settings, start: str, **more: object) -> None:
    fields = {"title": {"css": "h1", "required": True}, "price": {"css": ".price", "type": "price"}}
    definition = {
        "start": start, "allow_private": True, "rate": "unlimited", "revisit": "7d", "limits": {"attempts": 2},
        "listing": {"products": "a.p", "next": "a.next"},
        "product": {"id": {"css": "body::attr(data-id)"}, "fields": fields},
    }  # fmt: skip
    (environment.sites_dir / "odd.yaml").write_text(json.dumps(definition | more))


def fix(shop: OddShop) -> dict[str, str]:
    """All is well now. Returns the titles that the products have in truth, by id."""
    shop.serve("/refused", product("refused", "Let in").encode())
    shop.serve("/empty", product("empty", "Filled").encode())
    shop.serve("/more", listing(["/good", "/late"]))
    shop.serve("/late", product("late", "Late").encode())
    return {"good": "Good", "refused": "Let in", "empty": "Filled", "late": "Late"}


def fleet(run: Commands) -> None:
    run.coordinator()
    run.worker("datacenter")


def exported(run: Commands) -> dict[str, Any]:
    lines = (
        json.loads(line, parse_float=Decimal)
        for line in run.scraper("export", "odd").stdout.splitlines()
    )
    return {line["id"]: line["title"] for line in lines}


def table(text: str) -> list[dict[str, str]]:
    """Tab-separated lines with a header."""
    head, *lines = (line.split("\t") for line in text.splitlines())
    return [dict(zip(head, line, strict=True)) for line in lines]


# --- with a shop and a fleet


def test_dead_pages_are_shown_fixed_and_replayed(
    run: Commands, engine: sa.Engine, shop: OddShop
) -> None:
    fleet(run)
    first = run.crawl(engine, "odd")
    assert (first["status"], first["dead"], first["invalid"], first["ok"]) == ("completed", 2, 1, 2)

    found = {page["url"].removeprefix(shop.url()): page for page in run.json("dead", "list")}
    kept = {
        path: (page["status"], page["reason"], page["blame"], page["http_status"])
        for path, page in found.items()
    }
    assert kept == {
        "/refused": ("dead", "refused", "page", 403),
        "/more": ("dead", "refused", "page", 403),
        "/empty": ("invalid", "not_extracted", "parser", 200),
    }
    assert "title" in found["/empty"]["error"] and found["/empty"]["attempts"] == 2
    assert_shown(run, found, shop)

    wanted = ("dead", "replay", "odd", "--dry-run")
    assert run.json(*wanted) == [
        {
            "site": "odd",
            "pages": 3,
            "crawl_id": None,
            "opened": True,
            "outdated": False,
            "refused": None,
        }
    ]
    assert table(run.scraper(*wanted).stdout) == [
        {"site": "odd", "pages": "3", "crawl": "a new one"}
    ]
    assert len(run.json("dead", "list")) == 3 and len(run.crawls()) == 1, "nothing was changed"

    truth, asked = fix(shop), len(shop.asked())
    done = run.scraper("dead", "replay", "odd", "--wait")
    assert table("\n".join(done.stdout.splitlines()[:2])) == [
        {"site": "odd", "pages": "3", "crawl": f"{first['id'] + 1}, opened for this"}
    ]
    crawl = progress.as_json(progress.read_one(engine, first["id"] + 1))
    assert (crawl["status"], crawl["trigger"], crawl["dead"], crawl["invalid"]) == (
        "completed",
        "replay",
        0,
        0,
    )
    assert (crawl["products_new"], crawl["products_delisted"], crawl["fresh"]) == (3, 0, 1)
    assert_counted(engine, crawl)
    assert exported(run) == truth
    assert sorted(set(shop.asked()[asked:]) - {"/robots.txt"}) == [
        "/empty",
        "/late",
        "/more",
        "/refused",
    ]

    again = run.scraper("dead", "replay", "odd")
    assert (
        again.stdout == "no such dead or invalid pages\n" and run.json("dead", "list", "odd") == []
    )
    assert len(run.crawls()) == 2


def assert_shown(run: Commands, found: dict[str, dict[str, Any]], shop: OddShop) -> None:
    """The list, its summary, and a page each in full: whole, and harmless to a terminal."""
    listed = {row["url"]: row for row in table(run.scraper("dead", "list", "odd").stdout)}
    assert (
        listed[shop.url("/empty")]["reason"] == "not_extracted"
        and listed[shop.url("/more")]["http"] == "403"
    )
    counts = {
        (row["status"], row["reason"]): row["pages"]
        for row in table(run.scraper("dead", "list", "--summary").stdout)
    }
    assert counts == {("dead", "refused"): "2", ("invalid", "not_extracted"): "1"}
    limited = run.scraper("dead", "list", "--limit", "1")
    assert len(limited.stdout.splitlines()) == 2 and "1 of 3" in limited.stderr

    for path, page in found.items():
        text = run.scraper("dead", "show", str(page["id"])).stdout
        assert text == run.scraper("dead", "show", shop.url(path) + "#top").stdout
        assert (
            Outcome(page["reason"]).phrase in text
            and f"blames {page['blame']}" in text
            and "when:" in text
        )
        assert (
            f"scraper dead replay {page['id']}" in text
            and f"scraper dead drop {page['id']}" in text
        )
        assert not any(char in text for char in ODD) and "s3cret" not in text
        whole = run.scraper("dead", "show", str(page["id"]), "--json").stdout
        assert not any(char in whole for char in ODD)
        read = json.loads(whole)
        assert (
            read["site"] == "odd"
            and read["crawl_status"] == "completed"
            and read["blame"] == page["blame"]
        )
        if path == "/empty":
            assert "gnp.exe" in text and "fix the site's definition" in text
            assert EVIL.replace("\x00", "").splitlines()[0] in read["excerpt"]
        else:
            assert "x-why: [2Jbot" in text and "Access denied" in text
            assert read["response_head"]["x-why"] == "\x1b[2Jbot"


def test_a_fixed_definition_is_what_a_replay_goes_by(
    run: Commands, engine: sa.Engine, shop: OddShop, environment: Settings
) -> None:
    """Taken over from sites/ at once, as by `scraper crawl`."""
    fleet(run)
    first = run.crawl(engine, "odd")
    fields = {"title": {"css": "h1, h2", "required": True}}
    shop.serve("/empty", product("empty", None, more="<h2>Fixed</h2>").encode())
    define(
        environment, shop.url("/"), product={"id": {"css": "body::attr(data-id)"}, "fields": fields}
    )
    (page,) = run.json("dead", "list", "--reason", "not_extracted")
    done = run.scraper("dead", "replay", str(page["id"]), "--wait", "--json")
    assert json.loads(done.stdout)[0]["pages"] == 1 and "crawl 2 completed" in done.stderr
    assert exported(run) == {"good": "Good", "empty": "Fixed"}
    assert shop.tries[0, "/refused"] == shop.tries[0, "/more"] == 2, "only what was asked for"
    assert_counted(engine, progress.as_json(progress.read_one(engine, first["id"] + 1)))


def test_pages_that_die_again(run: Commands, engine: sa.Engine, shop: OddShop) -> None:
    """A replay that finds nothing good fails, and its pages stay what they are, with the newer
    reason."""
    fleet(run)
    run.crawl(engine, "odd")
    shop.serve("/refused", Answer(b"gone for ever", 410))
    done = run.scraper("dead", "replay", "--status", "dead", "--wait", code=4)
    assert "crawl 2 of odd failed" in done.stderr
    assert {
        (page["url"].rpartition("/")[2], page["reason"]) for page in run.json("dead", "list")
    } == {
        ("more", "refused"),
        ("empty", "not_extracted"),
    }
    assert_counted(engine, progress.as_json(progress.read_one(engine, 2)))


# --- without


@pytest.fixture
def crawl(engine: sa.Engine) -> tuple[int, int]:
    """A running crawl of "shop" with three refused pages and an invalid one."""
    crawl = open_crawl(engine, a_site())
    give_up(engine, crawl, urls(3), error=EVIL.replace("\x00", ""))
    give_up(engine, crawl, ["https://m.shop.example:8443/x?a=1&b=2"], Outcome.FUNCTION_FAILED)
    return crawl


def test_a_running_crawl_is_joined(
    run: Commands, engine: sa.Engine, crawl: tuple[int, int]
) -> None:
    wanted = ("dead", "replay", "shop", "--reason", "refused", "--newer", "1h")
    expected = [{"site": "shop", "pages": "3", "crawl": f"{crawl[1]}, running already"}]
    assert (
        table(run.scraper(*wanted, "--dry-run").stdout)
        == expected
        == table(run.scraper(*wanted).stdout)
    )
    assert rows(engine, "SELECT status, count(*) FROM pages GROUP BY 1 ORDER BY 1") == [
        ("due", 3),
        ("invalid", 1),
    ]
    (shown,) = run.crawls()
    table_has = counted(engine, crawl[1])
    assert {name: shown[name] for name in table_has} == table_has and shown["product_done"] == 1
    (page_id,) = rows(engine, "SELECT id FROM pages WHERE status = 'due' LIMIT 1")[0]
    shown_text = run.scraper("dead", "show", str(page_id)).stdout
    assert "it is due: there is nothing to replay" in shown_text and "to come" not in shown_text
    done = run.scraper("dead", "replay", str(page_id), "https://m.shop.example:8443/x?b=2&a=1")
    assert (
        table(done.stdout)[0]["pages"] == "1"
        and "1 of the 2 pages named were left alone" in done.stderr
    )


def test_drop(run: Commands, engine: sa.Engine, crawl: tuple[int, int]) -> None:
    assert table(run.scraper("dead", "drop", "--host", "shop.example", "--dry-run").stdout) == [
        {"site": "shop", "pages": "3"}
    ]
    assert len(run.json("dead", "list")) == 4
    assert run.json("dead", "drop", "--host", "shop.example") == [{"site": "shop", "pages": 3}]
    (left,) = run.json("dead", "list", "shop")
    assert left["host"] == "m.shop.example:8443"
    assert table(run.scraper("dead", "drop", "--all").stdout) == [{"site": "shop", "pages": "1"}]
    assert run.scraper("dead", "drop", "--all").stdout == "no such dead or invalid pages\n"
    assert run.json("dead", "drop", "--all") == [] == run.json("dead", "replay", "--all")
    (shown,) = run.crawls()
    table_has = counted(engine, crawl[1])
    assert {name: shown[name] for name in table_has} == table_has and shown["dropped"] == 4


def test_the_list_is_harmless_to_a_terminal(run: Commands, crawl: tuple[int, int]) -> None:
    for words in ((), ("--json",), ("--summary",), ("--summary", "--json")):
        assert not any(char in run.scraper("dead", "list", *words).stdout for char in ODD)
    assert any(page["error"] == EVIL.replace("\x00", "") for page in run.json("dead", "list"))


def test_what_is_wrong_is_said(run: Commands, engine: sa.Engine, crawl: tuple[int, int]) -> None:
    def told(*words: str, code: int = 2, **env: str) -> str:
        return run.scraper("dead", *words, code=code, env=env).stderr

    for command in ("replay", "drop"):
        assert "--all" in told(command)
        assert "no site named 'nowhere'" in told(command, "nowhere")
        assert "one site at a time" in told(command, "shop", "other")
        assert "no page has the id 99" in told(command, "99")
    reasons = told("list", "--reason", "tired")
    assert (
        all(outcome in reasons for outcome in ("refused", "not_extracted", "worker_lost"))
        and "fresh" not in reasons
    )
    assert "not a length of time" in told("list", "--older", "soon") and "12h" in told(
        "list", "--newer", "-1h"
    )
    assert "ok" in told("list", "--status", "ok") and "no site named 'x'" in told("list", "x")
    assert "no page has the id 99999999999999999999" in told("show", "99999999999999999999")
    assert "neither" in told("show", "shop") and "no site has a page" in told(
        "show", "https://shop.example/nope"
    )
    assert run.scraper("dead", "list", "--older", "7d").stdout == "no such dead or invalid pages\n"

    away = told("replay", "shop", code=3, REDIS_URL=f"redis://127.0.0.1:{unused_port()}/0")
    assert "REDIS_URL" in away
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE sites SET paused = true"))
    for words in (
        ("replay", "shop"),
        ("replay", "shop", "--dry-run"),
        ("replay", "--all", "--json"),
    ):
        assert "scraper sites resume shop" in told(*words, code=1)
    (page_id,) = rows(engine, "SELECT min(id) FROM pages")[0]
    assert "scraper sites resume shop" in run.scraper("dead", "show", str(page_id)).stdout
    assert len(run.json("dead", "list")) == 4, "nothing was changed by any of it"
