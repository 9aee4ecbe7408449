"""The figures that show the state of the house, each with its limit from `house_ratchet.toml`.

A limit is a ratchet: the house test fails where a figure is worse, and a limit only moves towards
the figure's aim. `python -m tools.house --tighten` moves every limit to what is measured.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, cached_property

from tools.house import names, prose
from tools.house.modules import PACKAGE, ROOT, Module, modules_below

RATCHET = ROOT / "tests" / "unit" / "tools" / "house_ratchet.toml"
LONG_FUNCTION_LINES = 40
# A limit may be this much looser than what is measured before the house test says so.
SLACK_SHARE = 0.05
HELPERS = ("tests", "benchmarks", "tools")


@dataclass(frozen=True)
class Measured:
    """A figure's value, and the places that make it what it is."""

    value: float
    places: list[str]


class House:
    """The sources of one checkout; each figure reads what it needs."""

    @cached_property
    def package(self) -> list[Module]:
        return modules_below(PACKAGE)

    @cached_property
    def core(self) -> list[Module]:
        return [module for module in self.package if not module.is_plugin]

    @cached_property
    def plugins(self) -> list[Module]:
        return [module for module in self.package if module.is_plugin]

    @cached_property
    def tests(self) -> list[Module]:
        return modules_below(ROOT / "tests")

    @cached_property
    def helpers(self) -> list[Module]:
        return [module for folder in HELPERS for module in modules_below(ROOT / folder)]

    @cached_property
    def code_prose(self) -> list[prose.Prose]:
        return prose.code_prose(self.package)

    @cached_property
    def messages(self) -> list[prose.Prose]:
        return [text for module in self.package for text in prose.messages(module)]

    @cached_property
    def helper_prose(self) -> list[prose.Prose]:
        return list(prose.helper_prose(self.helpers))

    @cached_property
    def pages(self) -> list[prose.Prose]:
        return list(prose.pages())


@dataclass(frozen=True)
class Figure:
    key: str
    title: str
    measure: Callable[[House], Measured]
    digits: int = 0
    # Whether a larger value is better.
    rises: bool = False

    def is_worse(self, value: float, limit: float) -> bool:
        return value < limit if self.rises else value > limit

    def show(self, value: float | list[str] | None) -> str:
        match value:
            case None:
                return ""
            case list():
                return str(len(value))
        return f"{value:,.{self.digits}f}"


def count(places: Iterable[object]) -> Measured:
    shown = [str(place) for place in places]
    return Measured(len(shown), shown)


def percentage(places: list[str], total: int) -> Measured:
    return Measured(100 * len(places) / max(total, 1), places)


def code_lines(modules: Iterable[Module]) -> Measured:
    return Measured(sum(module.code_lines() for module in modules), [])


def arrows_to_plugins(core: Iterable[Module]) -> Measured:
    return count(
        f"{module.name}:{line} {name}"
        for module in core
        for line, name in module.imports()
        if re.match(r"scraper\.plugins(\.|$)", name)
    )


def largest_folder(modules: Iterable[Module]) -> Measured:
    folders = Counter(module.path.parent for module in modules)
    (folder, size), *_ = folders.most_common(1)
    return Measured(size, [str(folder.relative_to(ROOT))])


def long_functions(modules: Iterable[Module]) -> Measured:
    return count(
        f"{place}: {lines} lines"
        for module in modules
        for lines, place in module.function_lines()
        if lines > LONG_FUNCTION_LINES
    )


def marks_per_thousand(texts: list[prose.Prose]) -> Measured:
    places = [str(mark) for mark in prose.marks(texts)]
    return Measured(prose.per_thousand(len(places), texts), places)


def duplicated_classes(modules: Iterable[Module]) -> Measured:
    """Its places are names alone: the ratchet lists them."""
    return count(names.classes_by_name(modules))


def local_imports(modules: Iterable[Module]) -> Measured:
    return count(
        f"{module.name}:{line}" for module in modules for line in sorted(module.local_imports())
    )


