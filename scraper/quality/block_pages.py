"""Recognises captchas and blocks that no known sign names, among pages that lack a field: a widget,
or one short page at most addresses. Pure.

A known challenge is recognised before, by `scraper.rules.blocks`. What is said here is advice for a
person; no page counts as blocked by it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from scraper.results.excerpts import SHOWN_CHARS

PAGES_MIN = 3
SAME_SHARE = 0.8
FIX = "(fix: see docs/how-to/blocked-pages.md)"
_WIDGETS = {
    "reCAPTCHA": rb"""["'\s]g-recaptcha["'\s]|/recaptcha/(api2|enterprise)/anchor""",
    "hCaptcha": rb"""["'\s]h-captcha["'\s]|hcaptcha\.com/1/api""",
    "Turnstile": rb"""["'\s]cf-turnstile["'\s]""",
    "Friendly Captcha": rb"""["'\s]frc-captcha["'\s]""",
    "GeeTest": rb"""geetest\.com|initGeetest""",
    "Arkose": rb"""arkoselabs\.com|funcaptcha\.com""",
    "captcha": rb"""<(img|iframe|form|input)[^>]{0,500}captcha""",
}
_PATTERNS = {name: re.compile(pattern, re.IGNORECASE) for name, pattern in _WIDGETS.items()}
# A challenge repeats the address, and has a reference for each request. Short numbers, such as
# prices, are what products differ by.
_CHANGING = re.compile(r"https?:\S*|\b(?=\w*\d)(?=\w*[^\W\d])\w+|\b\d{6,}\b")


def name_widget(body: bytes) -> str | None:
    """Returns the name of the captcha whose widget is in a page."""
    return next((name for name, widget in _PATTERNS.items() if widget.search(body)), None)


def explain_examples(excerpts: Mapping[str, Sequence[str]]) -> str:
    """Returns why the pages that lack a field look like a captcha or block, with a fix; "" if they
    do not. `excerpts` are those of examples, by field: a block lacks what every product has, so it
    is most examples of one field at least. A shop's own page is longer than an excerpt."""
    return next(filter(None, map(_explain_excerpts, excerpts.values())), "")


def _explain_excerpts(excerpts: Sequence[str]) -> str:
    widgets = Counter(filter(None, (name_widget(text.encode()) for text in excerpts)))
    short = (text for text in excerpts if 0 < len(text) < SHOWN_CHARS)
    texts = Counter(_CHANGING.sub("", text) for text in short)
    for counter, sentence in (
        (widgets, "captcha: {} of {} pages have a widget of {}"),
        (texts, "captcha or block: {} of {} pages say the same"),
    ):
        shared, times = counter.most_common(1)[0] if counter else ("", 0)
        if times >= max(PAGES_MIN, SAME_SHARE * len(excerpts)):
            return f"looks like a {sentence.format(times, len(excerpts), shared)} {FIX}"
    return ""
