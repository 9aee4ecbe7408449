"""The Crawls tab for everybody: its colours' contrast in both schemes as WCAG 2.2 AA wants it, every
control by keyboard and with a name, every chart with its meaning in words."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from itertools import dropwhile, takewhile
from typing import Any

import pytest
import sqlalchemy as sa
from playwright.sync_api import Browser, Page, expect

from scraper.domain import Outcome
from scraper.plugins.flower.access.users import ROLES, change_users, with_password
from scraper.settings import Settings
from tests.acceptance.commands import Commands
from tests.acceptance.tab_window import PHONE, WIDE, Window, picture
from tests.support.judged_crawls import crawled, good, shop, without
from tests.support.making import a_site, add, give_up, new_page, open_crawl, urls
from tests.support.servers.flower import Flower

# What is drawn of colours is read off a canvas, which knows every way in which CSS writes them.
CONTRAST = """() => {
  const canvas = document.createElement('canvas');
  canvas.width = canvas.height = 1;
  const pen = canvas.getContext('2d', {willReadFrequently: true});
  const drawn = (colours) => {
    pen.clearRect(0, 0, 1, 1);
    for (const colour of colours) { pen.fillStyle = colour; pen.fillRect(0, 0, 1, 1); }
    return [...pen.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const light = (rgb) => rgb.map((c) => c / 255).map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const ratio = (a, b) => { const [x, y] = [light(a), light(b)].sort((m, n) => n - m); return (x + 0.05) / (y + 0.05); };
  const behind = (e) => { const found = []; for (; e; e = e.parentElement) found.unshift(getComputedStyle(e).backgroundColor); return ['#fff', ...found]; };
  const seen = (e) => e.checkVisibility() && e.getBoundingClientRect().width > 0;
  const faults = [];
  let texts = 0, shapes = 0;
  const check = (e, colour, under, least, what) => {
    const r = ratio(drawn([...under, colour]), drawn(under));
    if (r < least) faults.push(`${r.toFixed(2)} < ${least}: ${what} ${e.outerHTML.slice(0, 120)}`);
  };
  for (const e of document.querySelectorAll('#crawls-page *')) {
    const style = getComputedStyle(e);
    if (!seen(e)) continue;
    if ([...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim())) {
      const size = parseFloat(style.fontSize), large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
      texts++;
      check(e, e instanceof SVGElement ? style.fill : style.color, behind(e), large ? 3 : 4.5, 'text');
    }
    if (e.matches('.chart-line, .chart-bar, .chart-dot') && e.tagName !== 'title') {
      shapes++;
      check(e, e.matches('.chart-line') ? style.stroke : style.fill, behind(e), 3, 'shape');
    }
    if (e.matches('input, select, textarea')) check(e, style.color, behind(e), 4.5, 'field');
  }
  for (const canvas of document.querySelectorAll('#crawls-page .chart-figure canvas')) {
    const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data, seen = new Set();
    for (let i = 0; i < data.length; i += 4) if (data[i + 3] === 255) seen.add(data.slice(i, i + 3).join());
    const under = drawn(behind(canvas)), best = Math.max(0, ...[...seen].map((rgb) => ratio(rgb.split(',').map(Number), under)));
    shapes++;
    if (best < 3) faults.push(`${best.toFixed(2)} < 3: chart ${canvas.closest('.chart-figure').ariaLabel}`);
  }
  const card = document.querySelector('.crawl-card');
  const sheet = [...document.styleSheets].find((each) => each.href?.includes('/crawls/assets/crawls.css'));
  const tones = [...sheet.cssRules].flatMap((rule) => [...(rule.selectorText || '').matchAll(/\\.(tone-[\\w-]+)/g)].map((match) => match[1]));
  for (const tone of tones) {
    const key = document.createElement('i');
    key.className = `chart-key ${tone}`;
    card.append(key);
    check(key, getComputedStyle(key).backgroundColor, behind(card), 3, 'tone');
    key.remove();
  }
  return {faults, texts, shapes, tones: tones.length}; }"""

# A colour that moves to the other scheme's is there.
SETTLED = """() => document.getAnimations()
  .filter((each) => each instanceof CSSTransition).forEach((each) => each.finish())"""

# The page draws no more answers, so controls neither come nor go: none is under way after a drawing.
FROZEN = """() => new Promise((frozen) => {
  const freeze = () => { window.fetch = () => new Promise(() => {}); frozen(); };
  new MutationObserver(freeze).observe(document.getElementById('crawls-page'), {attributeFilter: ['data-refreshed']});
})"""

REACHABLE = """
  const all = [...document.querySelectorAll('#crawls-page a[href], #crawls-page button, #crawls-page input, #crawls-page select, #crawls-page textarea, #crawls-page summary, #crawls-page [tabindex]')]
    .filter((e) => e.checkVisibility() && !e.disabled);"""

CONTROLS = (
    f"() => {{{REACHABLE}"
    """
  const name = (e) => e.getAttribute('aria-label') || [...(e.labels || [])].map((label) => label.textContent.trim()).join(' ') || e.textContent.trim() || e.title;
  return {controls: all.length, nameless: all.filter((e) => !name(e)).map((e) => e.outerHTML.slice(0, 120)),
          pictures: [...document.querySelectorAll('#crawls-page svg, #crawls-page .chart-figure')].filter((e) => e.getAttribute('role') !== 'img' || !e.getAttribute('aria-label')).length,
          tables: [...document.querySelectorAll('#crawls-page th')].filter((e) => e.getAttribute('scope') !== 'col').length,
          heads: document.querySelectorAll('h1').length}; }"""
)

# Notes what gets the focus: the number of the control, and whether it shows.
WATCHED = (
    """() => {
  window.focused = [];
  document.addEventListener('focusin', (event) => {"""
    f"{REACHABLE}"
    """
    const e = event.target, style = getComputedStyle(e), at = all.indexOf(e);
    window.focused.push({control: at < 0 ? null : at, shown: style.outlineStyle !== 'none' || style.boxShadow !== 'none'});
  }); }"""
)
TABS_AT_ONCE = 20


@pytest.fixture
def pages(engine: sa.Engine) -> list[str]:
    """A fleet in every state, a suspect crawl, a crawl with dead pages, a site, its products, one of
    them."""
    for number in range(3):
        crawled(engine, shop(), range(30), lambda n, more=number: good(n, price=Decimal(n + more)))
    suspect = crawled(engine, shop(), range(30), lambda n: without(good(n), "price"))
    for name in ("failed", "paused", "stopped", "skipped", "planned", "completed", "waits"):
        open_crawl(engine, a_site(name, tags=["garden"]))
    running = open_crawl(engine, a_site("running"))
    outcomes = (Outcome.REFUSED, Outcome.NOT_EXTRACTED, Outcome.BLOCKED)
    for number, outcome in enumerate(outcomes):
        give_up(engine, running, urls(2, f"h{number}.example"), outcome, error="no", excerpt="<b>")
    add(engine, [new_page(running, "https://shop.example/due")])
    with engine.begin() as connection:
        for name in ("failed", "stopped", "completed", "planned"):
            connection.execute(
                sa.text(
                    """UPDATE crawls SET status = :name, note = 'so it is', finished_at = now()
                        WHERE site_id = (SELECT id FROM sites WHERE name = :name)"""
                ),
                {"name": name},
            )
        connection.execute(sa.text("UPDATE sites SET paused = true WHERE name = 'paused'"))
        # Charts of days begin with the seventh.
        connection.execute(
            sa.text("UPDATE crawls SET finished_at = now() - interval '8 days' WHERE id = 1")
        )
        connection.execute(
            sa.text(
                """UPDATE crawls SET started_at = now() - interval '1 h'
                    WHERE site_id = (SELECT id FROM sites WHERE name = 'waits')"""
            )
        )
        for queue, proxy, outcome in (("a", "", "fetched"), ("b", "residential", "proxy_error")):
            connection.execute(
                sa.text(
                    """INSERT INTO throughput SELECT :id, now() - make_interval(secs => 10 * n), 10,
                              'w', :queue, :proxy, :outcome, 9 + n, 9, 1, 700
                         FROM generate_series(0, 20) n"""
                ),
                {"id": running[1], "queue": queue, "proxy": proxy, "outcome": outcome},
            )
    return [
        "/crawls",
        "/crawls?show=crawls",
        f"/crawls/{suspect.id}",
        f"/crawls/{running[1]}",
        "/crawls/sites/shop",
        "/crawls/products?site=shop",
        "/crawls/products?site=shop&id=5",
        "/crawls/setup",
        "/crawls/articles",
    ]


def test_colours_differ_and_everything_is_reached_by_keyboard(
    run: Commands, environment: Settings, browser: Browser, pages: list[str]
) -> None:
    window = Window(browser, Flower(run, environment))
    shapes: Counter[str] = Counter()
    for path in pages:
        page = window.turn("dark", WIDE).open(path)
        page.evaluate(
            "document.querySelectorAll('details').forEach((each) => { each.open = true; })"
        )
        # The page follows the scheme without being loaded again.
        for scheme in ("dark", "light"):
            window.turn(scheme, WIDE)
            expect(page.locator("html")).to_have_attribute("data-bs-theme", scheme)
            page.evaluate(SETTLED)
            page.wait_for_timeout(100)
            found = page.evaluate(CONTRAST)
            assert found["faults"] == [], (scheme, path)
            assert found["texts"] > 10 and found["tones"] > 20
            shapes[scheme] += found["shapes"]
        assert_reached(page, path)
    # A chart is one shape, however many bars it has.
    assert shapes["dark"] > 10 and shapes["light"] > 10
    window.assert_quiet()


def test_the_first_row_is_near_the_top(
    run: Commands, environment: Settings, browser: Browser, pages: list[str], engine: sa.Engine
) -> None:
    flower = Flower(run, environment)
    window = Window(browser, flower)
    page = window.turn("dark", {"width": 1280, "height": 800}).open("/")
    assert page.url == f"{flower.url}/crawls"
    mark = page.locator(".app-brand img")
    assert mark.evaluate("(e) => e.complete && e.naturalWidth > 0")
    assert "/crawls/assets/icon.svg" in (mark.get_attribute("src") or "")
    assert page.locator("nav a[href^=http]").count() == 0 and page.title() == "Crawls · Scraper"
    # The page follows the scheme without being loaded again.
    for scheme in ("dark", "light"):
        window.turn(scheme, {"width": 1280, "height": 800})
        expect(page.locator("html")).to_have_attribute("data-bs-theme", scheme)
        assert window.overflows() == []
        picture(window, f"first-{scheme}")
        assert window.measure("#fleet tbody tr")["y"] <= 200
        cut = "(all) => all.filter((e) => e.scrollWidth > e.clientWidth + 1).map((e) => e.textContent)"
        assert page.locator(".metric-card").evaluate_all(cut) == []
    # Nothing runs: what is watched, and who needs a person, takes the place of the speed.
    with engine.begin() as connection:
        connection.execute(
            sa.text(
                """UPDATE crawls SET status = 'completed', finished_at = now()
                    WHERE status IN ('running', 'planned')"""
            )
        )
        connection.execute(
            sa.text(
                "UPDATE crawls SET products_repriced = 7 WHERE id = (SELECT max(id) FROM crawls)"
            )
        )
    page = window.open("/crawls")
    tiles = page.locator("#summary .metric-card")
    watched = tiles.filter(has_text="Products watched").locator(".metric-value")
    expect(watched).to_have_text("30")
    changes = tiles.filter(has_text="Price changes today").locator(".metric-value")
    expect(changes).not_to_have_text("0")
    need = tiles.filter(has_text="Need you").locator(".metric-value")
    states = flower.json("/api/crawls")["totals"]["states"]
    wrong = ("failed", "suspect", "waiting", "failing", "dead pages")
    expect(need).to_have_text(str(sum(states.get(name, 0) for name in wrong)))
    picture(window, "first-quiet")
    cut = "(all) => all.filter((e) => e.scrollWidth > e.clientWidth + 1).map((e) => e.textContent)"
    assert page.locator(".metric-card").evaluate_all(cut) == [] and window.overflows() == []
    page.get_by_role("link", name="Price changes today").press("Enter")
    expect(page.locator("#heading")).to_have_text("Drops")
    window.drawn()
    window.assert_quiet()


def test_a_user_sees_what_the_role_may_do(
    run: Commands, environment: Settings, browser: Browser, pages: list[str], engine: sa.Engine
) -> None:
    with change_users(environment.home_dir) as users:
        for role in ROLES:
            users[role] = with_password(role, role, "correct horse")
    flower = Flower(run, environment)
    for role, buttons in zip(ROLES, (0, 2, 2), strict=True):
        scheme = "dark" if role == "read" else "light"
        window = Window(browser, flower, user=(role, "correct horse"), scheme=scheme, size=PHONE)
        page = window.open("/crawls/sites/shop")
        assert page.locator("#actions button").count() == buttons, role
        assert page.get_by_role("link", name="Edit definition").count() == (role == "edit")
        assert window.overflows() == []
        page = window.open("/crawls")
        assert page.get_by_role("link", name="Add shops").count() == (role == "edit")
        if role == "operate":
            page = window.open("/crawls/sites/shop")
            page.get_by_role("button", name="Pause site").press("Enter")
            expect(page.get_by_role("status")).to_contain_text("shop is paused")
        window.assert_quiet()
    paused = sa.text("SELECT paused FROM sites WHERE name = 'shop'")
    with engine.connect() as connection:
        assert connection.execute(paused).scalar_one()


def test_a_redrawn_section_keeps_the_focus(
    run: Commands, environment: Settings, browser: Browser, pages: list[str]
) -> None:
    page = Window(browser, Flower(run, environment)).open("/crawls")
    page.evaluate(FROZEN)
    draw = """(row) => crawlsTab.section("fleet", row, () =>
        crawlsTab.table([["Page"]], [[crawlsTab.link("https://shop.example/1")], [row]], "Pages"))"""
    page.evaluate(draw, 1)
    for number, chosen in enumerate(("#fleet [role=region]", "#fleet a")):
        focused = page.locator(chosen)
        focused.evaluate("(e) => { e.focus(); e.isOld = true; }")
        page.evaluate(draw, f"drawn {number}")
        assert focused.evaluate("(e) => e === document.activeElement && !e.isOld"), chosen
    page.evaluate("document.getElementById('fleet').innerHTML = '<div id=chart></div>'")
    draw = """(values) => crawlCharts.chart(document.getElementById("chart"), {
        label: "Pages", unit: "pages", kind: "bars", step_s: 86400, series: [{name: "pages", tone: "tone-rate"}],
        points: values.map((value, n) => ({at: `2026-01-0${n + 1}T00:00:00Z`, values: [value]}))})"""
    page.evaluate(draw, [4, 5])
    page.locator("#chart summary").press("Enter")
    region = page.locator("#chart [role=region]")
    region.focus()
    page.evaluate(draw, [4, 5, 6])
    expect(region.locator("td")).to_have_text(["3 Jan", "6", "2 Jan", "5", "1 Jan", "4"])
    expect(region).to_be_focused()


def assert_reached(page: Page, path: str) -> None:
    """Tab comes to every control, in the order of the page, and each shows that it has the focus."""
    page.evaluate(FROZEN)
    controls = page.evaluate(CONTROLS)
    assert controls["nameless"] == [] and controls["controls"] > 3, path
    assert (controls["pictures"], controls["tables"], controls["heads"]) == (0, 0, 1), path
    page.evaluate("document.activeElement.blur()")
    page.evaluate(WATCHED)
    reached: list[dict[str, Any]] = []
    for _ in range(0, controls["controls"] + 60, TABS_AT_ONCE):
        for _ in range(TABS_AT_ONCE):
            page.keyboard.press("Tab")
        focused = page.evaluate("window.focused")
        inside = dropwhile(lambda focus: focus["control"] is None, focused)
        reached = list(takewhile(lambda focus: focus["control"] is not None, inside))
        if reached and reached[-1] != focused[-1]:
            break
    assert all(focus["shown"] for focus in reached), (path, reached)
    assert [focus["control"] for focus in reached] == list(range(controls["controls"])), path
