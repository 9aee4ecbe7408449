"""How a listing goes on: the link to the next page, the pattern of the pages' numbers, and the
number of the last one. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import unquote_plus, urlsplit

from selectolax.lexbor import LexborNode

from scraper.extract.document import Document
from scraper.extract.heuristics.amounts import walk_visible
from scraper.extract.pagination import Paginator, set_param
from scraper.extract.text import whole_text
from scraper.plugins.author.discovery.css_paths import ancestors, find_paths, matches_first
from scraper.rules import urls
from scraper.rules.decoding import clean_text
from scraper.sites.grammar.css import parse_css
from scraper.sites.grammar.links import Pages

# "Next", "next page", "page suivante", in the languages that shops are written in.
_NEXT_WORD = re.compile(
    r"(?:go to )?(?:(?:the )?(?:page|seite|página|pagina|pàgina|sida|side|sivu|strona|strana"
    r"|stránka"
    r"|страница|сторінка) )?"
    r"(?:next|older|weiter|vor|nächste[rn]?|suivante?s?|siguiente|següent|próxim[ao]|seguinte"
    r"|seguente|successiv[ao]|prossim[ao]|avanti|volgende|nästa|næste|neste|seuraava|järgmine"
    r"|další|ďalšia|ďalej|następn[ay]|dalej|következő|tovább|următoarea|înainte|naslednja"
    r"|sljedeć[ae]"
    r"|sledeća|nākamā|kitas|επόμενη?|следующая|вперед|далее|наступна|следваща|sonraki|ileri"
    r"|التالي|הבא|次へ|次のページ|次ページ|次の\d+件|下一页|下一頁|下页"
    r"|다음|다음 페이지|tiếp|berikutnya)"
    r"(?: (?:page|seite|página|pagina|pàgina|sida|side|sivu|strona|strana|stránka|oldal|страница"
    r"|сторінка|sayfa|leht|results|products|items))?(?:,? (?:page )?\d+)?",
    re.I,
)
# "Show more": the next page as well, in shops that put it under the first one.
_MORE_WORD = re.compile(
    r"(?:(?:show|load|view|see|display|get) (?:\w+ )?more(?: (?:products|items|results))?|more"
    r"|more (?:products|items|results)"
    r"|(?:mehr|weitere)(?: \w+)? (?:anzeigen|laden|ansehen|zeigen)"
    r"|(?:voir|afficher|charger)(?: \w+)? plus(?: de produits)?|plus de produits"
    r"|(?:ver|cargar|mostrar|carregar|exibir) (?:más|mais)(?: (?:productos|produtos))?"
    r"|(?:carica|mostra|vedi) (?:altri|altro|di più)(?: prodotti)?"
    r"|(?:meer|toon meer)(?: \w+)?(?: (?:laden|tonen|weergeven))?|laad meer"
    r"|(?:visa|ladda|vis|hent|last inn|indlæs) (?:fler|flere|mere|mer)(?: \w+)?"
    r"|(?:näytä|lataa) lisää|(?:pokaż|załaduj|wczytaj) więcej|(?:zobrazit|načíst"
    r"|načítať) (?:více|další|viac)"
    r"|(?:továbbiak|több) (?:betöltése|termék)|(?:vezi|încarcă|afișează) mai multe"
    r"|prikaži več|učitaj više|prikaži više"
    r"|(?:показать|загрузить|показати|завантажити) (?:ещё|еще|больше|ще|більше)"
    r"|daha fazla(?: \w+)?|عرض المزيد|المزيد|もっと見る|さらに表示|查看更多|加载更多|더 ?보기)",
    re.I,
)
_NEXT_SIGN = frozenset({"›", "»", "→", ">", ">>", "⟩", "❯", "▶", "&gt;"})
_SECOND = re.compile(r"[/?][^\d]*2/?(?:\.\w+)?").fullmatch
_NEXT_CLASS = re.compile(r"(?:^|[\s_-])next(?:$|[\s_-])|pagination__next|nextpage", re.I)
# "Page 1 of 50", "Seite 1 von 50", "1 / 50".
_OF = re.compile(
    r"(?:\d+)\s*(of|von|sur|de|di|van|av|af|z|ze|из|/)\s*(\d{1,6})(?![\d.,%€$£])", re.I
)
_TEXT_MAX = 120


@dataclass(frozen=True, slots=True)
class Numbering:
    """The pages' URLs differ in one number. Either `param` or `template` says where it is."""

    first: int
    step: int
    param: str | None = None
    template: str | None = None

    def url(self, of: str, number: int) -> str:
        if self.template is not None:
            return self.template.replace("{page}", str(number))
        assert self.param is not None
        return set_param(of, self.param, number)

    def nth(self, of: str, page: int) -> str:
        """The URL of the list's first page, second …"""
        return self.url(of, self.first + self.step * (page - 1))

    def options(self) -> dict[str, Any]:
        """As `listing.pages` of a definition says it."""
        options: dict[str, Any] = {}
        if self.param is not None:
            options["param"] = self.param
        else:
            parts = urlsplit(self.template or "")
            options["url"] = parts.path + (f"?{parts.query}" if parts.query else "")
        if self.first != 1:
            options["first"] = self.first
        if self.step != 1:
            options["step"] = self.step
        return options


