"""Finds the user's function that a call names. Only modules of the allow-list are imported, names
are never walked through attributes, and only functions that the module itself defines count."""

from __future__ import annotations

import inspect
import types
from collections.abc import Awaitable, Callable, Collection
from typing import Any

from scraper.errors import FunctionRefusedError
from scraper.plugins.functions.group import parts_of
from scraper.sites.functions import explain_missing_function, import_user_module

Function = Callable[[Any, Any], Awaitable[Any]]


def resolve_function(function: str, allowed: Collection[str]) -> Function:
    """Returns the async function that `MODULE:FUNCTION` names. Raises `FunctionRefusedError` with
    the fix."""
    try:
        module_name, name = parts_of(function, allowed)
        module = import_user_module(module_name)
    except (ValueError, ImportError) as error:
        raise FunctionRefusedError(str(error)) from None
    target = vars(module).get(name)
    if target is None:
        raise FunctionRefusedError(explain_missing_function(module, name))
    if not isinstance(target, types.FunctionType) or target.__module__ != module_name:
        raise FunctionRefusedError(
            f"{function!r} is not a function that is defined in {module_name!r} "
            "(fix: define it there)"
        )
    if not inspect.iscoroutinefunction(target):
        raise FunctionRefusedError(
            f"{function!r} is not an async function (fix: `async def {name}(client, url)`)"
        )
    return target


def resolve_client_init(name: str) -> Callable[..., Any]:
    """Returns the function that SCRAPER_CLIENT_INIT names; it needs no allow-list, since it is the
    operator's setting. Raises `FunctionRefusedError`."""
    module_name, _, attribute = name.partition(":")
    try:
        module = import_user_module(module_name)
    except ImportError as error:
        raise FunctionRefusedError(str(error)) from None
    init = getattr(module, attribute, None)
    if not callable(init):
        message = explain_missing_function(module, attribute)
        raise FunctionRefusedError(f"SCRAPER_CLIENT_INIT: {message}")
    return init  # type: ignore[no-any-return]
