"""`scraper try` as it is typed, against a shop on the loopback: polite, without servers, without a
project, and without a trace."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from scraper.cli.main import main
from tests.support.shops.js_shop import JsShop
from tests.support.shops.static_shop import StaticShop
from tests.support.shops.things_shop import DEFINITION, PAGES, define


def run(*words: str, code: int = 0) -> Result:
    result = CliRunner().invoke(main, ["try", *words])
    assert result.exit_code == code, result.output
    return result


def test_a_definition_is_tried_on_some_of_its_pages_and_leaves_no_trace(shop: StaticShop) -> None:
    define(shop)
    shown = json.loads(run("things", "--products", "3", "--json").stdout)
    assert len(shown["listings"][0]["products"]) == 7
    assert [page["external_id"] for page in shown["products"]] == ["1", "4", "7"]
    assert shown["products"][1]["fields"][1]["value"] == 4.5
    assert shop.paths == ["/robots.txt", "/", "/p/1", "/p/4", "/p/7"]
    assert sorted(path.name for path in Path().rglob("*")) == ["sites", "things.yaml"]


def test_no_page_leaves_before_its_turn(shop: StaticShop) -> None:
    define(shop, "10/s")
    run("things")
    times = [at for _, at in shop.asked]
    assert len(times) == 5 and times[-1] - times[0] > 0.25


def test_a_url_needs_no_project_and_no_definition(shop: StaticShop) -> None:
    out = run(f"{shop.url}/p/3").stdout
    assert "title\tThing 3\tcss 'h1'" in out
    assert list(Path().iterdir()) == []


def test_what_robots_txt_disallows_is_not_asked_for(shop: StaticShop) -> None:
    result = run(f"{shop.url}/secret", "h1", code=1)
    assert "robots_disallowed" in result.stderr
    assert shop.paths == ["/robots.txt"]


def test_the_definition_of_its_host_reads_a_url(shop: StaticShop) -> None:
    define(shop)
    assert "price\t5.50\tcss '.price'" in run(f"{shop.url}/p/5").stdout


def test_a_saved_page_is_read_without_a_request(shop: StaticShop) -> None:
    define(shop)
    Path("saved.html").write_text(PAGES["/p/2"])
    out = run("saved.html", "--site", "things", "--url", f"{shop.url}/p/2").stdout
    assert "  id 2\n" in out and "title\tThing 2" in out
    assert shop.asked == []


def test_a_selector_alone(shop: StaticShop) -> None:
    define(shop)
    assert run("things", ".price").stdout == "£1.50\n"
    assert run("things", "a.p", "--listing").stdout.splitlines() == [
        f"Thing {n}" for n in range(1, 8)
    ]
    result = run("things", ".price > i", code=1)
    assert "the longest part that matches: .price" in result.stderr


def test_a_site_that_has_only_a_sitemap_has_no_listing_page_to_try(shop: StaticShop) -> None:
    define(shop, text=DEFINITION.replace("start: {url}/", "sitemap: {url}/map.xml"))
    shop.pages["/map.xml"] = f"<urlset><url><loc>{shop.url}/p/1</loc></url></urlset>"
    assert run("things", ".price").stdout == "£1.50\n"
    assert "no start page" in run("things", "a.p", "--listing", code=1).stderr


def test_a_page_that_would_not_be_stored_is_an_error(shop: StaticShop) -> None:
    define(shop, text=DEFINITION.replace(".price", ".cost"))
    result = run("things", code=1)
    assert "(would not be stored)" in result.stdout
    assert "nothing matched css '.cost'" in result.stdout


def test_a_site_behind_proxies_is_never_asked_directly(shop: StaticShop) -> None:
    define(shop, text=DEFINITION + "proxy: datacenter\n")
    result = run("things", code=1)
    assert "no_proxy" in result.stderr
    assert shop.asked == []


def test_what_is_neither_names_the_nearest(shop: StaticShop) -> None:
    define(shop)
    assert "did you mean 'things'?" in run("thing", code=2).stderr


def test_a_product_that_is_gone_is_an_answer(shop: StaticShop) -> None:
    define(shop)
    del shop.pages["/p/4"]
    result = run("things", "--products", "3")
    assert "/p/4\n  gone: the shop answers that it no longer exists" in result.stdout
    assert "4.50" not in result.stdout and "7.50" in result.stdout
    for number in (1, 7):
        del shop.pages[f"/p/{number}"]
    assert run("things", "--products", "3", code=1).stdout.count("gone:") == 3


def test_a_browser_shows_what_scripts_fill(
    installed_chromium: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    with JsShop() as js_shop:
        js_shop.open()
        product = js_shop.url("/p/3")
        assert run(product, "h1", code=1).stdout.strip() == ""
        assert run(product, "h1", "--browser").stdout.strip() == "Thing nº 3"
        assert "title" in run(product, "--browser").stdout
        assert not [target for _, _, target in js_shop.requests if target == "/picture.png"]
        assert "robots_disallowed" in run(js_shop.url("/private"), "--browser", code=1).stderr
        saved = tmp_path / "saved.html"
        saved.write_text("<h1>Saved</h1>")
        assert "saved page" in run(str(saved), "--browser", code=2).stderr


def test_a_site_whose_queue_is_browser_is_tried_by_one(
    installed_chromium: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    with JsShop() as js_shop:
        js_shop.open()
        text = DEFINITION.replace("{url}/\n", "{url}/all\nqueue: browser\n")
        (tmp_path / "sites").mkdir()
        (tmp_path / "sites/js.yaml").write_text(
            text.format(url=js_shop.url("/").rstrip("/"), rate="100/s")
        )
        shown = json.loads(run("js", "--json").stdout)
        assert [page["fields"][0]["value"] for page in shown["products"]] == [
            "Thing nº 1",
            "Thing nº 3",
            "Thing nº 6",
        ]
        monkeypatch.setenv("PATH", str(tmp_path))
        assert "apt install chromium" in run("js", code=2).stderr


def test_one_page_at_every_address_is_said_to_be_a_block(shop: StaticShop) -> None:
    define(shop)
    shop.pages = {
        path: page if path == "/" else "<title>Access check</title><p>Wait."
        for path, page in shop.pages.items()
    }
    pages = json.loads(run("things", "--json", code=1).stdout)["products"]
    problems = {problem for page in pages for problem in page["problems"]}
    assert len(problems) == 1 and "looks like a captcha or block" in problems.pop()
    assert "nothing matched" not in run("things", code=1).output
