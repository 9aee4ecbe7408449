"""The plug-in of docs/how-to/plugins.md, written to a folder as the page shows it and installed: its
key, its setting, its command, its check and its part in the worker."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "how-to" / "plugins.md"
FILE = re.compile(r"^<!-- plugin: (\S+) -->\n```\w+\n(.*?)^```", re.M | re.S)
OWNER = "\nowner: ann@example.com\n"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project of two definitions, of which one has an owner, with the plug-in next to it."""
    folder = tmp_path_factory.mktemp("plugin")
    for name, text in FILE.findall(PAGE.read_text(encoding="utf-8")):
        file = folder / "installed" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    install(folder / "installed")
    (folder / "sites").mkdir()
    for name in ("books", "jsonld-shop"):
        shutil.copy(ROOT / "sites" / f"{name}.yaml", folder / "sites")
    with (folder / "sites" / "books.yaml").open("a", encoding="utf-8") as definition:
        definition.write(OWNER)
    return folder


def install(folder: Path) -> None:
    """Writes what an installer would: the distribution's name and its entry points."""
    distribution = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    record = folder / "shop_owners-1.0.dist-info"
    record.mkdir()
    (record / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {distribution['name']}\nVersion: 1.0\n"
    )
    (record / "entry_points.txt").write_text(
        "".join(
            f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in entries.items())
            for group, entries in distribution["entry-points"].items()
        )
    )


def scraper(project: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    kept = {name: text for name, text in os.environ.items() if not name.startswith("SCRAPER_")}
    return subprocess.run(
        [sys.executable, "-m", "scraper", *words],
        cwd=project, env=kept | {"PYTHONPATH": f"{project / 'installed'}:{ROOT}"} | env,
        capture_output=True, text=True, timeout=180, check=False,
    )  # fmt: skip


def test_it_is_listed_with_what_it_adds(project: Path) -> None:
    plugins = json.loads(scraper(project, "plugins", "--json").stdout)
    (row,) = [row for row in plugins if row["name"] == "owners"]
    assert row["on"] and row["distribution"] == "shop-owners"
    assert row["commands"] == ["owners"] and row["keys"] == ["owner"] and row["in_worker"]
    assert row["settings"] == ["SCRAPER_OWNERS_REQUIRED"] and row["hooks"] == ["check_site"]
    (alerts,) = [row for row in plugins if row["name"] == "alerts"]
    assert alerts["tables"] == ["alerts", "price_alerts"] and alerts["pages"] == ["alerts"]


def test_its_command_reads_its_key(project: Path) -> None:
    done = scraper(project, "owners")
    assert done.stdout == "books\tann@example.com\njsonld-shop\t-\n", done.stderr


def test_its_setting_makes_its_hook_report_sites(project: Path) -> None:
    assert scraper(project, "sites", "check").returncode == 0
    done = scraper(project, "sites", "check", SCRAPER_OWNERS_REQUIRED="1")
    assert done.returncode == 2 and "jsonld-shop.yaml" in done.stderr
    assert "the site has no owner" in done.stderr and "books.yaml" not in done.stderr


def test_a_definition_with_its_key_names_the_plugin_that_is_off(project: Path) -> None:
    done = scraper(project, "sites", "check", SCRAPER_PLUGINS_OFF="owners")
    assert done.returncode == 2 and "owner: needs the plug-in owners" in done.stderr


def test_its_part_sees_what_a_worker_stores(project: Path) -> None:
    code = (
        "from types import SimpleNamespace\n"
        "from scraper.registry import active_plugins, resolve\n"
        "(plugin,) = [p for p in active_plugins() if p.name == 'owners']\n"
        "resolve(plugin.worker)(None).after_settling(SimpleNamespace(held=3))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=180, check=False,
        cwd=project, env=os.environ | {"PYTHONPATH": f"{project / 'installed'}:{ROOT}"},
    )  # fmt: skip
    assert "pages settled" in done.stdout and "pages=" in done.stdout, done.stderr
