"""Definitions that are typed or pasted to do harm: they break out of no value, run nothing, and keep
the tab from answering no one."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
import yaml

from scraper.plugins.setup.tab import KEYS
from tests.support.servers.flower import Flower
from tests.support.shops.static_shop import StaticShop

pytestmark = pytest.mark.slow

API = "/crawls/api/setup"
GOOD = """\
name: shop
start: https://shop.example/
rate: 4/s
listing: {products: a.p}
product:
  id: {css: .sku}
  fields:
    title: {css: h1, required: true}
"""
# A value that would become keys of its own, a comment, a tag, an anchor or another document.
BREAKOUTS = [
    "4/s\nallow_private: true",
    "4/s, allow_private: true",
    "a]\nallow_private: true\nx: [b",
    "x # allow_private: true",
    "'\nallow_private: true\n'",
    '"\nallow_private: true\n"',
    "!!python/object/apply:os.system [touch /tmp/owned]",
    "&a [*a]",
    "{allow_private: true}",
    "---\nallow_private: true",
    "\u2028allow_private: true",
    "\u0085allow_private: true",
    "{{7*7}}",
    "\0",
    "\u202e",
]
LAUGHS = "a: &a [x, x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join([f'*{chr(97 + n)}'] * 12)}]\n" for n in range(12)
)
BOMBS = {
    "aliases": f"{LAUGHS}{GOOD}",
    "aliases in use": GOOD.replace("a.p}", "a.p, listings: *m}").replace(
        "name:", f"{LAUGHS.replace('m:', 'tags:', 1)}name:", 1
    ),
    "depth": GOOD + "x: " + "[" * 140_000 + "]" * 140_000,
    "brackets": GOOD + "x: " + "[" * 1_400 + "]" * 1_400,
    "deep brackets": GOOD + "".join(f"k{n}: {'[' * 99}{']' * 99}\n" for n in range(15)),
    "lines": GOOD + "".join(f"k{n}: 1\n" for n in range(1_900)),
    "keys": GOOD + "".join(f"k{n}: 1\n" for n in range(25_000)),
    "itself": "name: &a [*a]\n",
    "tag": GOOD + "x: !!python/object/apply:os.system ['touch /tmp/owned']\n",
    "function": GOOD.replace("fields:", "function: os:system\n  fields:"),
    "numbers": GOOD + f"x: {'9' * 200_000}\n",
    "bytes": GOOD + 'x: "\\ud800"\n',
    "selector": GOOD.replace("css: h1", f"css: '{':not(' * 20_000}a{')' * 20_000}'"),
    "pattern": GOOD.replace("css: .sku", f"css: .sku, regex: '{'(a*)*' * 3000}$'"),
    "group": GOOD.replace("css: .sku", f"css: .sku, regex: '{'(' * 40_000}'"),
}


def test_a_value_of_the_form_becomes_no_other_key(flower: Flower) -> None:
    for name in (*KEYS, "name"):
        for value in BREAKOUTS:
            answer = flower.post(f"{API}/check", {"name": "shop", "text": GOOD, name: value})
            assert answer.status_code in (200, 409), (name, value, answer.text)
            if answer.status_code == 409:
                continue
            told = answer.json()
            written = yaml.safe_load(told["text"])
            assert set(written) - {name} <= set(yaml.safe_load(GOOD)), (name, value)
            assert told["problems"] or value.strip() in str(written[name]) or name == "tags", value
    assert not Path("/tmp/owned").exists()


@pytest.mark.timeout(300)
def test_no_text_runs_anything_or_stops_the_tab(flower: Flower) -> None:
    answers: dict[str, int] = {}

    def check(kind: str) -> None:
        body = {"name": "shop", "text": BOMBS[kind]}
        for action, more in (("check", {}), ("save", {"seen": "", "rate": "2/s"})):
            answers[f"{action} {kind}"] = flower.post(
                f"{API}/{action}", {**body, **more}
            ).status_code

    threads = [threading.Thread(target=check, args=(kind,)) for kind in BOMBS]
    for thread in threads:
        thread.start()
    slowest, began = 0.0, time.monotonic()
    while any(thread.is_alive() for thread in threads) and time.monotonic() < began + 240:
        asked = time.monotonic()
        assert flower.get("/crawls/assets/icon.svg", timeout=120).status_code == 200
        slowest = max(slowest, time.monotonic() - asked)
        time.sleep(0.2)
    assert not any(thread.is_alive() for thread in threads), slowest
    assert set(answers.values()) <= {200, 400, 409, 413, 503}, answers
    assert flower.json(API)["surveys"] == []
    assert not Path("/tmp/owned").exists()


@pytest.mark.slow
def test_a_slow_pattern_ends_with_its_search(flower: Flower) -> None:
    """The pages that a site recorded are read by a child with a deadline."""
    pages = {
        "/": '<a class=p href="/p/1">x</a>',
        "/p/1": f"<h1>{'a' * 5000}!</h1><b class=sku>7</b>",
    }
    with StaticShop(pages) as server:
        text = GOOD.replace("https://shop.example", server.url) + "allow_private: true\n"
        assert (
            flower.post(f"{API}/save", {"name": "shop", "text": text, "seen": ""}).status_code
            == 200
        )
        recorded = flower.run.scraper("sites", "record", "shop")
        assert recorded.returncode == 0, recorded.stderr
    evil = text.replace("css: h1", r"css: h1, regex: '^(([a-z])+.)+[A-Z]([a-z])+$'")
    deadline = time.monotonic() + 150
    while time.monotonic() < deadline:
        answer = flower.post(f"{API}/pick", {"site": "shop", "text": evil})
        assert flower.get("/crawls/assets/icon.svg", timeout=30).status_code == 200
        if answer.status_code != 200 or not answer.json().get("busy"):
            break
        time.sleep(1)
    assert answer.status_code in (200, 409) and not answer.json().get("busy"), answer.text
