"""A site's own Python functions, imported by name: `module:function`. The only module that imports
a user's code, also for functions that are called from outside
(`scraper.plugins.functions.functions`).

Loading a definition imports nothing, and nothing else imports a module that the operator has not
allowed (`SCRAPER_SITE_FUNCTIONS`), for definitions are data. `check_functions` is what `scraper
sites check` calls, `resolve_function` what a worker calls.
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

from scraper.sites.definition import Site
from scraper.sites.page import Page

PageFunction = Callable[[Page], Iterable[Any] | None]


def import_user_module(name: str) -> types.ModuleType:
    """Raises ImportError with the fix, whatever the module itself raises."""
    try:
        return import_module(name)
    except Exception as error:
        raise ImportError(
            f"cannot import {name!r}: {type(error).__name__}: {str(error)[:300]} (fix: a module "
            "that Python finds from the folder where the command or worker runs; try "
            f"`python -c 'import {name}'`)"
        ) from error


def explain_missing_function(module: types.ModuleType, name: str) -> str:
    """The message for a name that is not there, with the mend."""
    near = difflib.get_close_matches(name, vars(module), 1)
    hint = f"did you mean {near[0]!r}?" if near else "define it, or correct its name"
    return f"{module.__name__!r} has no function {name!r} (fix: {hint})"


def resolve_function(name: str, allowed: Collection[str]) -> Callable[..., Any]:
    """The function `module:function` means, where the module is one of those `allowed` and has
    defined it itself. Raises `ImportError` with a mend."""
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
    """Why the module of `module:function` may not be imported; None where it may."""
    module_name = name.partition(":")[0]
    if module_name in allowed:
        return None
    listed = ", ".join(sorted(allowed)) or "none"
    return (
        f"{module_name!r} may not be imported: of modules SCRAPER_SITE_FUNCTIONS allows {listed} "
        f"(fix: read its code, then SCRAPER_SITE_FUNCTIONS={','.join([*allowed, module_name])} "
        "for commands, coordinators and workers alike)"
    )


def list_functions(site: Site) -> dict[str, str]:
    """The functions that a definition names, by its keys."""
    functions = {
        "product.function": site.product.function,
        "listing.function": site.listing.function if site.listing else None,
        "login.function": site.login.function if site.login else None,
        "browser.setup": site.browser.setup if site.browser else None,
    }
    return {key: name for key, name in functions.items() if name is not None}


# Cached as it was imported: what becomes of the file later, this process does not run.
@lru_cache(maxsize=256)
def read_function_source(name: str, allowed: tuple[str, ...]) -> str | None:
    """The text of the file that a function is defined in; None where there is none, or the module
    cannot be imported. (What it imports in its turn is not looked at.)"""
    try:
        file = inspect.getsourcefile(sys.modules[resolve_function(name, allowed).__module__])
        return Path(file).read_text(encoding="utf-8") if file else None
    except (ImportError, KeyError, AttributeError, TypeError, OSError, UnicodeDecodeError):
        return None


def check_functions(site: Site, allowed: Collection[str]) -> list[tuple[str, str]]:
    """Imports the site's functions; (key, sentence) for each that cannot be. Those of a site that
    is not enabled may wait until they are allowed."""
    problems = []
    for key, name in list_functions(site).items():
        if not site.enabled and explain_refusal(name, allowed) is not None:
            continue
        try:
            resolve_function(name, allowed)
        except ImportError as error:
            problems.append((key, str(error)))
    return problems
