"""Figures about names: functions, classes, assigned variables."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator

from tools.house.modules import Module

# Words that say nothing about what a variable holds.
FILLER = {
    *("found", "one", "each", "known", "told", "said", "some", "what", "made"),
    *("out", "here", "there", "such", "many", "most"),
}


def assigned_names(modules: Iterable[Module]) -> Iterator[tuple[str, str]]:
    """Yields each assigned name without its underscores, and where it is assigned."""
    for module in modules:
        for node in module.nodes:
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id.strip("_"), f"{module.name}:{node.lineno} {node.id}"


def filler_names(modules: Iterable[Module]) -> tuple[list[str], int]:
    """Returns the places of filler names, and the number of all assigned names."""
    names = list(assigned_names(modules))
    return [place for name, place in names if name in FILLER], len(names)


def function_names(modules: Iterable[Module]) -> Iterator[tuple[str, str]]:
    """Yields each function's name and place; dunder methods are named by Python."""
    for module in modules:
        for function in module.functions:
            if not function.name.startswith("__") and function.name.strip("_"):
                yield function.name, f"{module.name}:{function.lineno} {function.name}"


def words(name: str) -> int:
    return len(name.strip("_").split("_"))


def mean_words(modules: Iterable[Module]) -> float:
    counts = [words(name) for name, _ in function_names(modules)]
    return sum(counts) / len(counts)


def private_functions_of_one_word(modules: Iterable[Module]) -> tuple[list[str], int]:
    """Returns the places of private functions named by one word, and the number of functions."""
    functions = list(function_names(modules))
    places = [place for name, place in functions if name.startswith("_") and words(name) == 1]
    return places, len(functions)


def classes_by_name(modules: Iterable[Module]) -> dict[str, list[str]]:
    """Returns the places of each class name that two or more classes have, underscores aside."""
    places = defaultdict(list)
    for module in modules:
        for node in module.classes:
            places[node.name.strip("_")].append(f"{module.name}:{node.lineno}")
    return {name: where for name, where in sorted(places.items()) if len(where) > 1}


def imports_of_test_modules(modules: Iterable[Module]) -> list[str]:
    """Returns the imports of a `test_*` module by another module: a helper hides in that test."""
    return sorted(
        f"{module.name}:{line} {name}"
        for module in modules
        for line, name in module.imports()
        if any(part.startswith("test_") for part in name.split("."))
    )
