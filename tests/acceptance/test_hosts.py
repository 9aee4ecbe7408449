"""`scraper host …` as it is typed."""

from __future__ import annotations

import sqlalchemy as sa

from tests.acceptance.commands import Commands
from tests.making import a_site, add, new_page, open_crawl, urls


def test_the_commands(run: Commands, engine: sa.Engine) -> None:
    crawl = open_crawl(engine, a_site("a", rate="2/s"))
    add(engine, [new_page(crawl, url) for url in urls(3, "a.example")])

    def host(*words: str, code: int = 0) -> str:
        done = run.scraper("host", *words, code=code)
        return done.stderr if code else done.stdout

    assert host("pause", "A.example") == "a.example: paused\n"
    assert host("pause", "a.example") == "a.example: was paused already\n"
    assert host("set", "a.example", "--rate", "30/m", "--burst", "3") == "a.example: rate 30/m, burst 3\n"
    (shown,) = run.json("host", "list")
    assert shown["paused"] and shown["override"] == {"rate": "30/m", "burst": 3} and shown["due"] == 3
    lines = host("list").splitlines()
    assert lines[0].split("\t")[:4] == ["host", "rate", "at once", "burst"]
    assert lines[1].split("\t")[:4] == ["a.example", "0.5/s", "4", "3"] and "paused, set by hand" in lines[1]
    assert host("resume", "a.example") == "a.example: resumed\n"
    assert host("set", "a.example", "--reset") == "a.example: as the site definitions say\n"
    assert "no page of nobody.example is known yet" in run.scraper("host", "pause", "nobody.example").stderr
    assert "say what" in host("set", "a.example", code=2)
    assert "is no rate" in host("set", "a.example", "--rate", "often", code=2)
    assert "is no host name" in host("pause", "https://a.example/", code=2)
