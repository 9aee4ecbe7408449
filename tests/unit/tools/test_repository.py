"""The files that a hosted repository runs on: workflows, hooks, changelog, releases."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.version import Version

from tools.release import SECTION, project_urls, version_of_tag, with_urls

ROOT = Path(__file__).parents[3]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CHANGELOG = (ROOT / "CHANGELOG.md").read_text()
# A branch that its authors move with care: they ask for it to be used.
UNPINNED = {"pypa/gh-action-pypi-publish@release/v1"}
LINE_MAX = 125


def jobs() -> list[tuple[str, dict[str, Any]]]:
    return [
        (f"{path.stem}/{name}", job)
        for path in WORKFLOWS
        for name, job in yaml.safe_load(path.read_text())["jobs"].items()
    ]


def steps() -> list[tuple[str, dict[str, Any]]]:
    return [(name, step) for name, job in jobs() for step in job["steps"]]


def locked_version(package: str) -> str:
    locked = re.search(
        rf"^{package}==(\S+)", (ROOT / "requirements" / "dev.txt").read_text(), re.MULTILINE
    )
    assert locked
    return locked[1]


@pytest.mark.parametrize(
    ("schema", "paths"),
    [
        pytest.param("vendor.github-workflows", WORKFLOWS, id="workflows"),
        pytest.param("vendor.dependabot", [ROOT / ".github" / "dependabot.yml"], id="dependabot"),
    ],
)
def test_files_keep_their_schema(schema: str, paths: list[Path]) -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, *paths]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    "path",
    [
        "pyproject.toml",
        "docker-compose.yml",
        "alembic",
        "scraper/tasks.py",
        "scraper/celeryconfig.py",
        "scraper/models.py",
    ],
)
def test_what_users_look_for_first_is_at_its_place(path: str) -> None:
    assert (ROOT / path).exists()


def test_actions_are_pinned_to_a_commit() -> None:
    used = {step["uses"] for _, step in steps() if "uses" in step} - UNPINNED
    assert used
    assert not {action for action in used if not re.search(r"@[0-9a-f]{40}$", action)}


def test_checkouts_keep_no_credentials() -> None:
    checkouts = [step for _, step in steps() if step.get("uses", "").startswith("actions/checkout")]
    assert checkouts
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)


def test_jobs_have_few_permissions_and_an_end() -> None:
    for path in WORKFLOWS:
        assert yaml.safe_load(path.read_text())["permissions"] == {"contents": "read"}
    assert not {name for name, job in jobs() if "timeout-minutes" not in job}


def test_ci_has_one_entry() -> None:
    run = {(name, step["run"]) for name, step in steps() if "run" in step}
    assert {command for name, command in run if not name.startswith("release/")} == {
        ".ci/run",
        ".ci/run smoke",
        ".ci/run docs",
        ".ci/run ${{ matrix.versions }}",
    }


def test_ci_runs_each_python_that_the_package_promises() -> None:
    promised = [
        classifier.rpartition(" ")[2]
        for classifier in PROJECT["classifiers"]
        if re.search(r":: Python :: 3\.\d+$", classifier)
    ]
    matrices = [job["strategy"]["matrix"] for _, job in jobs() if "strategy" in job]
    assert matrices == [{"python": promised}, {"versions": ["lowest", "newest"]}]


@pytest.mark.parametrize(
    ("hooks", "package"),
    [
        ("https://github.com/astral-sh/ruff-pre-commit", "ruff"),
        ("https://github.com/python-jsonschema/check-jsonschema", "check-jsonschema"),
    ],
)
def test_hooks_have_the_locked_versions(hooks: str, package: str) -> None:
    configuration = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    (revision,) = [repo["rev"] for repo in configuration["repos"] if repo["repo"] == hooks]
    assert revision.removeprefix("v") == locked_version(package)


def test_the_changelog_has_a_section_a_release_and_short_lines() -> None:
    versions = [match["version"] for match in SECTION.finditer(CHANGELOG)]
    assert versions[0] == PROJECT["version"]
    assert versions == sorted(versions, key=Version, reverse=True)
    assert CHANGELOG.count("\n## ") == len(versions)
    assert not [line for line in CHANGELOG.splitlines() if len(line) > LINE_MAX]


@pytest.mark.parametrize(
    ("tag", "heading", "refusal"),
    [
        ("v1.2.3", "## [1.2.3] - 2026-01-31", None),
        ("v1.2.4", "## [1.2.3] - 2026-01-31", "the tag is v1.2.4"),
        ("v1.2.3", "## [1.2.2] - 2026-01-31", "no section"),
        ("v1.2.3", "## [1.2.3] - unreleased", "no date"),
        ("v1.2.3", "## [1.2.3]", "no date"),
    ],
)
def test_a_tag_is_released_if_the_changelog_has_it(
    tag: str, heading: str, refusal: str | None
) -> None:
    changelog = f"# Changelog\n\n{heading}\n\n- A change.\n"
    if refusal is None:
        assert version_of_tag(tag, "1.2.3", changelog) == "1.2.3"
    else:
        with pytest.raises(SystemExit, match=refusal):
            version_of_tag(tag, "1.2.3", changelog)


def test_a_release_names_the_repository_that_it_is_built_in() -> None:
    urls = project_urls("https://github.com/Some/shop-crawler")
    assert urls["Documentation"] == "https://some.github.io/shop-crawler/"
    text = (ROOT / "pyproject.toml").read_text()
    once = with_urls(text, urls)
    assert tomllib.loads(once)["project"]["urls"] == urls
    assert with_urls(once, urls) == once
    before = tomllib.loads(text)
    before["project"]["urls"] = urls
    assert tomllib.loads(once) == before
