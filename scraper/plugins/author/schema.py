"""Generates the JSON schema of site definitions, for completion and checks in editors.

An editor uses it if the first line of a file is `# yaml-language-server: $schema=schema.json`. The
schema knows keys and types; only `scraper sites check` also checks selectors and schedules.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scraper.sites.definition import Site
from scraper.sites.loader import OWN_KEYS

_REFERENCES = re.compile(r'"#/\$defs/([^"]+)"').findall


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


def defaults_schema() -> dict[str, Any]:
    """Returns the schema of defaults.yaml: the keys that sites share, none of them required."""
    schema = json_schema()
    shared = {key: schema["properties"][key] for key in schema["properties"] if key not in OWN_KEYS}
    own = {"required": [], "properties": shared, "title": "Defaults of site definitions"}
    used = _find_references({"properties": shared}, schema["$defs"])
    return {**schema, **own, "$defs": {name: schema["$defs"][name] for name in sorted(used)}}


def _find_references(part: object, parts: Mapping[str, object]) -> set[str]:
    """Returns the names of the schema's parts that `part` needs."""
    names: set[str] = set()
    waiting = [part]
    while waiting:
        for name in _REFERENCES(json.dumps(waiting.pop())):
            if name not in names:
                names.add(name)
                waiting.append(parts[name])
    return names


def schema_text(*, defaults: bool = False) -> str:
    schema = defaults_schema() if defaults else json_schema()
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def write_schema(path: Path | str, *, defaults: bool = False) -> None:
    Path(path).write_text(schema_text(defaults=defaults), encoding="utf-8")