@dataclass(frozen=True, slots=True)
class Last:
    """Where the number of pages is read: `options` as `listing.pages` says it. A low `rank`
    lasts."""

    pages: int
    options: dict[str, Any]
    text: str
    rank: int = 0


def next_link(document: Document) -> tuple[str, str] | None:
    """CSS of the link to the next page, and its URL."""
    for css in ("a[rel~=next]", "link[rel~=next]"):
        link = document.dom.css_first(css)
        url = _url(link, document)
        if url is not None and url != document.url:
            return css, url
    candidates: list[tuple[int, LexborNode, str]] = []
    for link in document.dom.css("a[href]"):
        url = _url(link, document)
        if url is None or url == document.url:
            continue
        weight = _says_next(link)
        if weight:
            # Of several the one that leads to this very list.
            alike = urlsplit(url).path == urlsplit(document.url).path
            candidates.append((2 * weight + alike, link, url))
    for _, link, url in sorted(candidates, key=lambda item: -item[0]):
        written = _css_of(link, url, document)
        if written is not None:
            return written, url
    return None


def second_links(document: Document) -> list[tuple[str, str]]:
    """Links whose words say nothing, and whose address is this page's with a 2 behind it that no
    other link counts from: CSS and URL of each."""
    start = document.url.partition("?")[0].rstrip("/")
    behind: dict[str, dict[str, LexborNode]] = {}
    for link in document.dom.css("a[href]"):
        url = _url(link, document)
        if url is not None and url.startswith(start) and url != document.url:
            behind.setdefault(re.sub(r"\d+", "0", url), {}).setdefault(url, link)
    links = []
    for alike in behind.values():
        (url, link), *others = alike.items()
        if not others and _SECOND(url[len(start) :]):
            css = _css_of(link, url, document)
            if css is not None:
                links.append((css, url))
    return links


def _css_of(link: LexborNode, url: str, document: Document) -> str | None:
    """What matches this link alone, on other pages as well."""
    text = clean_text(whole_text(link))
    written = [
        path.css for path in find_paths(link) if "nth-child" not in path.css and path.rank < 8
    ]
    if text and '"' not in text and "\\" not in text:
        written.append(f'a:contains("{text}")')
    for css in written:
        if matches_first(css, link, document.dom):
            matched = {_url(other, document) for other in parse_css(css).elements(document.dom)}
            if matched <= {url, None}:
                return css
    return None


def more_button(document: Document) -> str | None:
    """CSS of the button that brings more of the list into the page."""
    for button in document.dom.css("button, [role=button], a:not([href]), a[href^='#']"):
        text = clean_text(whole_text(button))
        if len(text) < 40 and _MORE_WORD.fullmatch(text.rstrip(".…").strip()):
            written = [path.css for path in find_paths(button)]
            written.append(f'{button.tag}:contains("{text}")')
            for css in written:
                if "nth-child" not in css and matches_first(css, button, document.dom):
                    return css
    return None


def numbered_links(document: Document) -> dict[int, str]:
    """The URLs of links that are nothing but a page's number, in a row of at least two."""
    pages: dict[int, str] = {}
    for link in document.dom.css("a[href]"):
        text = clean_text(whole_text(link))
        url = _url(link, document)
        if text.isdigit() and len(text) < 6 and url is not None and text in url:
            pages.setdefault(int(text), url)
    return pages if len(pages) >= 2 or 2 in pages else {}


def pager_links(document: Document) -> str | None:
    """CSS of all the links to numbered pages."""
    pager = _pager(document)
    for path in find_paths(pager) if pager is not None else ():
        if ":nth-child" not in path.css and matches_first(path.css, pager, document.dom):  # type: ignore[arg-type]
            return f"{path.css} a"
    return None


def numbering(second: str, third: str | None, first: str | None = None) -> Numbering | None:
    """What the URLs of the second and the third page have in common, or of the first and the
    second; of the second alone only where it has a 2 in one place that says it counts pages."""
    if third is not None:
        return _between(second, third)
    begun = _between(first, second) if first is not None else None
    if begun is not None:
        return replace(begun, first=begun.first + begun.step)
    for key, value in _query(second):
        if value == "2" and re.fullmatch(
            r"p|pg|page|paged|seite|pagina|página|sida|side|strana", key
        ):
            return Numbering(1, 1, param=key)
    match = re.search(r"(?:page|seite|pagina|sida|side|strana|p)[-_/=]?(2)(?=$|[/.?])", second)
    if match is not None:
        return Numbering(
            1, 1, template=second[: match.start(1)] + "{page}" + second[match.end(1) :]
        )
    return None


