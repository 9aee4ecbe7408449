"""Imports a site's own Python functions by name: `module:function`. This is the only module that
imports a user's code, also for functions called from outside
(`scraper.plugins.functions.worker.allowed_functions`).

Definitions are data: loading one imports nothing, and a module is imported only if the operator
allows it (`SCRAPER_SITE_FUNCTIONS`). `scraper sites check` calls `check_functions`, a worker calls
`resolve_function`.
"""

from __future__ import annotations

import difflib
import inspect
import sys
import types
from collections.abc import Callable, Collection, Iterable
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

from scraper.registry import plugin_hooks
from scraper.sites.definition import Site
from scraper.sites.page import Page

PageFunction = Callable[[Page], Iterable[Any] | None]


def import_user_module(name: str) -> types.ModuleType:
    """Imports a module. Raises only `ImportError`, with a fix, whatever the module raises."""
    try:
        return import_module(name)
    except Exception as error:
        raise ImportError(
            f"cannot import {name!r}: {type(error).__name__}: {str(error)[:300]} (fix: a module "
            "that Python finds from the folder where the command or worker runs; try "
            f"`python -c 'import {name}'`)"
        ) from error


def explain_missing_function(module: types.ModuleType, name: str) -> str:
    """Returns the message for a missing function, with a fix."""
    near = difflib.get_close_matches(name, vars(module), 1)
    hint = f"did you mean {near[0]!r}?" if near else "define it, or correct its name"
    return f"{module.__name__!r} has no function {name!r} (fix: {hint})"


def resolve_function(name: str, allowed: Collection[str]) -> Callable[..., Any]:
    """Returns the function `module:function`, if its module is `allowed` and defines it. Raises
    `ImportError` with a fix."""
    reason = explain_refusal(name, allowed)
    if reason is not None:
        raise ImportError(reason)
    module_name, _, attribute = name.partition(":")
    module = import_user_module(module_name)
    function = getattr(module, attribute, None)
    if not callable(function):
        raise ImportError(explain_missing_function(module, attribute))
    if getattr(function, "__module__", None) != module_name:
        raise ImportError(
            f"{name!r} is not defined in {module_name!r} but imported there (fix: name the module "
            "that defines it, and allow it)"
        )
    return function  # type: ignore[no-any-return]


def explain_refusal(name: str, allowed: Collection[str]) -> str | None:
    """Returns why the module of `module:function` may not be imported, or None."""
    module_name = name.partition(":")[0]
    if module_name in allowed:
        return None
    listed = ", ".join(sorted(allowed)) or "none"
    return (
        f"{module_name!r} may not be imported: SCRAPER_SITE_FUNCTIONS allows {listed} "
        f"(fix: read its code, then SCRAPER_SITE_FUNCTIONS={','.join([*allowed, module_name])} "
        "for commands, coordinators and workers alike)"
    )


def list_functions(site: Site) -> dict[str, str]:
    """Returns the functions that a definition names, by their keys."""
    functions = {
        "product.function": site.product.function,
        "listing.function": site.listing.function if site.listing else None,
    }
    for hooks in plugin_hooks().values():
        functions |= hooks.named_functions(site)
    return {key: name for key, name in functions.items() if name is not None}


# Cached, because this process keeps running the imported code when the file changes.
@lru_cache(maxsize=256)
def read_function_source(name: str, allowed: tuple[str, ...]) -> str | None:
    """Returns the text of the file that defines a function, or None if it has no file or the
    module cannot be imported. Does not include the modules that the file imports."""
    try:
        file = inspect.getsourcefile(sys.modules[resolve_function(name, allowed).__module__])
        return Path(file).read_text(encoding="utf-8") if file else None
    except (ImportError, KeyError, AttributeError, TypeError, OSError, UnicodeDecodeError):
        return None


def check_functions(site: Site, allowed: Collection[str]) -> list[tuple[str, str]]:
    """Imports the site's functions. Returns (key, sentence) for each that fails, except for
    functions of a disabled site that are not allowed yet."""
    problems = []
    for key, name in list_functions(site).items():
        if not site.enabled and explain_refusal(name, allowed) is not None:
            continue
        try:
            resolve_function(name, allowed)
        except ImportError as error:
            problems.append((key, str(error)))
    return problems
