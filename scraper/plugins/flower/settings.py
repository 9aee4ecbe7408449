"""Settings that the plug-in `flower` adds."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field


class FlowerSettings(BaseModel):
    flower_user: str = Field("admin", description="the user who may log in to Flower")
    flower_password: str | None = Field(
        None,
        repr=False,
        description=(
            "unset: generated once, stored in SCRAPER_HOME/flower-password, and shown "
            "by `scraper up`"
        ),
    )
    flower_login: Literal["password", "none"] = Field(
        "password", description="none: Flower requires no login"
    )
    flower_hosts: str = Field(
        "",
        description=(
            "without a login: further host names under which Flower is reached, separated by commas"
        ),
    )
    flower_oauth_role: Literal["read", "operate", "edit"] = Field(
        "read",
        description="the role of e-mail addresses that log in by OAuth and are not among the users",
    )
    flower_metrics: Literal["login", "public", "off"] = Field(
        "login", description="who may read Flower's /metrics"
    )
    flower_docs: str = Field(
        "", description="the address of your documentation, to which Flower's navigation links"
    )
