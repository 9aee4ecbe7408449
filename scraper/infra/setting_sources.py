"""Where the values of settings come from: the environment, files that it names, and `scraper.toml`.

A variable of the environment wins over the project's file, and that over the default. Any setting
may come from a file: `NAME_FILE` names it, as with the secrets of Docker, Kubernetes and systemd.
`docker inspect` shows an environment, and children inherit it; a file they do not.
"""

from __future__ import annotations

import os
import tomllib
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource

from scraper.errors import ConfigError
from scraper.registry import PROJECT_FILE

FILE_MAX_BYTES = 10_000


class FromFiles(PydanticBaseSettingsSource):
    """Reads settings from the files that variables name. Raises `ConfigError`, which does not show
    the value."""

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[str | None, str, bool]:
        name = variable(field_name, field)
        path = os.environ.get(f"{name}_FILE")
        if not path:
            return None, field_name, False
        value = _read_value(path, os.environ.get(name), name, f"{name}_FILE")
        return value, field.alias or field_name, False

    def __call__(self) -> dict[str, str]:
        fields = self.settings_cls.model_fields.items()
        values = (self.get_field_value(field, name) for name, field in fields)
        return {name: value for value, name, _ in values if value is not None}


def variable(name: str, field: FieldInfo) -> str:
    """The environment variable of a field."""
    return field.alias or f"SCRAPER_{name.upper()}"


class FromProject(PydanticBaseSettingsSource):
    """Reads `scraper.toml` in the working directory. Keys are setting names in lower case;
    `NAME_file` names a file that holds the value. Raises `ConfigError` for an unknown key and for
    an invalid file."""

    def __init__(self, settings_cls: type[BaseSettings]) -> None:
        super().__init__(settings_cls)
        self._values = _project_values()

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        short = short_name(field_name, field)
        value, path = self._values.get(short), self._values.get(f"{short}_file")
        if path is not None:
            value = _read_value(path, value, short, f"{short}_file", f"{PROJECT_FILE}: ")
        return value, field.alias or field_name, False

    def __call__(self) -> dict[str, Any]:
        fields = self.settings_cls.model_fields
        names = {short_name(name, field) for name, field in fields.items()}
        for key in self._values.keys() - names - {f"{name}_file" for name in names}:
            near = get_close_matches(key, names, n=1)
            hint = f" (did you mean {near[0]}?)" if near else ""
            raise ConfigError(f"{PROJECT_FILE}: {key} is not a setting{hint}")
        values = (self.get_field_value(field, name) for name, field in fields.items())
        return {name: value for value, name, _ in values if value is not None}


def read_secret(path: Path, source: str, max_bytes: int) -> str:
    """The whole text of a file that holds secrets. Raises `ConfigError`, which shows nothing of the
    text and names `source`: the variable that names the file."""
    try:
        if path.stat().st_size > max_bytes:
            raise ConfigError(f"{path}: larger than {max_bytes:,} bytes ({source})")
        return path.read_text("utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or 'cannot be read'} ({source})") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: not a text in UTF-8 ({source})") from None


def _read_value(path: object, given: object, name: str, key: str, where: str = "") -> str:
    """Returns the text of the file that `key` names, without newlines at its end. `given` is the
    value that the setting `name` has without the file. Raises `ConfigError`."""
    if given not in (None, ""):
        raise ConfigError(f"{where}{name} and {key}: one of them only")
    if not isinstance(path, str):
        raise ConfigError(f"{where}{key} must be a path in quotes")
    value = read_secret(Path(path), f"{where}{key}", FILE_MAX_BYTES).rstrip("\r\n")
    if not value.strip():
        raise ConfigError(f"{path}: is empty ({where}{key})")
    return value


def _project_values() -> dict[str, Any]:
    try:
        return tomllib.loads(Path(PROJECT_FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ConfigError(f"{PROJECT_FILE}: {error}") from None


def short_name(name: str, field: FieldInfo) -> str:
    """Returns a setting's name in `scraper.toml`: `database_url`, `attempts_max`, `sites`."""
    return variable(name, field).lower().removeprefix("scraper_")
