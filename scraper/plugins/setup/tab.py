"""The page "Add shops" of the Crawls tab: addresses and their surveys, definitions to save and to
change, and the log of changes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import sqlalchemy as sa

from scraper import settings
from scraper.actions import crawls, judgements
from scraper.errors import ConfigError
from scraper.plugins.setup import files, picking
from scraper.plugins.setup.addresses import ADDRESSES_MAX, parse_addresses
from scraper.plugins.setup.checking import (
    Checked,
    check_name,
    check_text,
    defined_name,
    find_file,
    refuse_endless,
)
from scraper.plugins.setup.files import Author, ReadOnlyFolderError, compare_texts, hash_text
from scraper.plugins.setup.head_keys import KEYS, read_keys, set_keys
from scraper.plugins.setup.repairs import REPAIRS
from scraper.plugins.setup.settings import SetupSettings
from scraper.plugins.setup.surveys import SURVEYS
from scraper.quality import report
from scraper.sites import loader
from scraper.sites.grammar import scalars
from scraper.views import site_table

TITLE = "Add shops"
SITE_LINK = "Edit definition"
REPAIR_LINK = "Repair"
# The first screen has a box for addresses, which leads here.
ADD_LINK = True
# A definition may hold secrets, as in headers.
READ_ROLE = "edit"
SCRIPT = Path(__file__).with_name("setup.js")
ANSWERS = Path(__file__).with_name("answers.json")
MORE_SCRIPTS = (Path(__file__).with_name("picker.js"),)
BODY_MAX_BYTES = 300_000
REFUSED_SHOWN = 20

Answer = str | dict[str, Any]
Act = Callable[[sa.Engine, Mapping[str, Any], str], Answer]


def read(connection: sa.Connection, query: Mapping[str, str]) -> dict[str, Any]:
    """Answers `?id=SURVEY`, `?site=NAME`, `?change=ID`, or with the list of surveys."""
    now = connection.execute(sa.text("SELECT now()")).scalar_one()
    if "id" in query:
        survey = SURVEYS.find_survey(_parse_id(query["id"]))
        more: dict[str, Any] = {"text": survey.text, "problem": survey.problem}
        more |= {"found": survey.findings, "pick": survey.pages is not None}
        keys = read_keys(survey.text)
        return {"now": now, "survey": {**survey.summary, **more, "keys": keys}, **_read_folder()}
    if "site" in query:
        return {"now": now, **_read_definition(connection, check_name(query["site"]))}
    if "change" in query:
        return {"now": now, "change": _read_diff(connection, _parse_id(query["change"]))}
    names = sorted(map(defined_name, loader.list_definition_files(settings.load().sites_dir)))
    return {
        "now": now,
        "surveys": [survey.summary for survey in SURVEYS.list_all()],
        "sites": names,
        "changes": files.list_changes(connection),
        **_read_folder(),
    }


def _read_folder() -> dict[str, Any]:
    folder = settings.load().sites_dir
    return {"folder": str(folder), "writable": files.is_writable(folder)}


def _read_definition(connection: sa.Connection, site: str) -> dict[str, Any]:
    file = find_file(settings.load().sites_dir, site)
    text = files.read_file(file)
    return {
        "site": site,
        "file": str(file),
        "text": text,
        "seen": hash_text(text),
        "keys": read_keys(text or ""),
        "pick": _find_pages(file, site).is_dir(),
        "changes": files.list_changes(connection, site),
        "repair": REPAIRS.find_repair(site),
        "standing": _read_standing(connection, site),
        **_read_folder(),
    }


def _read_standing(connection: sa.Connection, site: str) -> dict[str, Any] | None:
    """Returns the state of a site and of its newest crawl, and what may be decided on it."""
    rows = site_table.read_rows(connection, site_table.Query(site=site, limit=1)).rows
    if not rows or rows[0].crawl is None:
        return None
    crawl = rows[0].crawl
    judged = report.read_report(connection, crawl.id)
    may_decide = crawl.suspect and judged.judged_at is not None and judged.accepted_at is None
    rejected = any(reason["what"] == "rejected" for reason in judged.reasons)
    return {
        "state": rows[0].state,
        "why": rows[0].why,
        "crawl": crawl.id,
        "running": crawl.active,
        "reasons": [f"{row['field'] or 'products'}: {row['text']}" for row in judged.reasons],
        "may_decide": may_decide and not rejected,
    }


def _read_diff(connection: sa.Connection, id_: int) -> dict[str, Any]:
    change = files.read_change(connection, id_)._asdict()
    before, after = change.pop("before"), change.pop("after")
    return {**change, "diff": compare_texts(before or "", after or "")}


# What is asked and changed.


class Draft(NamedTuple):
    """A definition that is not saved yet, with the form's values in it."""

    name: str
    file: Path
    text: str
    checked: Checked


