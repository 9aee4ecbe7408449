"""The reference of the Python API, made from signatures and docstrings."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
HEAD = """# Python API

These names are public: each change has a note in [Upgrading](../how-to/upgrading.md). All other
names are internal.
"""


class Part(NamedTuple):
    """A module, what it is for, and its public names."""

    module: str
    purpose: str
    names: tuple[str, ...]


PARTS = (
    Part(
        "scraper.plugins.functions.client",
        "Runs your [functions on the workers](../how-to/functions.md#functions-on-the-workers).",
        ("Client", "Call"),
    ),
    Part(
        "scraper.feed.reader",
        "Reads the [change feed](../how-to/exports.md#the-change-feed).",
        ("read", "follow", "Change", "ChangeReader"),
    ),
    Part("scraper.infra.database", "Connects to the database of the feed.", ("make_engine",)),
    Part(
        "scraper.sites.page",
        "The page that a [function of a site](../how-to/functions.md#functions-on-pages) gets.",
        ("Page",),
    ),
    Part("scraper.domain", "What a function of a site yields.", ("Link", "Product", "Kind")),
    Part(
        "scraper.plugins.accounts.form",
        "The client of a [login function](../how-to/logins.md).",
        ("LoginClient",),
    ),
    Part("scraper.plugins.accounts.file", "The account of a login function.", ("Account",)),
    Part(
        "scraper.errors",
        "The exceptions of these names, each with an [exit code](commands.md#exit-codes).",
        (
            "ScraperError", "CallError", "CallTimeoutError", "FunctionRefusedError", "CursorError",
            "NotFoundError", "ServerUnavailableError",
        ),
    ),
)  # fmt: skip


Function = ast.FunctionDef | ast.AsyncFunctionDef
Definition = Function | ast.ClassDef
LINE_MAX = 88


def python_page() -> str:
    return HEAD + "".join(f"\n{text}" for part in PARTS for text in part_texts(part))


def part_texts(part: Part) -> Iterator[str]:
    """Yields a module's heading, and an entry for each of its names and their public methods."""
    path = ROOT.joinpath(*part.module.split(".")).with_suffix(".py")
    definitions = {
        node.name: node
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef | Function)
    }
    yield f"## {part.module}\n\n{part.purpose}\n"
    for name in part.names:
        yield entry(name, definitions[name])
        if isinstance(definitions[name], ast.ClassDef):
            for node in definitions[name].body:
                if isinstance(node, Function) and is_public(node):
                    yield entry(f"{name}.{node.name}", node)


def is_public(node: Function) -> bool:
    decorators = {ast.unparse(decorator) for decorator in node.decorator_list}
    return not node.name.startswith("_") and "overload" not in decorators and bool(docstring(node))


def entry(name: str, node: Definition) -> str:
    """Returns a heading, the signature and the docstring."""
    text = docstring(node)
    return f"### {name}\n\n```python\n{signature(name, node)}\n```\n" + (
        f"\n{text}\n" if text else ""
    )


def docstring(node: Definition) -> str:
    return inspect.cleandoc(ast.get_docstring(node) or "").replace("<", "&lt;")


def signature(name: str, node: Definition) -> str:
    """Returns how it is called, or what a property gives; an argument a line where it is long."""
    if isinstance(node, ast.ClassDef):
        texts, arrow = constructor(node), ""
    else:
        if any("property" in ast.unparse(decorator) for decorator in node.decorator_list):
            return f"{name}: {ast.unparse(node.returns)}" if node.returns else name
        texts, arrow = parameters(node), f" -> {ast.unparse(node.returns)}" if node.returns else ""
        name = f"async {name}" if isinstance(node, ast.AsyncFunctionDef) else name
    line = f"{name}({', '.join(texts)}){arrow}"
    if len(line) <= LINE_MAX:
        return line
    return f"{name}(\n" + "".join(f"    {text},\n" for text in texts) + f"){arrow}"


def constructor(node: ast.ClassDef) -> list[str]:
    """Returns the arguments that create an object: those of `__init__`, or a dataclass's fields."""
    for member in node.body:
        if isinstance(member, ast.FunctionDef) and member.name == "__init__":
            return parameters(member)
    return [
        ast.unparse(member)
        for member in node.body
        if isinstance(member, ast.AnnAssign) and not ast.unparse(member.target).startswith("_")
    ]


def parameters(node: Function) -> list[str]:
    """Returns the arguments without `self`, as they are written."""
    arguments = node.args
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(positional) - len(arguments.defaults)) + list(arguments.defaults)
    texts = [
        parameter(argument, default)
        for argument, default in zip(positional, defaults, strict=True)
        if argument.arg not in ("self", "cls")
    ]
    if arguments.vararg is not None:
        texts.append(f"*{ast.unparse(arguments.vararg)}")
    elif arguments.kwonlyargs:
        texts.append("*")
    texts += [
        parameter(argument, default)
        for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    ]
    if arguments.kwarg is not None:
        texts.append(f"**{ast.unparse(arguments.kwarg)}")
    return texts


def parameter(argument: ast.arg, default: ast.expr | None) -> str:
    if default is None:
        return ast.unparse(argument)
    equals = " = " if argument.annotation else "="
    return f"{ast.unparse(argument)}{equals}{ast.unparse(default)}"
