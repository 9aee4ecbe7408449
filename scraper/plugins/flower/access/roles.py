"""The role that each request to Flower needs: `read` to look, `operate` for what is done with
crawls and sites, `edit` for everything else, such as definitions, workers and tasks."""

from __future__ import annotations

import re

from scraper.plugins.flower.access.users import Role
from scraper.plugins.flower.tab_pages import operated_actions, read_role, tab_pages
from scraper.sites.grammar.scalars import SITE_NAME

LOOKS = ("GET", "HEAD", "OPTIONS")
# The names of `actions.ACTIONS` and `actions.OF_SITES`, which cannot be imported this early.
OF_CRAWLS = ("stop", "pause", "resume", "crawl", "replay", "accept", "reject")
OF_SITES = ("pause", "resume", "crawl")
_OPERATED = re.compile(
    rf"/api/crawls/\d{{1,19}}/(?:{'|'.join(OF_CRAWLS)})"
    rf"|/api/sites/{SITE_NAME}/(?:{'|'.join(OF_SITES)})"
).fullmatch
_OF_PLUGIN = re.compile(r"/crawls/(?:api/|scripts/)?([^/.]+)(?:\.js)?(?:/([a-z_]+))?").fullmatch


def needed_role(method: str, path: str) -> Role:
    """Returns the role for a request. `path` has no prefix."""
    match = _OF_PLUGIN(path)
    page = tab_pages().get(match[1]) if match else None
    if method in LOOKS:
        return read_role(page) if page is not None else "read"
    if _OPERATED(path):
        return "operate"
    if page is not None and match is not None and match[2] in operated_actions(page):
        return "operate"
    return "edit"
