"""Generates the JSON schema of site definitions, for completion and checks in editors.

An editor uses it if the first line of a file is `# yaml-language-server: $schema=schema.json`. The
schema knows keys and types; only `scraper sites check` also checks selectors and schedules.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from scraper.sites.definition import Site


def json_schema() -> dict[str, Any]:
    """Returns the schema, in draft 2020-12."""
    schema = Site.model_json_schema(mode="validation")
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "Site definition"
    # The name comes from the file.
    schema["required"] = ["product"]
    sitemap = schema["$defs"]["Sitemap"]
    sitemap["properties"]["url"] = {
        **sitemap["properties"]["urls"],
        "description": "the same as urls",
    }
    sitemap.pop("required", None)
    for part in (schema, *schema["$defs"].values()):
        if "description" in part:
            part["description"] = " ".join(part["description"].split())
    return schema


def schema_text() -> str:
    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"


def write_schema(path: Path | str) -> None:
    Path(path).write_text(schema_text(), encoding="utf-8")
