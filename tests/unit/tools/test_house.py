"""The repository's own rules: small folders, plain words, whole sentences, lines that fit a screen.

Each failure lists the places. Figures have their limits in house_ratchet.toml.
"""

from __future__ import annotations

import ast
import re
import tokenize
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import pytest

from tools.house.figures import FIGURES, Figure, House, breaches, ratchet, slack
from tools.house.modules import FUNCTIONS, PACKAGE, Module, modules_below
from tools.house.references import Names, missing

ROOT_MODULES_MAX = 13
COLUMNS = 100
WIDE_SHARE = 0.01
SHOWN_PLACES = 60
# Names that several folders have, each for its own part of the same thing: what the command line
# shows, what the tables hold, what a site's definition says.
REPEATED = {
    *("__init__", "__main__", "archive", "context", "counters", "crawls", "database", "dedup"),
    *("faults",),
    *("file", "fleet", "functions", "hosts", "login", "page", "pages", "policy", "pool"),
    *("postgres", "process", "products", "progress", "proxied_transport", "proxies", "quality"),
    *("reader", "replay", "report", "revisit", "rows", "run", "servers", "sites", "sources"),
    *("status", "store", "transport"),
}
# Participles that no ending makes.
IRREGULAR = {
    "find": "found", "get": "got", "give": "given", "hear": "heard", "hold": "held", "keep": "kept",
    "lead": "led", "make": "made", "put": "put", "read": "read", "say": "said", "see": "seen",
    "send": "sent", "show": "shown", "take": "taken", "tell": "told", "write": "written",
}  # fmt: skip
VERB = re.compile(r"_*([a-z]+)((?:_[a-z0-9]+)*)$")
pytestmark = pytest.mark.parses
MODULES = modules_below(PACKAGE)
# What a comment may begin with: a capital, a number, something quoted, or a word of code.
BEGINS = re.compile(r"""["'`(<\[{/$%*§+-]|\W*[A-Z0-9]|\S*[_.=(:/@-]\S*|https?:""")
ENDS = re.compile(r"""[.:?!…]["'`)]*$""")
# Addressed to tools, or a line between two parts of a file.
DIRECTIVE = re.compile(r"(fmt|type|noqa|ruff|mypy|pragma|!)\b|-{3}|!")


@dataclass(frozen=True)
class Comment:
    """Lines of comment that follow each other, with only blanks before them."""

    line: int
    text: str

    @property
    def is_sentence(self) -> bool:
        return bool(BEGINS.match(self.text) and ENDS.search(self.text))


def comments_of(module: Module) -> Iterator[Comment]:
    alone = [
        (token.start[0], token.string.lstrip("#").strip())
        for token in module.tokens
        if token.type == tokenize.COMMENT and token.line.strip().startswith("#")
    ]
    lines = [(line, text) for line, text in alone if not DIRECTIVE.match(text)]
    first = 0
    for index, (before, after) in enumerate(pairwise([*lines, (-1, "")]), 1):
        if after[0] != before[0] + 1:
            block = lines[first:index]
            yield Comment(block[0][0], " ".join(text for _, text in block).strip())
            first = index


def scopes(module: Module) -> Iterator[set[str]]:
    """The names of its functions, and of each of its classes' methods; no properties."""
    for node in (module.tree, *module.classes):
        yield {
            child.name
            for child in node.body
            if isinstance(child, FUNCTIONS)
            and not any("property" in ast.unparse(by) for by in child.decorator_list)
        }


def participles(verb: str) -> set[str]:
    regular = {f"{verb}ed", f"{verb}d", f"{verb}{verb[-1]}ed"}
    if verb.endswith("y"):
        regular.add(f"{verb[:-1]}ied")
    return regular | ({IRREGULAR[verb]} if verb in IRREGULAR else set()) - {verb}


@pytest.fixture(scope="module")
def house() -> House:
    return House()


@pytest.mark.parametrize(
    "figure",
    [figure for figure in FIGURES if figure.key in ratchet()],
    ids=lambda figure: figure.key,
)
def test_a_figure_is_within_its_limit(figure: Figure, house: House) -> None:
    """Limits are in house_ratchet.toml; `python -m tools.house KEY` lists the places."""
    measured = figure.measure(house)
    broken = breaches(figure, measured)
    limit = figure.show(ratchet()[figure.key])
    summary = f"{figure.title}: {figure.show(measured.value)}, limit {limit}"
    assert not broken, "\n".join([summary, *broken[:SHOWN_PLACES]])
    if advice := slack(figure, measured):
        warnings.warn(advice, stacklevel=1)


def test_names_in_prose_exist() -> None:
    """Modules, functions, classes and files that comments, docs and configuration speak of."""
    absent = [str(reference) for reference in missing(Names())]
    assert not absent, "\n".join(absent)


def test_every_limit_has_a_figure() -> None:
    assert ratchet().keys() <= {figure.key for figure in FIGURES}


def test_the_root_folder_is_small() -> None:
    modules = Counter(module.path.parent for module in MODULES)
    assert modules[PACKAGE] <= ROOT_MODULES_MAX


def test_a_module_has_a_name_of_its_own() -> None:
    """Plug-ins are apart: each has a `keys.py` or a `commands.py` of its own."""
    names = defaultdict(list)
    for module in MODULES:
        if not module.is_plugin:
            names[module.path.stem].append(module.name)
    assert not {stem: at for stem, at in names.items() if len(at) > 1 and stem not in REPEATED}


def test_lines_fit_a_screen() -> None:
    wide = [
        f"{module.name}:{number}"
        for module in MODULES
        for number, line in enumerate(module.lines, 1)
        if len(line) > COLUMNS
    ]
    assert len(wide) < WIDE_SHARE * sum(len(module.lines) for module in MODULES), "\n".join(wide)


def test_no_two_steps_are_a_verb_and_its_participle() -> None:
    """`_try` and `_tried` do not say what the second one does."""
    pairs = {
        f"{module.name.removeprefix('scraper/')}: {name}, {second}"
        for module in MODULES
        for functions in scopes(module)
        for name in functions
        if (parts := VERB.match(name))
        for participle in participles(parts[1])
        for second in functions & {f"{participle}{parts[2]}", f"_{participle}{parts[2]}"}
    }
    assert not pairs


def test_comments_are_sentences() -> None:
    comments = [(module.name, comment) for module in MODULES for comment in comments_of(module)]
    fragments = [
        f"{name}:{comment.line} {comment.text[:100]}"
        for name, comment in comments
        if not comment.is_sentence
    ]
    assert not fragments, "\n".join(fragments)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("The host rests.", True),
        ("`now` is the server's.", True),
        ("max_age: in seconds.", True),
        ("of this process", False),
        ("The host rests", False),
        ("the host rests.", False),
    ],
)
def test_what_a_sentence_is(text: str, sentence: bool) -> None:
    assert Comment(1, text).is_sentence == sentence


def test_what_a_participle_is() -> None:
    assert {"tried", "acquired", "looked", "stopped"} <= (
        participles("try") | participles("acquire") | participles("look") | participles("stop")
    )
    assert participles("tell") >= {"told"} and "read" not in participles("read")
