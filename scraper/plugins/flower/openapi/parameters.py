"""What the tab's JSON takes in its addresses: each handler declares its parameters once, reads them
by this declaration, and the OpenAPI document is written from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import tornado.web


class QueryHolder(Protocol):
    """A handler with a query."""

    def get_query_argument(self, name: str, default: Any = ...) -> Any: ...


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a query: a text, one of `choices`, or a number from 1 to `largest`."""

    name: str
    about: str
    default: str | int | None = None
    choices: tuple[str, ...] = ()
    largest: int = 0
    required: bool = False

    def read(self, handler: QueryHolder) -> Any:
        """Returns the value. Raises a 400 for one that is not as declared."""
        if self.required:
            return handler.get_query_argument(self.name)
        text = handler.get_query_argument(self.name, None)
        if self.largest:
            return self._read_number(text)
        if not text:
            return self.default
        if self.choices and text not in self.choices:
            choices = ", ".join(self.choices)
            raise tornado.web.HTTPError(400, f"{self.name} is one of: {choices}")
        return text

    def _read_number(self, text: str | None) -> Any:
        if text is None:
            return self.default
        if not (text.isdecimal() and len(text) < 9 and 1 <= int(text) <= self.largest):
            raise tornado.web.HTTPError(400, f"{self.name} is a number from 1 to {self.largest}")
        return int(text)

    def describe(self) -> dict[str, Any]:
        """Returns the parameter as OpenAPI has it."""
        schema: dict[str, Any] = {"type": "integer" if self.largest else "string"}
        if self.largest:
            schema |= {"minimum": 1, "maximum": self.largest}
        if self.choices:
            schema["enum"] = list(self.choices)
        if self.default is not None:
            schema["default"] = self.default
        return {
            "name": self.name,
            "in": "query",
            "description": self.about,
            "required": self.required,
            "schema": schema,
        }


def read_all(handler: QueryHolder, parameters: Sequence[Parameter]) -> Mapping[str, Any]:
    """Returns the values of a request by name."""
    return {parameter.name: parameter.read(handler) for parameter in parameters}
