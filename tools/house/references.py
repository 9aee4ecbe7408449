"""Names of modules, files, functions and classes in prose, and whether they exist.

In comments and docstrings of the package, dotted names that begin with the package's, paths of
files, and dotted names between backticks must exist; in other Python files, in Markdown and in
configuration, the first two kinds. A dotted name may leave out its first parts:
`outages.is_broker_away`, `Outcome.phrase`.
"""

from __future__ import annotations

import ast
import importlib
import json
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from tools.house import prose
from tools.house.modules import FUNCTIONS, PACKAGE, ROOT, Module, is_module, modules_below

ABSOLUTE = re.compile(r"(?<![\w/.@-])scraper(?:\.[A-Za-z_]\w*)+(?![\w/-])")
PATH = re.compile(r"(?<![\w./{}$<>*:-])(?:[\w.-]+/)+[\w-]+\.(?:py|sql|lua)\b")
QUOTED = re.compile(r"`+([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+)(?:\([^`]*\))?`+")
CONFIGURATION = (
    *("pyproject.toml", "Makefile", "Dockerfile", "alembic.ini", "docker-compose.yml"),
    *("zensical.toml", ".pre-commit-config.yaml", ".ci/run", ".github/**/*.yml", "deploy/**/*"),
)
# `sites/NAME.py` is any such file.
PLACEHOLDER = re.compile(r"(?:^|/)[A-Z]+\.\w+$")
# The mark before a file of an example, which its test writes.
WRITTEN = re.compile(r"<!-- (?:file|plugin): .*? -->")
# Where the wheel puts what lies outside the package in a checkout.
SHIPPED = "scraper/shipped/"
# What looks like a name of the project and is data: an address, a queue, a path in a shop's JSON.
DATA = {
    *("awswaf.com", "offers.price", "pricing.current.value", "props.pageProps.apolloState"),
    *("residential.eu",),
}
# `scraper.toml` is a file, not a module.
FILES = {
    *("conf", "css", "env", "html", "js", "json", "jsonl", "lock", "md", "parquet", "service"),
    *("slice", "sock", "socket", "svg", "target", "timer", "toml", "yaml", "yml"),
}


@dataclass(frozen=True)
class Reference:
    """A name in a text; `module` is the one in whose prose it is, if in the package's."""

    place: str
    name: str
    module: Module | None

    def __str__(self) -> str:
        return f"{self.place} {self.name}"


class Names:
    """What can be named: files, modules, what they define, members of classes, keys of YAML."""

    def __init__(self) -> None:
        self.modules = {dotted(module): module for module in modules_below(PACKAGE)}
        self.members = defaultdict[str, set[str]](set)
        self.attributes = set[str]()
        for module in self.modules.values():
            self._add_members(module)
        self._defined: dict[str, set[str]] = {}

    def _add_members(self, module: Module) -> None:
        for node in module.classes:
            names = set(bound_names(node.body)) | {
                target.attr
                for target in ast.walk(node)
                if isinstance(target, ast.Attribute) and isinstance(target.ctx, ast.Store)
            }
            self.members[node.name] |= names
            if table := table_name(node):
                self.members[table] |= names
        self.attributes.update(
            node.attr for node in module.nodes if isinstance(node, ast.Attribute)
        )

    @cached_property
    def files(self) -> set[str]:
        """The paths of all files, from each of their folders on."""
        listed = subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        ).stdout.split("\n")
        paths = [Path(line) for line in listed if line and (ROOT / line).exists()]
        return {"/".join(path.parts[index:]) for path in paths for index in range(len(path.parts))}

    @cached_property
    def keys(self) -> set[str]:
        """The names of keys in definitions."""
        keys: set[str] = set()
        remaining = [json.loads((ROOT / "sites" / "schema.json").read_text())]
        while remaining:
            value = remaining.pop()
            if isinstance(value, dict):
                keys.update(value.get("properties", ()))
                remaining.extend(value.values())
            elif isinstance(value, list):
                remaining.extend(value)
        return keys

    def exists(self, reference: Reference) -> bool:
        name = reference.name
        parts = name.split(".")
        if name in DATA or name.startswith(SHIPPED) or PLACEHOLDER.search(name):
            return True
        if "/" in name:
            return re.sub(r"^(\.\.?/)+", "", name) in self.files
        if parts[-1] == "py":
            return name in self.files
        if parts[-1] in FILES:
            return True
        if parts[0] == "scraper":
            return self._is_defined(parts)
        return (
            self._ends_a_module(parts)
            or self._is_member(parts)
            or (reference.module is not None and self._is_variable(parts, reference.module))
            or set(parts) <= self.keys
            or is_importable(parts)
        )

    def _is_defined(self, parts: list[str]) -> bool:
        """Whether the first parts are a module, and the others are defined in it."""
        for length in range(len(parts), 0, -1):
            if module := self.modules.get(".".join(parts[:length])):
                rest = parts[length:]
                return not rest or (
                    rest[0] in self._names_defined_in(module)
                    and (len(rest) == 1 or self._is_member(rest) or rest[0] not in self.members)
                )
        return False

    def _ends_a_module(self, parts: list[str]) -> bool:
        return any(
            name.endswith(f".{'.'.join(parts[:length])}")
            and self._is_defined([*name.split("."), *parts[length:]])
            for length in range(len(parts), 0, -1)
            for name in self.modules
        )

    def _is_member(self, parts: list[str]) -> bool:
        """Whether a class, a table or an instance named by its class has that member."""
        *_, owner, member = parts
        classes = (owner, "".join(word.title() for word in owner.split("_")))
        return any(member in self.members.get(name, ()) for name in classes)

    def _is_variable(self, parts: list[str], module: Module) -> bool:
        """Whether the first part is a variable or an import of that module, and the last one an
        attribute of some class, or of the module imported."""
        if target := imported_modules(module).get(parts[0]):
            return self._is_defined([*target.split("."), *parts[1:]])
        return parts[0] in used_names(module) and parts[-1] in self.attributes

    def _names_defined_in(self, module: Module) -> set[str]:
        if module.name not in self._defined:
            self._defined[module.name] = set(bound_names(module.tree.body))
        return self._defined[module.name]


