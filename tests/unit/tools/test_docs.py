"""The documentation names everything that can be set, typed or returned, and every link in it leads
somewhere."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from scraper import celeryconfig, errors
from scraper.cli.main import all_commands, help_of, main
from scraper.plugins.author.schema import json_schema
from scraper.settings import Settings
from tools.docs import llms, picture, reference

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
REFERENCE = DOCS / "reference"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
INTERRUPTED = 130
# A page names modules from the root, or from within the package.
BASES = (ROOT, ROOT / "scraper")

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
REGISTRIES = re.compile(
    r"(?:pypi|pythonhosted|npmjs|proxy\.golang|crates|rubygems|cdnjs|jsdelivr|unpkg)[\w.]*\.(?:org|com|io|net)",
    re.I,
)
MACHINE_PATH = re.compile(r"(?<![\w.$}/:-])/(?:home|root|work|tmp|Users|mnt|opt|srv)/\S*")


def text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def test_the_reference_says_what_the_code_says(subtests: pytest.Subtests) -> None:
    for name, page in reference.pages().items():
        with subtests.test(name):
            assert text(REFERENCE / name) == page, "run: python -m tools.docs"


def is_a_purpose(line: str) -> bool:
    """One or more whole sentences, with enough words to choose a page by, and no markup that needs
    the page around it."""
    return len(line.split()) >= 7 and line.endswith(".") and not re.search(r"[\[\]<>\n]", line)


def test_the_list_for_language_models_names_each_page_once() -> None:
    written = text(DOCS / "llms.txt")
    assert written == llms.llms_text(), "run: python -m tools.docs"
    assert written.startswith("# scraper\n\n> ") and written.count("\n## ") == 5
    lines = [line for line in written.splitlines() if line.startswith("- ")]
    links = [re.fullmatch(r"- \[[^]]+\]\(([^)]+)\.html\): \S.{10,300}", line) for line in lines]
    assert all(links), lines
    pages = {page.relative_to(DOCS).with_suffix("").as_posix() for page in DOCS.rglob("*.md")}
    assert sorted(link[1] for link in links if link) == sorted(pages)
    purposes = llms.read_purposes()
    assert sorted(purposes) == sorted(f"{page}.md" for page in pages)
    assert len(set(purposes.values())) == len(purposes)
    assert [page for page, purpose in purposes.items() if not is_a_purpose(purpose)] == []


def test_the_picture_of_the_architecture_is_current() -> None:
    drawn = text(DOCS / "img" / "architecture.svg")
    assert drawn == picture.architecture_svg(), "run: python -m tools.docs"


def test_the_boxes_of_the_picture_are_the_folders_of_the_package() -> None:
    """Its rows are the layers of the import contract, which `lint-imports` compares with the code."""
    drawn = [folder for layer in picture.import_layers() for folder in layer]
    assert sorted(drawn) == sorted(picture.folders())
    assert set(picture.FOLDERS) == picture.folders()
    shown = re.findall(r"<text [^>]*>(.*?)</text>", picture.architecture_svg())
    assert set(drawn) <= set(shown)
    assert all(name in " ".join(shown) for name in picture.plugin_names())


@pytest.mark.parametrize("name", Settings.model_fields)
def test_every_setting_says_what_it_is(name: str) -> None:
    assert Settings.model_fields[name].description, f"{name} needs a description in settings.py"


def commands(group: click.Group, prefix: str = "scraper") -> Iterator[tuple[str, click.Command]]:
    ctx = click.Context(group)
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, f"{prefix} {name}")
        else:
            yield f"{prefix} {name}", command


@pytest.mark.parametrize("name", all_commands())
def test_the_list_of_commands_says_what_a_command_says_of_itself(name: str) -> None:
    command = main.get_command(click.Context(main), name)
    assert command is not None and command.help is not None
    assert help_of(name) == " ".join(command.help.split("\n\n")[0].split())


@pytest.mark.parametrize(("name", "command"), list(commands(main)))
def test_every_command_and_option_explains_itself(name: str, command: click.Command) -> None:
    page = text(REFERENCE / "commands.md")
    assert f"### {name}\n" in page and command.help, name
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, f"{name}: {parameter.opts} has no help"


def exit_codes() -> set[int]:
    kinds = [
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.ScraperError)
    ]
    return {0, INTERRUPTED, *(kind.exit_code for kind in kinds)}


@pytest.mark.parametrize("code", sorted(exit_codes()))
def test_every_exit_code_is_in_the_reference(code: int) -> None:
    assert code in reference.EXIT_CODES, f"exit code {code} is not in tools/docs/reference.py"


@pytest.mark.parametrize("queue", [queue.name for queue in celeryconfig.task_queues])
def test_every_queue_is_in_running_in_production(queue: str) -> None:
    assert re.search(rf"^\| `{queue}` \|", text(DOCS / "how-to" / "production.md"), re.M), (
        f"{queue} has no row in docs/how-to/production.md"
    )


def models() -> dict[str, Any]:
    schema = json_schema()
    return {"Site": schema, **schema["$defs"]}


@pytest.mark.parametrize("model", models())
def test_every_key_of_a_definition_says_what_it_is(model: str) -> None:
    page = text(REFERENCE / "keys.md")
    for key, node in models()[model]["properties"].items():
        assert node.get("description"), f"{model}.{key} needs a description"
        assert f"|`{key}`|" in page, key


def anchors(path: Path) -> set[str]:
    """The anchors GitHub gives a page's headings."""
    found = re.findall(
        r"^#+ +(.+?) *$", re.sub(r"^```.*?^```", "", text(path), flags=re.M | re.S), re.M
    )
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_internal_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(text(page)):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        meant = (page.parent / file).resolve() if file else page
        assert meant.exists(), f"{page.name}: {target} does not exist"
        if anchor:
            assert anchor in anchors(meant), f"{page.name}: {target}: no such heading"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_page_names_a_package_registry_or_a_path_of_some_machine(page: Path) -> None:
    assert REGISTRIES.findall(text(page)) == []
    assert MACHINE_PATH.findall(text(page)) == []


def test_the_architecture_is_read_in_one_sitting() -> None:
    assert len(text(DOCS / "explanation" / "architecture.md").splitlines()) <= 250


def test_every_page_is_in_the_site_and_every_picture_is_shown() -> None:
    config = text(ROOT / "zensical.toml")
    for page in sorted(DOCS.rglob("*.md")):
        assert f'"{page.relative_to(DOCS)}"' in config, f"{page.name} is not in zensical.toml"
    written = "".join(text(page) for page in PAGES)
    for image in [*DOCS.glob("*.svg"), *(DOCS / "img").glob("*.[ps][nv]g")]:
        assert image.name in written, f"no page shows {image.name}"


def test_the_readme_names_every_extra_and_no_other() -> None:
    project = tomllib.loads(text(ROOT / "pyproject.toml"))["project"]
    (names,) = re.findall(
        r"^Other extras add optional features: (.*?)\.$", text(ROOT / "README.md"), re.M
    )
    shown = {*re.findall(r"`(\w+)`", names), "embedded"}
    assert shown == set(project["optional-dependencies"])


MODULE = re.compile(r"(?<![\w./-])((?:[a-z_]+/)+[a-z_0-9]+\.py)\b")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_modules_that_a_page_names_are_there(page: Path) -> None:
    shown = re.findall(r"<!-- plugin: (\S+) -->", text(page))
    for path in set(MODULE.findall(text(page))) - set(shown):
        assert any((base / path).exists() for base in BASES), f"{page.name}: no {path}"
