"""What keeps the house a place where strangers find their way: small folders, plain words, whole
sentences, lines that fit a screen. Each failure lists the places."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER_MODULES_MAX = 15
ROOT_MODULES_MAX = 10
COLUMNS = 100
WIDE_SHARE = 0.01
FILLER_SHARE = 0.005
# This goes down as rooms are cleaned, and never up: to 60.
LOCAL_IMPORTS_MAX = 87
# Words that say nothing of what they stand for.
FILLER = {
    *("found", "one", "each", "known", "told", "said", "some", "what", "made"),
    *("out", "here", "there", "such", "many", "most"),
}
# Names that several folders have, each for its own part of the same thing: what the command line
# shows, what the tables hold, what a site's definition says of it.
REPEATED = {
    *(
        "__init__",
        "__main__",
        "database",
        "archive",
        "context",
        "counters",
        "crawls",
        "dedup",
        "faults",
    ),
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
# What a comment may begin with: a capital, a number, something quoted, or a word of code.
BEGINS = re.compile(r"""["'`(<\[{/$%*§+-]|\W*[A-Z0-9]|\S*[_.=(:/@-]\S*|https?:""")
ENDS = re.compile(r"""[.:?!…]["'`)]*$""")
# Addressed to tools, or a line between two parts of a file.
DIRECTIVE = re.compile(r"(fmt|type|noqa|ruff|mypy|pragma|!)\b|-{3}|!")


@dataclass(frozen=True)
class Comment:
    """Lines of comment that follow each other, with nothing but blanks before them."""

    line: int
    text: str

    @property
    def is_sentence(self) -> bool:
        return bool(BEGINS.match(self.text) and ENDS.search(self.text))


@dataclass(frozen=True)
class Module:
    path: Path

    @property
    def name(self) -> str:
        return str(self.path.relative_to(ROOT))

    @cached_property
    def text(self) -> str:
        return self.path.read_text()

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    def comments(self) -> Iterator[Comment]:
        alone = [
            (token.start[0], token.string.lstrip("#").strip())
            for token in tokenize.generate_tokens(io.StringIO(self.text).readline)
            if token.type == tokenize.COMMENT and token.line.strip().startswith("#")
        ]
        lines = [(line, text) for line, text in alone if not DIRECTIVE.match(text)]
        first = 0
        for index, (before, after) in enumerate(pairwise([*lines, (-1, "")]), 1):
            if after[0] != before[0] + 1:
                block = lines[first:index]
                yield Comment(block[0][0], " ".join(text for _, text in block).strip())
                first = index

    def scopes(self) -> Iterator[set[str]]:
        """The names of its functions, and of each of its classes' methods; no properties."""
        classes = [node for node in ast.walk(self.tree) if isinstance(node, ast.ClassDef)]
        for node in (self.tree, *classes):
            yield {
                child.name
                for child in node.body
                if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef))
                and not any("property" in ast.unparse(by) for by in child.decorator_list)
            }


MODULES = [Module(path) for path in sorted((ROOT / "scraper").rglob("*.py"))]


def participles(verb: str) -> set[str]:
    regular = {f"{verb}ed", f"{verb}d", f"{verb}{verb[-1]}ed"}
    if verb.endswith("y"):
        regular.add(f"{verb[:-1]}ied")
    return regular | ({IRREGULAR[verb]} if verb in IRREGULAR else set()) - {verb}


def local_imports(module: Module) -> list[int]:
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [
        node.lineno
        for function in ast.walk(module.tree)
        if isinstance(function, functions)
        for node in ast.walk(function)
        if isinstance(node, (ast.Import, ast.ImportFrom))
    ]


def test_folders_are_small() -> None:
    modules = Counter(module.path.parent for module in MODULES)
    large = {
        str(folder.relative_to(ROOT)): n for folder, n in modules.items() if n > FOLDER_MODULES_MAX
    }
    assert not large
    assert modules[ROOT / "scraper"] <= ROOT_MODULES_MAX


def test_a_module_has_a_name_of_its_own() -> None:
    """A plug-in is a small house of its own: `plugins/dedup/keys.py`."""
    names = defaultdict(list)
    for module in MODULES:
        if "plugins" in module.path.parts:
            continue
        names[module.path.stem].append(module.name)
    assert not {stem: at for stem, at in names.items() if len(at) > 1 and stem not in REPEATED}


def test_variables_say_what_they_are() -> None:
    assigned = [
        (node.id.strip("_"), f"{module.name}:{node.lineno} {node.id}")
        for module in MODULES
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    ]
    filler = [place for name, place in assigned if name in FILLER]
    assert len(filler) < FILLER_SHARE * len(assigned), "\n".join(filler)


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
        for functions in module.scopes()
        for name in functions
        if (parts := VERB.match(name))
        for participle in participles(parts[1])
        for second in functions & {f"{participle}{parts[2]}", f"_{participle}{parts[2]}"}
    }
    assert not pairs


def test_comments_are_sentences() -> None:
    comments = [(module.name, comment) for module in MODULES for comment in module.comments()]
    fragments = [
        f"{name}:{comment.line} {comment.text[:100]}"
        for name, comment in comments
        if not comment.is_sentence
    ]
    assert not fragments, "\n".join(fragments)


def test_imports_stand_at_the_top() -> None:
    """A few do not, for start-up's sake or an extra's that may be missing."""
    places = [f"{module.name}:{line}" for module in MODULES for line in set(local_imports(module))]
    assert len(places) <= LOCAL_IMPORTS_MAX, "\n".join(sorted(places))


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
