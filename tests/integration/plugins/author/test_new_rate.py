"""Which rate `scraper new` writes: none where defaults.yaml has one that suits the shop."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from scraper.cli.main import main
from scraper.plugins.setup.surveys import Surveys
from scraper.sites.loader import load_file, load_text, read_definition
from tests.acceptance.commands import until
from tests.support.shops.shop_templates import TEMPLATES
from tests.support.shops.static_shop import StaticShop


def write_new(project: Path, robots: str, *words: str, code: int = 0) -> str:
    with StaticShop(TEMPLATES["workshop"]().pages, robots) as server:
        ran = CliRunner().invoke(main, ["new", f"{server.url}/all", "shop", *words])
    assert ran.exit_code == code, ran.output
    return ran.output


@pytest.mark.parametrize(
    ("defaults", "robots", "words", "written", "rate"),
    [
        ("rate: 500/s\n", "", (), None, "500/s"),
        ("rate: 500/s\n", "", ("--rate", "400/s"), "400/s", "400/s"),
        ("rate: 500/s\n", "User-agent: *\nCrawl-delay: 0.05\n", (), "72000/h", "72000/h"),
        ("rate: 10/s\n", "User-agent: *\nCrawl-delay: 0.05\n", (), None, "10/s"),
        ("tags: [a]\n", "", ("--rate", "400/s"), "400/s", "400/s"),
        ("# rate: 1/s\n", "", ("--rate", "400/s"), "400/s", "400/s"),
    ],
)
def test_a_rate_of_the_defaults_reaches_a_new_site(
    project: Path,
    defaults: str,
    robots: str,
    words: tuple[str, ...],
    written: str | None,
    rate: str,
) -> None:
    (project / "sites").mkdir(exist_ok=True)
    (project / "sites/defaults.yaml").write_text(defaults)
    write_new(project, robots, *words)
    file = project / "sites/shop.yaml"
    place = read_definition(file).find_place("rate", file)
    assert (place.file == file) == (written is not None)
    assert load_file(file).rate == rate


def test_a_rate_that_is_none_is_refused_before_a_request(project: Path) -> None:
    (project / "sites").mkdir(exist_ok=True)
    (project / "sites/defaults.yaml").write_text("rate: often\n")
    with StaticShop(TEMPLATES["workshop"]().pages) as server:
        ran = CliRunner().invoke(main, ["new", f"{server.url}/all", "shop"])
    assert ran.exit_code == 2 and "defaults.yaml: rate: 'often' is not a rate" in ran.output
    assert server.asked == []


def test_a_survey_in_the_tab_knows_the_defaults(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "sites").mkdir(exist_ok=True)
    (project / "sites/defaults.yaml").write_text("rate: 500/s\n")
    surveys = Surveys(deadline_s=240)
    with StaticShop(TEMPLATES["workshop"]().pages) as server:
        (id_,) = surveys.add_shops([f"{server.url}/all"], "", "ann")
        until(lambda: not surveys.find_survey(id_).is_open, 60)
    surveys.close()
    survey = surveys.find_survey(id_)
    assert (survey.state, survey.problem) == ("ready", "")
    assert "\nrate:" not in survey.text
    assert load_text(survey.text, project / "sites/shop.yaml").rate == "500/s"


def test_the_defaults_have_a_schema_of_their_own(project: Path) -> None:
    ran = CliRunner().invoke(main, ["sites", "schema", "--defaults"])
    schema = json.loads(ran.output)
    assert schema["required"] == [] and {"rate", "schedule"} <= set(schema["properties"])
    assert not {"name", "start", "listing", "product"} & set(schema["properties"])
    assert all(f'"#/$defs/{name}"' in ran.output for name in schema["$defs"])
    assert "Listing" not in schema["$defs"] and schema["additionalProperties"] is False
