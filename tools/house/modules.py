"""The Python modules of a checkout, parsed once, as the house rules look at them."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "scraper"
PLUGINS = PACKAGE / "plugins"
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
# Tokens that are layout, not code.
LAYOUT = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    *(tokenize.ENCODING, tokenize.ENDMARKER),
}


@dataclass(frozen=True)
class Module:
    path: Path

    @property
    def name(self) -> str:
        return str(self.path.relative_to(ROOT))

    @property
    def is_plugin(self) -> bool:
        return self.path.is_relative_to(PLUGINS)

    @cached_property
    def text(self) -> str:
        return self.path.read_text()

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return list(ast.walk(self.tree))

    @cached_property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @cached_property
    def tokens(self) -> list[tokenize.TokenInfo]:
        return list(tokenize.generate_tokens(io.StringIO(self.text).readline))

    @cached_property
    def docstrings(self) -> list[ast.Constant]:
        """The docstrings, and the strings that document an attribute below it."""
        expressions = (node.value for node in self.nodes if isinstance(node, ast.Expr))
        return [
            value
            for value in expressions
            if isinstance(value, ast.Constant) and isinstance(value.value, str)
        ]

    @cached_property
    def functions(self) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
        return [node for node in self.nodes if isinstance(node, FUNCTIONS)]

    @cached_property
    def classes(self) -> list[ast.ClassDef]:
        return [node for node in self.nodes if isinstance(node, ast.ClassDef)]

    def imports(self) -> Iterator[tuple[int, str]]:
        """Yields the line and the module of each import; of `from a import b` both `a` and `a.b`
        are candidates, and `b` counts as a module where a file of that name exists."""
        for node in self.nodes:
            if isinstance(node, ast.Import):
                yield from ((node.lineno, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                submodules = {
                    f"{node.module}.{alias.name}"
                    for alias in node.names
                    if is_module(f"{node.module}.{alias.name}")
                }
                yield from ((node.lineno, name) for name in submodules or {node.module})

    def local_imports(self) -> set[int]:
        """Returns the lines of imports inside functions."""
        return {
            node.lineno
            for function in self.functions
            for node in ast.walk(function)
            if isinstance(node, (ast.Import, ast.ImportFrom))
        }

    def code_lines(self) -> int:
        """Counts lines with code: neither blank, nor a comment, nor a docstring."""
        return len(self.code)

    @cached_property
    def code(self) -> frozenset[int]:
        """The numbers of the lines with code."""
        documented = {
            line
            for constant in self.docstrings
            for line in range(constant.lineno, (constant.end_lineno or constant.lineno) + 1)
        }
        code = {
            line
            for token in self.tokens
            if token.type not in LAYOUT
            for line in range(token.start[0], token.end[0] + 1)
        }
        return frozenset(code - documented)

    def function_lines(self) -> Iterator[tuple[int, str]]:
        """Yields the lines of code of each function, and its place."""
        for function in self.functions:
            span = range(function.lineno, (function.end_lineno or function.lineno) + 1)
            place = f"{self.name}:{function.lineno} {function.name}"
            yield len(self.code.intersection(span)), place


def is_module(name: str) -> bool:
    path = ROOT / name.replace(".", "/")
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


@cache
def modules_below(folder: Path) -> list[Module]:
    """Returns the same modules each time: parsing them is what takes time."""
    paths = sorted(folder.rglob("*.py"))
    # The benchmarks' peers are installed into a .venv next to them.
    return [Module(path) for path in paths if not {"migrations", ".venv"} & set(path.parts)]
