"""How the figures of the house test are measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.house import names, prose
from tools.house.figures import FIGURES, Figure, House, Measured, breaches, rounded_outwards, slack
from tools.house.modules import Module
from tools.house.references import Names, Reference, imported_modules

pytestmark = pytest.mark.parses
SOURCE = '''"""Nobody reads this module."""

import logging

LOG = logging.getLogger(__name__)
SQL = "SELECT nobody FROM heard WHERE told"
# Two lines of one comment are at
# the most one text.
LIMIT = 5  # Stands alone.


class _Answer:
    def _read(self, found: str) -> str:
        """What is read."""
        one = f"{found} is no page"
        LOG.info(one, extra={"heard": "told"})
        return one

    def record_success(self) -> None:
        """Records that `nobody` failed."""
        import json

        json.dumps({})
'''


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Module:
    path = tmp_path / "scraper" / "module.py"
    path.parent.mkdir()
    path.write_text(SOURCE)
    monkeypatch.setattr("tools.house.modules.ROOT", tmp_path)
    return Module(path)


@pytest.fixture(scope="module")
def known() -> Names:
    return Names()


def marked(texts: list[prose.Prose]) -> list[tuple[int, str]]:
    return [(mark.line, mark.message.split("'")[1].lower()) for mark in prose.marks(texts)]


def test_marks_of_a_module(module: Module) -> None:
    assert sorted(marked(list(prose.documentation(module)))) == [
        (1, "nobody"),
        (7, "at the most"),
        (9, "stands"),
    ]
    assert marked(list(prose.messages(module))) == [(15, "is no page")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The caller is no\nlonger there.", []),
        ("It is no\npage.", ["is no page"]),
        ("A page that is gone.", []),
        ("The worker is gone.", ["worker is gone"]),
        ("Mended anew, as nobody told us.", ["anew", "mended", "nobody", "told"]),
        ("It extends the standard library.", []),
    ],
)
def test_marks(text: str, expected: list[str]) -> None:
    assert sorted(word for _, word in marked([prose.Prose("text", 1, text)])) == expected


def test_quoted_code_is_not_prose() -> None:
    text = "`nobody` and ``told``,\nsee https://nobody.example/ and [it](heard.md)."
    assert prose.unquoted(text).split() == ["and", ",", "see", "and", "[it](", ")."]
    assert prose.unquoted(text).count("\n") == 1


def test_names_of_a_module(module: Module) -> None:
    assert [place.split()[-1] for place in names.filler_names([module])[0]] == ["one"]
    assert names.private_functions_of_one_word([module]) == (["scraper/module.py:13 _read"], 2)
    assert names.mean_words([module]) == 1.5
    assert names.classes_by_name([module, module]) == {
        "Answer": ["scraper/module.py:12", "scraper/module.py:12"]
    }
    assert prose.weak_openings([module]) == (["scraper/module.py:13 'What is read.'"], 2)


def test_lines_of_code(module: Module) -> None:
    assert module.code_lines() == 12
    assert module.local_imports() == {21}
    assert [lines for lines, _ in module.function_lines()] == [4, 3]


@pytest.mark.parametrize(
    ("name", "exists"),
    [
        ("scraper.domain", True),
        ("scraper.domain.Outcome", True),
        ("scraper.domain.Outcome.FETCHED", True),
        ("scraper.domain.NoSuchName", False),
        ("scraper.no_such_module", False),
        ("scraper.toml", True),
        ("domain.Outcome", True),
        ("Outcome.FETCHED", True),
        ("Outcome.NO_SUCH_MEMBER", False),
        ("asyncio.timeout", True),
        ("asyncio.no_such_function", False),
        ("nosuchpackage.function", False),
        ("listing.products", True),
        ("scraper/domain.py", True),
        ("scraper/no_such_module.py", False),
        ("sites/NAME.py", True),
    ],
)
def test_a_name_in_prose_exists(name: str, exists: bool, known: Names) -> None:
    assert known.exists(Reference("text:1", name, None)) == exists


def test_an_import_under_another_name_is_resolved(tmp_path: Path, known: Names) -> None:
    path = tmp_path / "module.py"
    path.write_text("from scraper.rules import schedule as policy\n")
    module = Module(path)
    assert imported_modules(module) == {"policy": "scraper.rules.schedule"}
    assert known.exists(Reference("text:1", "policy.next_slot", module))
    assert not known.exists(Reference("text:1", "policy.no_such_rule", module))


@pytest.mark.parametrize(
    ("value", "broken", "loose"),
    [(11, True, False), (10, False, False), (9.6, False, False), (9, False, True)],
)
def test_a_limit_is_broken_or_loose(
    value: float, broken: bool, loose: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tools.house.figures.ratchet", lambda: {"marks": 10})
    figure = Figure("marks", "marks", lambda house: Measured(value, ["here"]))
    measured = figure.measure(House())
    assert breaches(figure, measured) == (["here"] if broken else [])
    assert bool(slack(figure, measured)) == loose


def test_a_list_of_allowed_places_only_shrinks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.house.figures.ratchet", lambda: {"names": ["One", "Two"]})
    figure = Figure("names", "names", lambda house: Measured(0, []))
    assert breaches(figure, Measured(2, ["One", "Three"])) == ["Three"]
    assert slack(figure, Measured(1, ["One"])) is not None
    assert slack(figure, Measured(2, ["One", "Two"])) is None


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.key)
def test_a_tightened_limit_keeps_its_figure(figure: Figure) -> None:
    for value in (0.0, 1.0, 1.4149, 27.11, 1134.0):
        limit = round(rounded_outwards(value, figure), figure.digits)
        assert not figure.is_worse(value, limit)
