"""A Dockerfile as far as the tests need it: its stages, what each inherits, copies and runs."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[3]


@dataclass
class Stage:
    name: str
    base: str
    env: dict[str, str] = field(default_factory=dict)
    copied: list[str] = field(default_factory=list)  # from the checkout
    runs: list[str] = field(default_factory=list)
    user: str | None = None
    # a command for the shell
    health: str | None = None
    command: list[str] = field(default_factory=list)


def stages(path: Path = ROOT / "Dockerfile") -> dict[str, Stage]:
    """Each stage with all that it has from those it is made from. The last one is what `docker
    build .` makes."""
    text = re.sub(r"^\s*#.*\n", "", path.read_text(), flags=re.M)
    found: dict[str, Stage] = {}
    stage = Stage("", "")
    for line in re.sub(r"\\\n\s*", "", text).splitlines():
        word, _, rest = line.partition(" ")
        match word:
            case "FROM":
                base, _, name = re.sub(r"\s+AS\s+", " ", rest).partition(" ")
                above = found.get(base, Stage("", base))
                stage = Stage(
                    name,
                    above.base,
                    dict(above.env),
                    [*above.copied],
                    [*above.runs],
                    above.user,
                    above.health,
                )
                found[name] = stage
            case "ENV":
                stage.env |= dict(pair.partition("=")[::2] for pair in shlex.split(rest))
            case "COPY":
                words = rest.split()
                if words[0].startswith("--from="):
                    assert words[0].removeprefix("--from=") in found, f"no such stage: {line}"
                else:
                    stage.copied += words[:-1]
            case "RUN":
                stage.runs.append(rest)
            case "USER":
                stage.user = rest
            case "HEALTHCHECK":
                stage.health = rest.partition(" CMD ")[2].strip()
            case "CMD":
                stage.command = json.loads(rest)
            case "WORKDIR" | "STOPSIGNAL" | "ENTRYPOINT" | "":
                pass
            case _:
                raise AssertionError(f"a Dockerfile's line that this does not know: {line}")
    return found
