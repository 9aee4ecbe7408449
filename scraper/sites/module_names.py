"""Parses and checks the lists of allowed Python modules in settings. Pure."""

from __future__ import annotations

import re

_MODULE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*").fullmatch


def parse_module_names(text: str | None) -> tuple[str, ...]:
    """Returns the names in a list separated by commas or spaces."""
    return tuple((text or "").replace(",", " ").split())


def check_module_names(text: str | None) -> str | None:
    """Returns the text. Raises `ValueError` if it contains an invalid module name."""
    for name in parse_module_names(text):
        if not _MODULE(name):
            raise ValueError(
                f"{name!r} is not a module's name; names are separated by commas: "
                "shop_checks,my.tools"
            )
    return text


def check_function_name(text: str | None) -> str | None:
    """Returns the text. Raises `ValueError` if it is not MODULE:FUNCTION."""
    module, _, name = (text or "a:a").partition(":")
    if not (_MODULE(module) and name.isidentifier()):
        raise ValueError("must be MODULE:FUNCTION, such as shop_checks:client")
    return text
