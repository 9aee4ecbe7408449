"""`defaults.yaml`: keys that count for each site of a folder that does not write them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from scraper.cli.main import main
from scraper.cli.setup.sites import find_problems
from scraper.errors import ConfigError, DefinitionError
from scraper.plugins.author.commands.one_shop import write_shop
from scraper.plugins.author.discovery.writing import HeadKeys
from scraper.plugins.setup.checking import check_name, check_text
from scraper.plugins.supervisor.definitions import NamedQueues
from scraper.settings import Settings
from scraper.sites import loader

TEXT = """start: https://shop.example/
listing: {products: a}
product: {id: {url: '/p/(.+)'}, fields: {title: {css: h1, required: true}}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.yaml").write_text(TEXT)
    (tmp_path / "b.yaml").write_text(f"rate: 2/s\nheaders: {{}}\n{TEXT}")
    return tmp_path


def write_defaults(folder: Path, text: str) -> Path:
    path = folder / "defaults.yaml"
    path.write_text(text)
    return path


def problems_of(folder: Path) -> list[str]:
    return find_problems([folder], Settings(SCRAPER_SITES=folder))


def test_a_key_counts_for_each_site_that_does_not_write_it(folder: Path) -> None:
    before = [site.content_hash for site in loader.load_folder(folder)]
    write_defaults(folder, "rate: 30/m\ntags: [garden]\nheaders: {x-crawler: ours}\n")
    first, second = loader.load_folder(folder)
    assert (first.rate, first.tags, first.headers) == ("30/m", ("garden",), {"x-crawler": "ours"})
    assert (second.rate, second.tags, second.headers) == ("2/s", ("garden",), {})
    assert all(site.content_hash not in before for site in (first, second))
    assert [file.name for file in loader.list_definition_files(folder)] == ["a.yaml", "b.yaml"]


@pytest.mark.parametrize("text", ["", "# rate: 60/m\n"])
def test_empty_defaults_change_nothing(folder: Path, text: str) -> None:
    before = loader.load_folder(folder)
    write_defaults(folder, text)
    assert loader.load_folder(folder) == before


@pytest.mark.parametrize(
    ("text", "line", "sentence"),
    [
        ("queue: x\nrate: often\n", 2, "rate: "),
        ("\nburts: 3\n", 2, "burts: unknown key (fix: did you mean `burst`?)"),
        ("quality:\n  floor: no\n", 2, "quality.floor: unknown key"),
        ("rate: 1/s\nrate: 2/s\n", 2, "rate: written twice, first in line 1 (fix: remove one)"),
        ("tags: [a\n", 2, "YAML, column "),
        ("- rate\n", 1, "the file is not a mapping (fix: write `key: value`)"),
        *(
            (f"burst: 2\n{key}: x\n", 2, f"{key}: differs from site to site (fix: move it to")
            for key in ("name", "title", "start", "sitemap", "hosts", "listing", "product")
        ),
    ],
)
def test_a_problem_is_named_once_with_its_line(
    folder: Path, text: str, line: int, sentence: str
) -> None:
    (folder / "b.yaml").write_text(TEXT)
    path = write_defaults(folder, text)
    (problem,) = problems_of(folder)
    assert problem.startswith(f"{path}:{line}: {sentence}"), problem


def test_a_default_that_one_site_contradicts_names_the_site(folder: Path) -> None:
    path = write_defaults(folder, "rate: 1/s\ncookies: keep\n")
    assert problems_of(folder) == []
    (folder / "b.yaml").write_text(f"proxy: datacenter\n{TEXT}")
    (problem,) = problems_of(folder)
    assert problem.startswith(f"{path}:2: cookies: for b.yaml: with a proxy"), problem


def test_a_plug_ins_check_names_the_line_of_a_default(folder: Path) -> None:
    path = write_defaults(folder, 'revisit: 7d\nschedule: "0 6 * * *"\n')
    problems = problems_of(folder)
    assert [problem.partition(": crawls")[0] for problem in problems] == [f"{path}:1: revisit"]


def test_the_defaults_define_nothing_to_crawl(folder: Path) -> None:
    path = write_defaults(folder, "rate: 30/m\n")
    with pytest.raises(DefinitionError, match="defines no site"):
        loader.load_file(path)
    # A commit's hook names the files that changed: those of the sites count with their defaults.
    assert loader.list_files([path]) == loader.list_definition_files(folder)
    settings = Settings(SCRAPER_SITES=folder)
    refusals: list[Callable[[], object]] = [
        lambda: check_name("defaults"),
        lambda: write_shop("http://a.example/", "defaults", HeadKeys("1/s"), settings, print),
    ]
    for refuse in refusals:
        with pytest.raises(ConfigError, match="holds what all sites share"):
            refuse()
    assert path.read_text() == "rate: 30/m\n"


def test_the_tab_checks_a_draft_with_the_defaults(folder: Path) -> None:
    file, settings = folder / "a.yaml", Settings(SCRAPER_SITES=folder)
    write_defaults(folder, "rate: 30/m\n")
    checked = check_text(TEXT, file, settings, private=True)
    assert checked.site is not None and checked.site.rate == "30/m"
    path = write_defaults(folder, "rate: often\n")
    (problem,) = check_text(TEXT, file, settings, private=True).problems
    assert problem.text.startswith(f"{path}:1: rate: ")


def test_queues_of_defaults_get_workers(folder: Path) -> None:
    named = NamedQueues(folder)
    assert named.read() == {"datacenter"}
    path = write_defaults(folder, "queue: residential\n")
    assert named.read() == {"datacenter", "residential"}
    path.unlink()
    assert named.read() == {"datacenter"}


def test_a_definition_is_shown_with_its_defaults(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCRAPER_SITES", str(folder))
    path = write_defaults(folder, "# For all.\nrate: 30/m\nburst: 3\n")
    shown = CliRunner().invoke(main, ["sites", "show", "b"], catch_exceptions=False).output
    assert "rate: 2/s\n" in shown and f"# {path}:3\nburst: 3\n" in shown
    copy = loader.load_text(shown, folder / "copy.yaml")
    assert copy == loader.load_file(folder / "b.yaml")
