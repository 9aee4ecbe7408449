"""The reference of the Python API, made from signatures and docstrings."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
HEAD = """# Python API

These names are public: each change has a note in [Upgrading](../how-to/upgrading.md). Import them
from `scraper.api`. All other names are internal, except the [plug-in interface](plugins.md).
"""


class Part(NamedTuple):
    """A module, what it is for, and its public names."""

    module: str
    purpose: str
    names: tuple[str, ...]


PARTS = (
    Part(
        "scraper.api",
        "Exports the classes and errors below, and reads with the settings of the environment.",
        ("load_settings", "load_sites", "open_database", "read_changes", "follow_changes"),
    ),
    Part(
        "scraper.plugins.functions.client",
        "Runs your [functions on the workers](../how-to/functions.md#functions-on-the-workers).",
        ("Client", "Client.map", "Client.close", "Call", "Call.cancel", "Call.sent"),
    ),
    Part(
        "scraper.feed.reader",
        "Reads the [change feed](../how-to/exports.md#the-change-feed).",
        (
            "read", "follow", "Change", "Change.data", "Change.before", "Change.json",
            "ChangeReader", "ChangeReader.next", "ChangeReader.waits", "ChangeReader.close",
        ),
    ),
    Part("scraper.infra.database", "Connects to the database of the feed.", ("make_engine",)),
    Part(
        "scraper.sites.page",
        "The page that a [function of a site](../how-to/functions.md#functions-on-pages) gets.",
        ("Page", "Page.text", "Page.selector", "Page.json", "Page.follow"),
    ),
    Part("scraper.sites.loader", "Reads site definitions.", ("load_folder", "load_file")),
    Part("scraper.settings", "Reads the settings.", ("load",)),
    Part("scraper.domain", "What a function of a site yields.", ("Link", "Product", "Kind")),
    Part(
        "scraper.plugins.accounts.login.form",
        "The client of a [login function](../how-to/logins.md).",
        ("LoginClient", "LoginClient.get", "LoginClient.post", "LoginClient.cookie"),
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
# Your code is given these objects, and does not create them.
GIVEN = {"Call", "Page", "LoginClient", "TabPage"}
Function = ast.FunctionDef | ast.AsyncFunctionDef
Definition = Function | ast.ClassDef
LINE_MAX = 88


def python_page() -> str:
    return HEAD + "".join(f"\n{text}" for part in PARTS for text in part_texts(part))


def part_texts(part: Part) -> Iterator[str]:
    """Yields a module's heading, and an entry for each of its names."""
    source = ROOT.joinpath(*part.module.split(".")).with_suffix(".py").read_text()
    body = ast.parse(source).body
    yield f"## {part.module}\n\n{part.purpose}\n"
    for name in part.names:
        owner, _, member = name.partition(".")
        node = definition(body, owner)
        if not member:
            yield entry(name, node) + field_list(node, source.splitlines())
            continue
        assert isinstance(node, ast.ClassDef), name
        members = public_methods(node) if member == "*" else [member]
        for method in members:
            yield entry(f"{owner}.{method}", definition(node.body, method))


def public_methods(node: ast.ClassDef) -> list[str]:
    functions = [member.name for member in node.body if isinstance(member, Function)]
    return [name for name in functions if not name.startswith("_")]


def definition(body: list[ast.stmt], name: str) -> Definition:
    """Returns the last definition of a name, after its overloads."""
    found = [n for n in body if isinstance(n, ast.ClassDef | Function) and n.name == name]
    if not found:
        raise LookupError(f"there is no {name}: tools/docs/python_api.py lists the public names")
    return found[-1]


def entry(name: str, node: Definition) -> str:
    """Returns a heading, the signature and the docstring."""
    code, text = signature(name, node), docstring(node)
    parts = [f"### {name}", f"```python\n{code}\n```" if code else "", text]
    return "\n\n".join(part for part in parts if part) + "\n"


def field_list(node: Definition, lines: list[str]) -> str:
    """Returns the fields of a class that have a comment above them, as a list."""
    rows = []
    for member in node.body if isinstance(node, ast.ClassDef) else ():
        above = member.lineno - 2
        comment: list[str] = []
        while lines[above].strip().startswith("# "):
            comment.insert(0, lines[above].strip().removeprefix("# "))
            above -= 1
        if comment and isinstance(member, ast.AnnAssign):
            rows.append(f"- `{ast.unparse(member.target)}`: {' '.join(comment)}\n")
    return "\n" + "".join(rows) if rows else ""


def docstring(node: Definition) -> str:
    return inspect.cleandoc(ast.get_docstring(node) or "").replace("<", "&lt;")


def signature(name: str, node: Definition) -> str:
    """Returns how it is called, or what a property gives; an argument a line where it is long."""
    if isinstance(node, ast.ClassDef):
        texts, arrow = [] if name in GIVEN else constructor(node), ""
        if not texts:
            return ""
    else:
        if any("property" in ast.unparse(decorator) for decorator in node.decorator_list):
            return f"{name}: {ast.unparse(node.returns)}" if node.returns else name
        texts, arrow = parameters(node), f" -> {ast.unparse(node.returns)}" if node.returns else ""
        name = f"async {name}" if isinstance(node, ast.AsyncFunctionDef) else name
        if any(ast.unparse(decorator) == "classmethod" for decorator in node.decorator_list):
            name = f"@classmethod\n{name}"
    line = f"{name}({', '.join(texts)}){arrow}"
    if len(line) <= LINE_MAX:
        return line
    return f"{name}(\n" + "".join(f"    {text},\n" for text in texts) + f"){arrow}"


def constructor(node: ast.ClassDef) -> list[str]:
    """Returns the arguments that create an object: those of `__init__`, or a dataclass's fields."""
    for member in node.body:
        if isinstance(member, ast.FunctionDef) and member.name == "__init__":
            return parameters(member)
    fields = [ast.unparse(member) for member in node.body if isinstance(member, ast.AnnAssign)]
    return [text for text in fields if not text.startswith("_")]


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
