"""Recognises captchas and blocks that no known sign names, from what a definition reads nothing of:
a widget on a page that is nearly empty, or one page at most addresses. Pure.

A known challenge is recognised before, by `scraper.rules.blocks`. What is said here is advice for a
person; no crawl counts such a page as blocked.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from scraper.domain import Fetched
from scraper.quality.block_pages import FIX, PAGES_MIN, SAME_SHARE, name_widget

# Pages of shops have dozens of links. A log-in form with a captcha is on such a page, too.
LINKS_MAX = 20
# Sizes within this share of the largest page are the same: a challenge contains the address.
SIZE_SHARE = 0.02
_LINK = re.compile(rb"<a\s", re.IGNORECASE)
_TITLE = re.compile(rb"<title\b[^<>]{0,1000}>([^<]{1,300})", re.IGNORECASE)


def explain_captcha(page: Fetched) -> str:
    """Returns why a page looks like a captcha, with a fix; "" if it does not."""
    links = len(_LINK.findall(page.body))
    if links > LINKS_MAX:
        return ""
    name = name_widget(page.body)
    return f"looks like a captcha: a widget of {name}, and {links} links {FIX}" if name else ""


def explain_same_pages(pages: Sequence[Fetched]) -> str:
    """Returns why most of the pages look like one page, such as a block; "" if they do not. Pages
    of products have titles of their own, and without titles, sizes."""
    bare = [page for page in pages if len(_LINK.findall(page.body)) <= LINKS_MAX]
    least = max(PAGES_MIN, SAME_SHARE * len(pages))
    if len(bare) < least:
        return ""
    named = filter(None, (_TITLE.search(page.body) for page in bare))
    titles = Counter(bytes(title[1]).strip() for title in named)
    title, times = titles.most_common(1)[0] if titles else (b"", 0)
    largest = max(len(page.body) for page in bare)
    same = sum(len(page.body) >= (1 - SIZE_SHARE) * largest for page in bare)
    if times >= least:
        shared = f"the title {title.decode(errors='replace')!r}"
    elif not titles and same >= least:
        times, shared = same, f"the same size, {largest:,} bytes,"
    else:
        return ""
    return (
        f"looks like a captcha or block: {times} of {len(pages)} pages have {shared} and hardly "
        "any links (fix: see docs/how-to/blocked-pages.md, or `--browser` if scripts fill them)"
    )