def last_pages(document: Document, number: Numbering) -> list[Last]:
    """Where the page may say how many there are, the likeliest first."""
    candidates: list[tuple[int, Last]] = []
    for element in walk_visible(document.dom.root):  # type: ignore[arg-type]
        text = clean_text(whole_text(element))
        if not text or len(text) > _TEXT_MAX or not any(map(str.isdigit, text)):
            continue
        of = _OF.search(text)
        if of is not None and 1 < int(of[2]) < 100_000:
            regex = rf"\d+\s*{re.escape(of[1])}\s*(\d+)"
            last = _readable(document, element, int(of[2]), regex, text)
            if last is not None:
                candidates.append((last.rank * 20 + len(text), last))
    pager = _pager(document)
    if pager is not None and number.step == 1:
        text = clean_text(whole_text(pager))
        numbers = re.findall(r"\d+", text)
        if numbers and number.first == 1 and 1 < int(numbers[-1]) < 100_000:
            last = _readable(document, pager, int(numbers[-1]), r"(\d+)\D*$", text)
            if last is not None:
                candidates.append((1000, last))
    return [last for _, last in sorted(candidates, key=lambda item: item[0])]


def _pager(document: Document) -> LexborNode | None:
    """The smallest element that holds all the links to numbered pages."""
    links = [
        link
        for link in document.dom.css("a[href]")
        if clean_text(whole_text(link)).isdigit() and _url(link, document)
    ]
    if not links:
        return None
    for ancestor in ancestors(links[0], 8):
        inside = {link.mem_id for link in ancestor.css("a[href]")}
        if all(link.mem_id in inside for link in links):
            return ancestor
    return None


def _readable(
    document: Document, element: LexborNode, pages: int, regex: str, text: str
) -> Last | None:
    plain = regex.replace(r"\d+\s*", "", 1).replace(r"\s*", " ")
    regex = plain if re.search(plain, text) else regex
    for path in find_paths(element):
        if matches_first(path.css, element, document.dom):
            return Last(pages, {"css": path.css, "regex": regex}, text, path.rank)
    return None


def leads_to_all(document: Document, last: Last, number: Numbering) -> bool:
    """Whether a crawl would find each of the pages by what this one, the first, says."""
    pages = Pages.model_validate({**last.options, **number.options()})
    problems: list[str] = []
    listed = set(Paginator(pages, last.pages + 1).find_pages(document, 0, True, problems))
    ends = {number.first + number.step * at for at in range(1, last.pages)}
    return {number.url(document.url, end) for end in ends} <= listed and not problems


def _says_next(link: LexborNode) -> int:
    """How plainly it does: 0 for not at all."""
    attributes = link.attributes
    text = clean_text(whole_text(link))
    bare = text.rstrip(" ›»→>+▼↓").strip()
    for weight, label in (
        (5, bare),
        (4, attributes.get("aria-label")),
        (4, attributes.get("title")),
    ):
        if label and len(label) < 40 and _NEXT_WORD.fullmatch(label.strip()):
            return weight
    parent = link.parent
    classes = [attributes.get("class") or "", attributes.get("id") or ""]
    if parent is not None:
        classes.append(parent.attributes.get("class") or "")
    if any(_NEXT_CLASS.search(name) for name in classes):
        return 3
    if text in _NEXT_SIGN or _MORE_WORD.fullmatch(bare.rstrip(".…")):
        return 2
    return 0


def _between(second: str, third: str) -> Numbering | None:
    numbers = [list(re.finditer(r"\d+", url)) for url in (second, third)]
    if len(numbers[0]) != len(numbers[1]) or re.sub(r"\d+", "#", second) != re.sub(
        r"\d+", "#", third
    ):
        return None
    differing = [pair for pair in zip(*numbers, strict=True) if pair[0][0] != pair[1][0]]
    if len(differing) != 1:
        return None
    match, other = differing[0]
    at, step = int(match[0]), int(other[0]) - int(match[0])
    first = at - step
    if step < 1 or first < -step:
        return None
    for key, value in _query(second):
        if value == match[0] and second[: match.start()].endswith(f"{key}="):
            return Numbering(first, step, param=key)
    template = second[: match.start()] + "{page}" + second[match.end() :]
    return Numbering(first, step, template=template)


def _query(url: str) -> list[tuple[str, str]]:
    pairs = (pair.partition("=") for pair in urlsplit(url).query.split("&") if pair)
    return [(unquote_plus(key), unquote_plus(value)) for key, _, value in pairs]


def _url(link: LexborNode | None, document: Document) -> str | None:
    href = link.attributes.get("href") if link is not None else None
    if not href or href.startswith("#"):
        return None
    return urls.clean(href, document.base)
