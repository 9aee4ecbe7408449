"""Users' functions that may be called from outside, imported by name: the one place where a worker
imports what a message names. Nothing is imported that is not on the allow-list, no attribute is
walked, and only what is written in the module itself counts: not what it has imported from
elsewhere."""

from __future__ import annotations

import difflib
import inspect
import types
from collections.abc import Awaitable, Callable, Collection
from importlib import import_module
from typing import Any

from scraper.calls.group import parts_of
from scraper.errors import FunctionRefusedError

Function = Callable[[Any, Any], Awaitable[Any]]


def resolve(function: str, allowed: Collection[str]) -> Function:
    """The async function that `MODULE:FUNCTION` names. Raises `FunctionRefusedError` with the mend."""
    try:
        module_name, name = parts_of(function, allowed)
    except ValueError as error:
        raise FunctionRefusedError(str(error)) from None
    found = vars(_imported(module_name)).get(name)
    if found is None:
        near = difflib.get_close_matches(name, vars(_imported(module_name)), 1)
        hint = f"did you mean {near[0]!r}?" if near else "define it, or correct its name"
        raise FunctionRefusedError(f"{module_name!r} has no function {name!r} (mend: {hint})")
    if not isinstance(found, types.FunctionType) or found.__module__ != module_name:
        raise FunctionRefusedError(
            f"{function!r} is not a function that is defined in {module_name!r} (mend: define it there)"
        )
    if not inspect.iscoroutinefunction(found):
        raise FunctionRefusedError(
            f"{function!r} is not an async function (mend: `async def {name}(client, url)`)"
        )
    return found


def resolve_init(name: str) -> Callable[..., Any]:
    """What SCRAPER_CLIENT_INIT names: an operator's word, so no allow-list. Raises
    `FunctionRefusedError`."""
    module_name, _, attribute = name.partition(":")
    found = getattr(_imported(module_name), attribute, None)
    if not callable(found):
        raise FunctionRefusedError(
            f"SCRAPER_CLIENT_INIT: {module_name!r} has no function {attribute!r} (mend: define it)"
        )
    return found  # type: ignore[no-any-return]


def _imported(name: str) -> types.ModuleType:
    try:
        return import_module(name)
    except Exception as error:
        # a user's module may raise anything
        raise FunctionRefusedError(
            f"this worker cannot import {name!r}: {type(error).__name__}: {str(error)[:300]} (mend: a module that Python "
            "finds from the folder where the worker runs)"
        ) from error
