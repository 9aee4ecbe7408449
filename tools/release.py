"""Prepares a checkout for a release: `python -m tools.release v0.2.0 https://github.com/OWNER/NAME`.

Refuses a tag that is not the package's version, or whose section in CHANGELOG.md has no date. Then
writes the repository's addresses into `[project.urls]`. Needs only the standard library.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from urllib.parse import urlsplit

ROOT = Path(__file__).parents[1]
SECTION = re.compile(r"^## \[(?P<version>[^\]]+)\](?: - (?P<date>.+))?$", re.MULTILINE)
DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
URLS = re.compile(r"^\[project\.urls\]\n(?:(?!\[).*\n)*", re.MULTILINE)


def version_of_tag(tag: str, version: str, changelog: str) -> str:
    """Returns the version that a tag names, or exits with what has to be fixed first."""
    if tag != f"v{version}":
        sys.exit(f"the tag is {tag}, the version v{version} (fix: the version in pyproject.toml)")
    dates = {match["version"]: match["date"] or "" for match in SECTION.finditer(changelog)}
    if version not in dates:
        sys.exit(f"CHANGELOG.md has no section [{version}] (fix: add it)")
    if not DATE.fullmatch(dates[version]):
        sys.exit(f"[{version}] in CHANGELOG.md has no date (fix: write YYYY-MM-DD)")
    return version


def project_urls(repository: str) -> dict[str, str]:
    """Returns the addresses of a repository on GitHub, and of its Pages."""
    owner, name = urlsplit(repository).path.strip("/").split("/")
    return {
        "Documentation": f"https://{owner.lower()}.github.io/{name}/",
        "Repository": repository,
        "Issues": f"{repository}/issues",
        "Changelog": f"{repository}/blob/main/CHANGELOG.md",
    }


def with_urls(project: str, urls: dict[str, str]) -> str:
    """Returns the text of pyproject.toml with these addresses as its `[project.urls]`."""
    lines = "".join(f'{name} = "{url}"\n' for name, url in urls.items())
    text, replaced = URLS.subn(lambda _: f"[project.urls]\n{lines}\n", project)
    if replaced != 1:
        sys.exit("pyproject.toml has no [project.urls]")
    return text


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    _, tag, repository = sys.argv
    path = ROOT / "pyproject.toml"
    project = path.read_text()
    version = tomllib.loads(project)["project"]["version"]
    version_of_tag(tag, version, (ROOT / "CHANGELOG.md").read_text())
    path.write_text(with_urls(project, project_urls(repository)))


if __name__ == "__main__":
    main()