FIGURES = (
    Figure("core_lines", "lines of code in the core", lambda house: code_lines(house.core)),
    Figure("plugin_lines", "lines of code in plug-ins", lambda house: code_lines(house.plugins)),
    Figure(
        "arrows_to_plugins",
        "imports of a plug-in by the core",
        lambda house: arrows_to_plugins(house.core),
    ),
    Figure(
        "largest_folder",
        "modules in the largest folder",
        lambda house: largest_folder(house.package),
    ),
    Figure(
        "long_functions",
        f"functions of more than {LONG_FUNCTION_LINES} lines of code",
        lambda house: long_functions(house.package),
    ),
    Figure(
        "marks_in_code",
        "marks in comments and docstrings",
        lambda house: count(prose.marks(house.code_prose)),
    ),
    Figure(
        "marks_in_messages",
        "marks in messages",
        lambda house: count(prose.marks(house.messages)),
    ),
    Figure(
        "marks_in_tests",
        "marks in tests and tools, and in the names of tests",
        lambda house: count(prose.marks(house.helper_prose)),
    ),
    Figure("marks_in_docs", "marks in docs", lambda house: count(prose.marks(house.pages))),
    Figure(
        "advice_in_code",
        "advice on comments, docstrings and messages",
        lambda house: count(prose.marks([*house.code_prose, *house.messages], "suggestion")),
    ),
    Figure(
        "advice_in_docs",
        "advice on docs",
        lambda house: count(prose.marks(house.pages, "suggestion")),
    ),
    Figure(
        "marks_in_code_per_1000",
        "marks in 1,000 words of comments and docstrings",
        lambda house: marks_per_thousand(house.code_prose),
        digits=1,
    ),
    Figure(
        "marks_in_messages_per_1000",
        "marks in 1,000 words of messages",
        lambda house: marks_per_thousand(house.messages),
        digits=1,
    ),
    Figure(
        "marks_in_tests_per_1000",
        "marks in 1,000 words of tests and tools",
        lambda house: marks_per_thousand(house.helper_prose),
        digits=1,
    ),
    Figure(
        "marks_in_docs_per_1000",
        "marks in 1,000 words of docs",
        lambda house: marks_per_thousand(house.pages),
        digits=1,
    ),
    Figure(
        "weak_openings_percent",
        "docstrings that open with neither verb nor noun, %",
        lambda house: percentage(*prose.weak_openings(house.package)),
        digits=1,
    ),
    Figure(
        "one_word_private_functions_percent",
        "private functions of one word, % of functions",
        lambda house: percentage(*names.private_functions_of_one_word(house.package)),
        digits=1,
    ),
    Figure(
        "mean_words_of_functions",
        "words in a function's name, mean",
        lambda house: Measured(names.mean_words(house.package), []),
        digits=2,
        rises=True,
    ),
    Figure(
        "duplicated_class_names",
        "class names of two or more classes",
        lambda house: duplicated_classes(house.package),
    ),
    Figure(
        "local_imports",
        "imports inside functions",
        lambda house: local_imports(house.package),
    ),
    Figure(
        "filler_names_percent",
        "filler among assigned names, %",
        lambda house: percentage(*names.filler_names(house.package)),
        digits=2,
    ),
    Figure(
        "filler_names_in_tests_percent",
        "filler among assigned names in tests, %",
        lambda house: percentage(*names.filler_names(house.tests)),
        digits=2,
    ),
    Figure(
        "imports_of_test_modules",
        "imports of test modules by other modules",
        lambda house: count(names.imports_of_test_modules(house.helpers)),
    ),
)


@cache
def ratchet() -> dict[str, float | list[str]]:
    """Reads the limits: numbers, or lists of the places that are still allowed."""
    content: dict[str, float | list[str]] = tomllib.loads(RATCHET.read_text())
    return content


def breaches(figure: Figure, measured: Measured) -> list[str]:
    """Returns what breaks a figure's limit: places that its list lacks, or all of its places."""
    match ratchet().get(figure.key):
        case None:
            return []
        case list(allowed):
            return sorted(set(measured.places) - set(allowed))
        case limit if figure.is_worse(measured.value, limit):
            return measured.places or [figure.show(measured.value)]
    return []


def slack(figure: Figure, measured: Measured) -> str | None:
    """Returns what to lower where a limit is more than a little looser than what is measured."""
    match ratchet().get(figure.key):
        case None:
            return None
        case list(allowed):
            is_loose = not set(allowed) <= set(measured.places)
        case limit:
            is_loose = abs(limit - measured.value) > SLACK_SHARE * limit
    if not is_loose or breaches(figure, measured):
        return None
    limit_shown = figure.show(ratchet()[figure.key])
    return (
        f"limit {figure.key} is {limit_shown}, measured {figure.show(measured.value)}:"
        " python -m tools.house --tighten"
    )


def tighten(house: House) -> list[str]:
    """Moves limits towards what is measured, and returns the keys of those that moved. The core's
    size has a fixed limit: features in between may make it larger."""
    text, moved = RATCHET.read_text(), []
    for figure in FIGURES:
        measured = figure.measure(house)
        fixed = figure.key == "core_lines"
        if fixed or figure.key not in ratchet() or breaches(figure, measured):
            continue
        changed = re.sub(
            rf"^{figure.key} = (\[.*?^\]|[^\[\n]*)$",
            f"{figure.key} = {tightest(figure, measured)}",
            text,
            flags=re.MULTILINE | re.DOTALL,
        )
        if changed != text:
            text = changed
            moved.append(figure.key)
    RATCHET.write_text(text)
    return moved


def tightest(figure: Figure, measured: Measured) -> str:
    """Returns the limit, as TOML, that what is measured just keeps."""
    if isinstance(ratchet()[figure.key], list):
        lines = "".join(f'  "{place}",\n' for place in measured.places)
        return f"[\n{lines}]"
    return f"{rounded_outwards(measured.value, figure):.{figure.digits}f}"


def rounded_outwards(value: float, figure: Figure) -> float:
    """Rounds to the figure's digits, never to a limit that the value itself would break."""
    unit = 10.0**-figure.digits
    steps = value // unit
    exact = abs(value - steps * unit) < unit * 1e-6
    return (steps if figure.rises or exact else steps + 1) * unit
