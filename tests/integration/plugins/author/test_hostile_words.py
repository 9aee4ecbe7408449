"""Commands that show what a shop's pages say, on pages that would drive the terminal."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from scraper.cli.main import main
from scraper.sites.loader import load_text
from tests.support.shops.static_shop import StaticShop
from tests.support.shops.things_shop import define

# It clears the screen, names the window, turns the line round and writes Rich markup.
EVIL = "\x1b[2J\x1b]0;owned\x07\x9b31m\u202e[red]{x: y}\u2028\r\x08'\"#$(reboot)`"
# What the commands write themselves, on a terminal.
OWN = re.compile(r"\x1b\[(?:K|\d*m)|\r(?=\x1b\[K)")
DRIVES = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
NUMBERS = range(1, 21)


def page(n: int, frame: str) -> str:
    name = EVIL.replace('"', "&quot;")
    return frame.format(n=n, evil=name)


OLD = (
    "<html><head><title>{evil}</title></head><h1 class=name>Thing {n}{evil}</h1>"
    "<b class=price>£{n}.50</b><i class=state>{evil} {n}</i></html>"
)
NEW = (
    '<html><h1 class=name>Thing {n}{evil}</h1><p id="{evil}" class="{evil}">£{n}.50</p>'
    '<table><tr><th>{evil}</th><td data-x="{evil}">{evil} {n}</td></tr></table></html>'
)


@pytest.fixture
def evil_shop(shop: StaticShop) -> StaticShop:
    define(shop)
    path = Path("sites/things.yaml")
    path.write_text(path.read_text() + "    state: {css: .state}\n")
    cards = "".join(
        f'<li class="{EVIL.replace(chr(34), "")}"><a class=p href="/p/{n}?{EVIL[:9]}">'
        f"Thing {n}{EVIL}</a><b>£{n}.50</b></li>"
        for n in NUMBERS
    )
    shop.pages.clear()
    shop.pages |= {"/": cards}
    show(shop, OLD)
    return shop


def show(shop: StaticShop, frame: str) -> None:
    for n in NUMBERS:
        for target in (f"/p/{n}", f"/p/{n}?%1B[2J%1B]0;o", f"/p/{n}?%1B%5B2J%1B%5D0;o"):
            shop.pages[target] = page(n, frame)


def said(*words: str, typed: str = "") -> str:
    result = CliRunner().invoke(main, words, input=typed, color=True)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.output
    return result.output


def driving(text: str) -> list[str]:
    return DRIVES.findall(OWN.sub("", text))


@pytest.mark.slow
def test_the_terminal_is_not_driven(evil_shop: StaticShop) -> None:
    url = evil_shop.url
    Path("page.html").write_text(page(1, NEW))
    typed = f"page\ncss('h1')\njsonld\nfetch('/{EVIL[:9]}')\npage.headers\n"
    outputs = [
        said("try", "things"),
        said("try", "page.html", "td"),
        said("try", f"{url}/p/1"),
        said("shell", f"{url}/p/1", typed=typed),
        said("sites", "record", "things"),
    ]
    path = Path("sites/things.yaml")
    text = path.read_text()
    path.write_text(text.replace("{css: .state}", "{css: title}"))
    outputs.append(said("sites", "test", "things"))
    path.write_text(text)
    show(evil_shop, NEW)
    outputs += [
        said("try", "things"),
        said("new", f"{url}/", "fresh"),
        said("repair", "things", "--apply"),
        Path("sites/things.pages/pages.json").read_text(),
    ]
    assert [driving(output) for output in outputs] == [[]] * len(outputs)
    # The words themselves are shown.
    assert all("owned" in output for output in (*outputs[:2], *outputs[5:8], outputs[-1]))
    for file in Path("sites").glob("*.yaml"):
        load_text(file.read_text(), file)
