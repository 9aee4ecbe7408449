"""A site's own Python functions, imported by name: `module:function`. The only module that
imports a user's code, also for functions that are called from outside (`scraper.calls.functions`).

Loading a definition imports nothing; `check_functions` is what `scraper sites check` calls,
`resolve` what a worker calls.
"""

from __future__ import annotations

import difflib
import inspect
import sys
import types
from collections.abc import Callable, Iterable
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

from scraper.sites.definition import Site
from scraper.sites.page import Page

PageFunction = Callable[[Page], Iterable[Any] | None]


def import_user_module(name: str) -> types.ModuleType:
    """Raises ImportError with the mend, whatever the module itself raises."""
    try:
        return import_module(name)
    except Exception as error:
        raise ImportError(
            f"cannot import {name!r}: {type(error).__name__}: {str(error)[:300]} (mend: a module "
            "that Python finds from the folder where the command or worker runs; try "
            f"`python -c 'import {name}'`)"
        ) from error


def missing_function(module: types.ModuleType, name: str) -> str:
    """The message for a name that is not there, with the mend."""
    near = difflib.get_close_matches(name, vars(module), 1)
    hint = f"did you mean {near[0]!r}?" if near else "define it, or correct its name"
    return f"{module.__name__!r} has no function {name!r} (mend: {hint})"


def resolve(name: str) -> Callable[..., Any]:
    """The function `module:function` means. Raises `ImportError` with a mend."""
    module_name, _, attribute = name.partition(":")
    module = import_user_module(module_name)
    function = getattr(module, attribute, None)
    if not callable(function):
        raise ImportError(missing_function(module, attribute))
    return function  # type: ignore[no-any-return]


# Cached as it was imported: what becomes of the file later, this process does not run.
@lru_cache(maxsize=256)
def source_of(name: str) -> str | None:
    """The text of the file that a function is defined in; None where there is none, or the module
    cannot be imported. (What it imports in its turn is not looked at.)"""
    try:
        file = inspect.getsourcefile(sys.modules[resolve(name).__module__])
        return Path(file).read_text(encoding="utf-8") if file else None
    except (ImportError, KeyError, AttributeError, TypeError, OSError, UnicodeDecodeError):
        return None


def check_functions(site: Site) -> list[tuple[str, str]]:
    """Imports the site's functions; (key, sentence) for each that cannot be."""
    named = {
        "product.function": site.product.function,
        "listing.function": site.listing.function if site.listing else None,
        "login.function": site.login.function if site.login else None,
        "browser.setup": site.browser.setup if site.browser else None,
    }
    problems = []
    for key, name in named.items():
        if name is None:
            continue
        try:
            resolve(name)
        except ImportError as error:
            problems.append((key, str(error)))
    return problems