def dotted(module: Module) -> str:
    return module.name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


@cache
def imported_modules(module: Module) -> dict[str, str]:
    """Returns the modules of the package that a module imports, by the names that it uses."""
    return {
        alias.asname or alias.name: target
        for node in module.nodes
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if is_module(target := f"{node.module}.{alias.name}")
    }


@cache
def used_names(module: Module) -> set[str]:
    """Returns the names of a module's variables, parameters and attributes."""
    names = set()
    for node in module.nodes:
        match node:
            case ast.Name(id=name) | ast.arg(arg=name) | ast.Attribute(attr=name):
                names.add(name)
    return names


def table_name(node: ast.ClassDef) -> str | None:
    """Returns the table of a class of the object-relational mapper."""
    for statement in node.body:
        match statement:
            case ast.Assign(
                targets=[ast.Name(id="__tablename__")], value=ast.Constant(value=str() as name)
            ):
                return name
    return None


def bound_names(body: Iterable[ast.stmt]) -> Iterator[str]:
    """Yields the names that statements of a module or class define, also below `if` and `try`."""
    for statement in body:
        if isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
            yield statement.name
        elif isinstance(statement, (ast.Import, ast.ImportFrom)):
            yield from (alias.asname or alias.name.partition(".")[0] for alias in statement.names)
        else:
            yield from (
                node.id
                for node in ast.walk(statement)
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
            )
            for block in ("body", "orelse", "handlers", "finalbody"):
                yield from bound_names(
                    node for node in getattr(statement, block, ()) if isinstance(node, ast.stmt)
                )


def is_importable(parts: list[str]) -> bool:
    """Whether the name is one of the standard library's or of an installed package's."""
    for length in range(len(parts), 0, -1):
        try:
            value = importlib.import_module(".".join(parts[:length]))
        except ImportError:
            continue
        for part in parts[length:]:
            if not hasattr(value, part):
                return False
            value = getattr(value, part)
        return True
    return False


def in_text(name: str, line: int, text: str, patterns: Iterable[re.Pattern[str]]) -> Iterator[str]:
    for pattern in patterns:
        for match in pattern.finditer(text):
            at = line + text.count("\n", 0, match.start())
            yield f"{name}:{at} {match[pattern.groups]}"


def references() -> Iterator[Reference]:
    """Yields every name in prose that can be checked, once a line."""
    for module in modules_below(PACKAGE):
        comments = prose.comments(module.tokens)
        yield from in_module(module, comments, (ABSOLUTE, PATH, QUOTED), module)
    for folder in ("tests", "benchmarks", "tools"):
        for module in modules_below(ROOT / folder):
            comments = prose.comments_by_line(module)
            yield from in_module(module, comments, (ABSOLUTE, PATH), None)
    pages = {path for pattern in prose.PAGES for path in ROOT.glob(pattern)}
    configuration = {path for pattern in CONFIGURATION for path in ROOT.glob(pattern)}
    for path in sorted(pages | {path for path in configuration if path.is_file()}):
        text = WRITTEN.sub("", path.read_text(errors="replace"))
        yield from split(in_text(str(path.relative_to(ROOT)), 1, text, (ABSOLUTE, PATH)), None)


def in_module(
    module: Module,
    comments: Iterable[tuple[int, str]],
    patterns: Iterable[re.Pattern[str]],
    scope: Module | None,
) -> Iterator[Reference]:
    docstrings = ((constant.lineno, str(constant.value)) for constant in module.docstrings)
    for line, text in (*docstrings, *comments):
        yield from split(in_text(module.name, line, text, patterns), scope)


def split(places: Iterable[str], scope: Module | None) -> Iterator[Reference]:
    for place in dict.fromkeys(places):
        where, _, name = place.partition(" ")
        yield Reference(where, name, scope)


def missing(names: Names) -> list[Reference]:
    return [reference for reference in references() if not names.exists(reference)]
