"""The link or button that leads to more of a list, by its words, its sign, its class or its
address. Pure."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from selectolax.lexbor import LexborNode

from scraper.extract.document import Document
from scraper.extract.text import whole_text
from scraper.plugins.author.discovery.css_paths import find_paths, matches_first
from scraper.rules.decoding import clean_text
from scraper.sites.grammar.css import parse_css

# "Next", "next page", "page suivante", in the languages of shops.
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
# "Show more": the next page too, in shops that append it to the first one.
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
_NEXT_CLASS = re.compile(r"(?:^|[\s_-])next(?:$|[\s_-])|pagination__next|nextpage", re.I)
# An address that continues its list's with a 2: "/page/2", "?page=2", "/page-2". A 2 at the end of
# another name, such as "/lamps-c2", belongs to that.
_SECOND = re.compile(
    r"[/?](?:[^\d]*[/=])?(?:(?:page|seite|pagina|página|sida|side|strana|p)[-_]?)?2/?(?:\.\w+)?",
    re.I,
).fullmatch
LABEL_CHARS_MAX = 40
# Selectors by tags alone match other links on other pages.
LASTING_RANK_MAX = 7


def find_next_link(document: Document) -> tuple[str, str] | None:
    """Returns CSS of the link to the next page, and its URL."""
    for css in ("a[rel~=next]", "link[rel~=next]"):
        url = read_link(document.dom.css_first(css), document)
        if url is not None and url != document.url:
            return css, url
    candidates: list[tuple[int, LexborNode, str]] = []
    for link in document.dom.css("a[href]"):
        url = read_link(link, document)
        if url is None or url == document.url:
            continue
        weight = _weigh_next(link)
        if weight:
            # Of equally plain links, the one that leads to this list comes first.
            is_same_path = urlsplit(url).path == urlsplit(document.url).path
            candidates.append((2 * weight + is_same_path, link, url))
    for _, link, url in sorted(candidates, key=lambda candidate: -candidate[0]):
        css_of_link = _write_css(link, url, document)
        if css_of_link is not None:
            return css_of_link, url
    return None


def find_second_links(document: Document) -> list[tuple[str, str]]:
    """Returns CSS and URL of links whose words say nothing, and whose address is this page's with a
    2 at its end, unless other links have the same address with other numbers."""
    start = document.url.partition("?")[0].rstrip("/")
    by_form: dict[str, dict[str, LexborNode]] = {}
    for link in document.dom.css("a[href]"):
        url = read_link(link, document)
        if url is not None and url.startswith(start) and url != document.url:
            by_form.setdefault(re.sub(r"\d+", "0", url), {}).setdefault(url, link)
    links = []
    for alike in by_form.values():
        (url, link), *others = alike.items()
        if not others and _SECOND(url[len(start) :]):
            css = _write_css(link, url, document)
            if css is not None:
                links.append((css, url))
    return links


def find_more_button(document: Document) -> str | None:
    """Returns CSS of the button that brings more of the list into the page."""
    for button in document.dom.css("button, [role=button], a:not([href]), a[href^='#']"):
        text = clean_text(whole_text(button))
        if len(text) < LABEL_CHARS_MAX and _MORE_WORD.fullmatch(text.rstrip(".…").strip()):
            written = [path.css for path in find_paths(button)]
            written.append(f'{button.tag}:contains("{text}")')
            for css in written:
                if "nth-child" not in css and matches_first(css, button, document.dom):
                    return css
    return None


def read_link(link: LexborNode | None, document: Document) -> str | None:
    """Returns the URL that a link leads to, if that is another page."""
    href = link.attributes.get("href") if link is not None else None
    if not href or href.startswith("#"):
        return None
    return document.clean_link(href)


def _write_css(link: LexborNode, url: str, document: Document) -> str | None:
    """Returns a selector that matches this link alone, and may last on other pages."""
    text = clean_text(whole_text(link))
    written = [
        path.css
        for path in find_paths(link)
        if "nth-child" not in path.css and path.rank <= LASTING_RANK_MAX
    ]
    if text and '"' not in text and "\\" not in text:
        written.append(f'a:contains("{text}")')
    for css in written:
        if matches_first(css, link, document.dom):
            matched = {
                read_link(other, document) for other in parse_css(css).select_all(document.dom)
            }
            if matched <= {url, None}:
                return css
    return None


def _weigh_next(link: LexborNode) -> int:
    """Returns how plainly the link says that it leads to the next page; 0: not at all."""
    attributes = link.attributes
    text = clean_text(whole_text(link))
    bare = text.rstrip(" ›»→>+▼↓").strip()
    for weight, label in (
        (5, bare),
        (4, attributes.get("aria-label")),
        (4, attributes.get("title")),
    ):
        if label and len(label) < LABEL_CHARS_MAX and _NEXT_WORD.fullmatch(label.strip()):
            return weight
    parent = link.parent
    names = [attributes.get("class") or "", attributes.get("id") or ""]
    if parent is not None:
        names.append(parent.attributes.get("class") or "")
    if any(_NEXT_CLASS.search(name) for name in names):
        return 3
    if text in _NEXT_SIGN or _MORE_WORD.fullmatch(bare.rstrip(".…")):
        return 2
    return 0
