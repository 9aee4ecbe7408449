"""Settings that the plug-in `functions` adds."""

from __future__ import annotations

from pydantic import BaseModel, Field, field_validator

from scraper.sites.module_names import (
    check_function_name,
    check_module_names,
    parse_module_names,
)


class FunctionsSettings(BaseModel):
    functions: str | None = Field(
        None, description="modules whose async functions may be called on workers"
    )
    client_init: str | None = Field(
        None, description="MODULE:FUNCTION that creates the HTTP client of these functions"
    )
    input_timeout_s: float = Field(
        60, gt=0, description="the limit for one input of a call, without waits for hosts"
    )
    result_max_bytes: int = Field(
        1_000_000,
        ge=100,
        le=16_000_000,
        description="the size limit of a call's result for one input",
    )

    @field_validator("functions")
    @classmethod
    def _check_functions(cls, value: str | None) -> str | None:
        return check_module_names(value)

    @field_validator("client_init")
    @classmethod
    def _check_client_init(cls, value: str | None) -> str | None:
        return check_function_name(value)

    @property
    def function_modules(self) -> tuple[str, ...]:
        """The modules whose functions may be called."""
        return parse_module_names(self.functions)