def check_draft(engine: sa.Engine, body: Mapping[str, Any], user: str) -> dict[str, Any]:
    """Returns the problems of `text` with the form's values, and how it differs from the file."""
    draft = _make_draft(body)
    current = files.read_file(draft.file)
    return {
        "text": draft.text,
        "keys": read_keys(draft.text),
        "file": str(draft.file),
        "there": hash_text(current),
        "problems": [problem._asdict() for problem in draft.checked.problems],
        "warnings": draft.checked.warnings,
        "diff": compare_texts(current, draft.text) if current is not None else [],
    }


def pick_source(engine: sa.Engine, body: Mapping[str, Any], user: str) -> dict[str, Any]:
    """Returns what a `text` reads on the pages of a `survey` or a `site`; the elements of one
    `page`; or sources for a `field` that read an `element` of this page."""
    rest = {name: value for name, value in body.items() if name in ("text", "site", "field")}
    given = _read_texts(rest, "text", "site", "field")
    if set(body) - {*rest, "survey", "page", "element"} or ("survey" in body) == ("site" in body):
        raise ConfigError("the body has text, survey or site, and page, element and field")
    if "survey" in body:
        survey = SURVEYS.find_survey(_check_id(body["survey"]))
        name, pages = survey.name, survey.pages or Path("/nowhere")
    else:
        name = check_name(given["site"])
        pages = _find_pages(find_file(settings.load().sites_dir, name), name)
    words = []
    if "page" in body:
        words = [str(_check_id(body["page"]))]
        if "element" in body:
            # Elements are counted from 0, and ids from 1.
            element = body["element"] and _check_id(body["element"])
            words += [str(int(element)), _check_field(given["field"])]
    return picking.pick(name, body.get("text", ""), pages, words)


def _find_pages(file: Path, site: str) -> Path:
    """Returns the folder of a site's recorded pages: those that were read since Flower started, or
    of `scraper sites record`."""
    return SURVEYS.find_pages(site) or file.with_suffix(".pages")


def _check_field(name: str) -> str:
    if not re.fullmatch("[a-z][a-z0-9_]{0,62}", name):
        raise ConfigError(f"{name[:70]!r} is not a field's name (fix: as in list_price)")
    return name


def save_draft(engine: sa.Engine, body: Mapping[str, Any], user: str) -> Answer:
    """Saves `text` with the form's values, or that of a `survey`. `seen`: the hash of the text
    that the file has now; "" for a new file."""
    draft = _make_draft(body)
    if draft.checked.site is None:
        lines = [f"line {line}: {text}" for line, text in draft.checked.problems[:5]]
        raise ConfigError("\n".join(["not saved:", *lines]))
    seen = body.get("seen", "")
    author = Author(user, draft.name, "changed" if seen else "added")
    try:
        files.save_file(engine, draft.file, draft.text, seen, author)
    except ReadOnlyFolderError as error:
        message = f"{error}. Commit this file to where your definitions come from."
        return {"message": message, "file": str(draft.file), "text": draft.text}
    if "survey" in body:
        SURVEYS.find_survey(body["survey"]).saved = draft.name
    return {"message": f"{draft.file} is saved.", "saved": draft.name}


def undo_change(engine: sa.Engine, body: Mapping[str, Any], user: str) -> Answer:
    """Restores the file before the change `id`."""
    with engine.connect() as connection:
        change = files.read_change(connection, _read_id(body))
    files.undo_change(engine, change, user)
    return f"{change.file} is {'removed' if change.before is None else 'as before'}."


def crawl_site(engine: sa.Engine, body: Mapping[str, Any], user: str) -> Answer:
    """Opens a crawl of `site`."""
    name = check_name(_read_texts(body, "site")["site"])
    opened = crawls.open_site(engine, settings.load(), name, refetch=False)
    event = "was already running" if opened.already_running else "is opened"
    return {"message": f"Crawl {opened.crawl_id} of {name} {event}.", "crawl": opened.crawl_id}


def survey_shops(engine: sa.Engine, body: Mapping[str, Any], user: str) -> Answer:
    """Surveys the shops at `addresses`, a text. `rate`: the requests to a host; "" for the
    usual number."""
    given = _read_texts(body, "addresses", "rate")
    rate = given["rate"] and _check_rate(given["rate"])
    pasted = parse_addresses(given["addresses"], private=_allows_private())
    if len(pasted.urls) > ADDRESSES_MAX:
        raise ConfigError(f"{len(pasted.urls):,} addresses; at most {ADDRESSES_MAX} at once")
    if not pasted.urls:
        raise ConfigError("; ".join(pasted.refused[:3]) or "no address (fix: type one per line)")
    ids = SURVEYS.add_shops(pasted.urls, rate, user)
    number = f"{len(ids):,} shop{' is' if len(ids) == 1 else 's are'} being read."
    refused = pasted.refused[:REFUSED_SHOWN]
    message = "\n".join([number, *(f"Left out: {sentence}" for sentence in refused)])
    return {"message": message, "ids": ids}


