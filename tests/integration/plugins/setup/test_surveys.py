"""Surveys of shops by `scraper new` in processes of their own: bounded in time, number and output,
and nothing of them reaches `sites/`."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from scraper.errors import ConfigError, NotFoundError
from scraper.plugins.setup.child import Child
from scraper.plugins.setup.surveys import WAITING_MAX, ShopSurvey, Surveys
from scraper.sites.loader import load_text
from tests.acceptance.commands import until
from tests.support.servers.silent_shop import SilentShop
from tests.support.shops.shop_templates import TEMPLATES
from tests.support.shops.static_shop import StaticShop
from tests.support.started import find_started

pytestmark = pytest.mark.slow


@pytest.fixture
def surveys(project: Path) -> Iterator[Surveys]:
    surveys = Surveys(deadline_s=240)
    yield surveys
    surveys.close()
    until(lambda: not running(), 20)


def running() -> list[psutil.Process]:
    return find_started("-m scraper new")


def ended(surveys: Surveys, id_: int) -> ShopSurvey:
    until(lambda: not surveys.find_survey(id_).is_open, 60)
    return surveys.find_survey(id_)


def test_a_survey_gives_a_definition_and_its_evidence(surveys: Surveys, project: Path) -> None:
    shop = TEMPLATES["workshop"]()
    with StaticShop(shop.pages) as server:
        (id_,) = surveys.add_shops([f"{server.url}/all"], "1000/s", "ann")
        survey = ended(surveys, id_)
    assert (survey.state, survey.problem) == ("ready", ""), survey
    assert survey.requests == len(server.asked) <= 60
    site = load_text(survey.text, Path("shop.yaml"))
    assert site.name == survey.name and site.rate == "1000/s"
    assert list(project.glob("sites/*")) == []
    rows = {row["field"]: row for row in survey.findings["table"]}
    assert rows["price"]["pages"] and rows["price"]["example"]
    page = survey.findings["samples"][0]
    assert (
        page["stored"]
        and page["values"]["title"] == shop.truth[page["url"].removeprefix(server.url)]["title"]
    )
    # Another survey of the same address may follow.
    assert surveys.add_shops([], "4/s", "ann") == []
    surveys.forget_survey(id_)
    with pytest.raises(NotFoundError, match="no longer kept"):
        surveys.find_survey(id_)


def test_a_page_that_is_not_a_shop_is_explained(surveys: Surveys) -> None:
    with StaticShop({"/": "<h1>Under construction</h1>"}) as server:
        (id_,) = surveys.add_shops([f"{server.url}/"], "1000/s", "ann")
        survey = ended(surveys, id_)
    assert survey.state == "failed" and "no list of products was found" in survey.problem
    assert not survey.problem.startswith("{"), "it is JSON"
    assert "Traceback" not in survey.problem and "scraper-new-" not in survey.problem


@pytest.mark.slow
def test_a_shop_that_never_answers_ends_at_the_deadline(project: Path) -> None:
    surveys = Surveys(deadline_s=4)
    with SilentShop() as shop:
        (id_,) = surveys.add_shops([f"{shop.url}/"], "4/s", "ann")
        survey = ended(surveys, id_)
        assert survey.state == "failed" and "longer than 4 s" in survey.problem
    assert running() == []


@pytest.mark.slow
def test_hundreds_of_addresses_wait_for_two_processes(
    surveys: Surveys, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No survey ends by itself, however long the next one takes to start.
    for name in ("SCRAPER_READ_TIMEOUT_S", "SCRAPER_PAGE_TIMEOUT_S"):
        monkeypatch.setenv(name, "600")
    one, two, three = (SilentShop(robots=True) for _ in range(3))
    with one, two, three:
        first = surveys.add_shops([f"{one.url}/{n}" for n in range(200)], "4/s", "ann")
        # One host is read once at a time.
        until(lambda: len(one.connections) == 1, 30)
        more = surveys.add_shops([f"{shop.url}/" for shop in (two, three)], "4/s", "ann")
        until(lambda: len(two.connections) == 1, 30)
        # Each command reads its pages in a child.
        commands = [process for process in running() if process.ppid() == os.getpid()]
        assert len(commands) == 2 and three.connections == []
        assert surveys.add_shops([f"{one.url}/7"], "4/s", "ann") == []
        with pytest.raises(ConfigError, match="at most 500"):
            surveys.add_shops([f"{one.url}/x{n}" for n in range(WAITING_MAX)], "4/s", "ann")
        # Those that wait first: the end of the one that runs would start the next.
        for id_ in (*first[1:], more[1], first[0]):
            assert surveys.cancel_survey(id_)
        assert ended(surveys, first[0]).state == "cancelled"
        assert {survey.state for survey in surveys.list_all()} == {"cancelled", "reading"}
        assert not surveys.cancel_survey(first[3]) and len(one.connections) == 1
        surveys.close()
        until(lambda: not running(), 20)


@pytest.mark.slow
def test_a_command_that_starts_while_flower_ends_is_ended(
    surveys: Surveys, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, started, goes_on = Child.__init__, threading.Event(), threading.Event()

    def start_slowly(*words: Any, **options: Any) -> None:
        make(*words, **options)
        started.set()
        goes_on.wait(60)

    monkeypatch.setattr(Child, "__init__", start_slowly)
    closing = threading.Thread(target=surveys.close)
    with SilentShop() as shop:
        surveys.add_shops([f"{shop.url}/"], "4/s", "ann")
        assert started.wait(60)
        closing.start()
        closing.join(0.5)
        goes_on.set()
        closing.join(60)
        assert running() == []
        surveys.add_shops([f"{shop.url}/more"], "4/s", "ann")
        assert surveys.list_all()[0].state == "waiting", "none starts any longer"


def test_output_without_end_is_cut_off(project: Path) -> None:
    process = Child(["sites", "schema"], {}, print, output_max_bytes=1000)
    ended = process.finish(60, lambda: False)
    assert len(ended.output) == 1000