def cancel_survey(engine: sa.Engine, body: Mapping[str, Any], user: str) -> Answer:
    """Ends a survey."""
    ended = SURVEYS.cancel_survey(_read_id(body))
    return "The survey is cancelled." if ended else "The survey had ended."


def forget_survey(engine: sa.Engine, body: Mapping[str, Any], user: str) -> Answer:
    """Takes a survey off the list."""
    SURVEYS.forget_survey(_read_id(body))
    return "The survey is off the list."


def start_repair(engine: sa.Engine, body: Mapping[str, Any], user: str) -> Answer:
    """Looks for new sources of the fields that `site` no longer reads."""
    site = check_name(_read_texts(body, "site")["site"])
    file = find_file(settings.load().sites_dir, site)
    REPAIRS.start(site, file, user)
    return f"The product pages of {site} are being read."


def accept_crawl(engine: sa.Engine, body: Mapping[str, Any], user: str) -> Answer:
    """Accepts the crawl `id`."""
    crawl_id = _read_id(body)
    held = judgements.accept_crawl(engine, crawl_id)
    return judgements.accepted_phrase(crawl_id, held, dry=False)


def reject_crawl(engine: sa.Engine, body: Mapping[str, Any], user: str) -> Answer:
    """Takes back what the crawl `id` wrote."""
    crawl_id = _read_id(body)
    outcome = judgements.reject_crawl(engine, crawl_id)
    return judgements.rejected_phrase(crawl_id, outcome, dry=False)


QUESTIONS: Mapping[str, Act] = {"check": check_draft, "pick": pick_source}
ACTIONS: Mapping[str, Act] = {
    "survey": survey_shops,
    "cancel": cancel_survey,
    "forget": forget_survey,
    "save": save_draft,
    "undo": undo_change,
    "crawl": crawl_site,
    "repair": start_repair,
    "accept": accept_crawl,
    "reject": reject_crawl,
}


def _make_draft(body: Mapping[str, Any]) -> Draft:
    """Reads a draft. Raises `ConfigError`, and `NotFoundError` for an unknown survey."""
    given = _read_texts(
        {name: value for name, value in body.items() if name != "survey"},
        *("name", "text", "seen", *KEYS),
    )
    text, name = body.get("text", ""), given["name"]
    if "survey" in body:
        survey = SURVEYS.find_survey(_check_id(body["survey"]))
        text, name = text or survey.text, name or survey.name
    check_name(name)
    refuse_endless(text)
    own = settings.load()
    file = find_file(own.sites_dir, name)
    wanted = {key: given[key] for key in KEYS if key in body}
    # A file of another name says itself which site it defines.
    if read_keys(text).get("name", name) != name:
        wanted["name"] = name
    if wanted:
        text = set_keys(text, wanted)
    checked = check_text(text, file, own, private=_allows_private())
    return Draft(name, file, text, checked)


def _allows_private() -> bool:
    return settings.load().of(SetupSettings).setup_private


def _check_rate(text: str) -> str:
    try:
        rate = scalars.parse_rate(text)
    except ValueError as error:
        raise ConfigError(f"rate: {error}") from None
    if rate is None:
        raise ConfigError("rate: give a number of requests (fix: as in 4/s or 60/m)")
    return text


def _parse_id(text: str) -> int:
    if not re.fullmatch("[0-9]{1,9}", text):
        raise ConfigError(f"{text[:40]!r} is not a number")
    return int(text)


def _check_id(value: object) -> int:
    if type(value) is not int or not 0 < value < 10**9:
        raise ConfigError("an id is a number")
    return value


def _read_id(body: Mapping[str, Any]) -> int:
    if len(body) != 1:
        raise ConfigError('the body is {"id": NUMBER}')
    return _check_id(body.get("id"))


def _read_texts(body: Mapping[str, Any], *names: str) -> dict[str, str]:
    """Returns the texts of a body that has no other keys; "" for one that is missing."""
    texts = {name: body.get(name, "") for name in names}
    if set(body) - set(names) or not all(isinstance(text, str) for text in texts.values()):
        raise ConfigError(f"the body has only texts, by the names {', '.join(names)}")
    return {name: text.strip() for name, text in texts.items()}
