"""Parameters of product URLs that change nothing: they name the page with the link, or a visit. By
them, a product has several addresses, and others in each crawl. Other addresses of one product
differ in what they say of its list; there, one of them is read."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import parse_qsl, urlsplit

from scraper.domain import Fetched, Kind
from scraper.errors import FetchError
from scraper.plugins.author.discovery.fields.identity import find_repeated_parameter
from scraper.plugins.author.discovery.fields.induction import FieldChoice
from scraper.plugins.author.discovery.fields.samples import ProductSample
from scraper.plugins.author.discovery.listings.listing_page import ListingPageReader
from scraper.plugins.author.discovery.product_pages import ProductPages
from scraper.plugins.author.discovery.survey import Survey
from scraper.plugins.author.discovery.trial import field_reader
from scraper.rules import urls
from scraper.sites.grammar.fields import FieldSpec
from scraper.sites.grammar.selectors import compile_regex, find_first

PARAMS_TRIED = 3
PAIRS_TRIED = 2
# A value such as that of a visit, which all addresses of a survey may share.
_VISIT = re.compile(r"(?=[^\d]*\d)(?=[^a-z]*[a-z])[\w,-]{16,}", re.I).fullmatch
# What a product's page may say of the list that led to it.
_OF_THE_LIST = ("category",)


class IdleParams:
    """Finds them by reading a product with and without each."""

    def __init__(self, reader: ListingPageReader, survey: Survey, pages: ProductPages) -> None:
        self._reader, self._survey, self._pages = reader, survey, pages
        self._extra: dict[str, tuple[Fetched, ProductSample]] = {}

    async def find(self) -> None:
        """Records them in the survey: for all pages, or for products alone if lists need them."""
        survey = self._survey
        listed = [page.url for page in survey.listing_pages]
        numbering = str((survey.listing or {}).get("pages", {}).get("param"))
        of_lists = {name for url in listed for name in _read_params(url)} | {numbering}
        suspects = self._list_suspects()
        together = self._are_paths_apart() and await self._is_idle(*suspects)
        for name in suspects:
            if not (together or await self._is_idle(name)):
                continue
            if name in of_lists and not await self._is_idle_in_lists(name):
                survey.product_params.append(name)
            else:
                survey.strip_params.append(name)
        survey.start = _drop_params(survey.start, *survey.strip_params)
        await self._find_one_address(suspects)

    async def _find_one_address(self, suspects: Sequence[str]) -> None:
        """Records whether addresses with the same id are one product's, if there are some."""
        survey = self._survey
        pattern, proved = self._find_id_pattern(), False
        certain = "url" in (survey.id or {})
        for first, second in self._list_pairs(pattern, suspects if certain else ()):
            proved = await self._is_one_product(first, second)
            if not proved:
                break
        if proved:
            survey.id, survey.one_address = {"url": str(pattern)}, True

    def _find_id_pattern(self) -> str | None:
        """Returns a pattern for the ids in addresses, which may be one to prove."""
        survey = self._survey
        return (survey.id or {}).get("url") or find_repeated_parameter(survey.known_urls)

    def _list_pairs(
        self, pattern: str | None, suspects: Sequence[str]
    ) -> Iterable[tuple[str, str]]:
        """Returns pairs of addresses that should be one product's: their ids are equal."""
        if pattern is None:
            return []
        survey, compiled = self._survey, compile_regex(pattern)
        dropped = (*survey.strip_params, *survey.product_params)
        addresses: dict[str, dict[str, str]] = {}
        for url in survey.known_urls:
            key = find_first(compiled, url)
            if key:
                addresses.setdefault(key, {}).setdefault(_drop_params(url, *dropped), url)
        several = [list(urls.values()) for urls in addresses.values() if len(urls) > 1]
        if several:
            return [(urls[0], urls[1]) for urls in several[:PAIRS_TRIED]]
        carried = {
            name: next((url for url in survey.known_urls if name in _read_params(url)), None)
            for name in suspects
            if name not in dropped
        }
        pairs = [(url, _drop_params(url, name)) for name, url in carried.items() if url]
        return pairs[:PAIRS_TRIED]

    def _are_paths_apart(self) -> bool:
        """Returns whether the paths of the URLs identify products."""
        known = self._survey.known_urls
        return len({urlsplit(url).path for url in known}) * 2 > len(known)

    def _list_suspects(self) -> list[str]:
        """Returns the parameters that do not identify products, those on most URLs first."""
        params_of_urls = [_read_params(url) for url in self._survey.known_urls]
        urls_with = Counter(name for params in params_of_urls for name in params)
        # A pattern for ids in a parameter has its name after the `[?&]` before it.
        id_pattern = str(self._find_id_pattern())
        paths_apart = self._are_paths_apart()
        suspects = []
        for name, _ in urls_with.most_common():
            values = {params.get(name) for params in params_of_urls}
            # A value that all URLs share may choose what the page shows, unless it is a visit's.
            varies = len(values) > 1 or _VISIT(str(min(values, key=str)))
            if f"]{name}=" not in id_pattern and (paths_apart or varies):
                suspects.append(name)
        return suspects[:PARAMS_TRIED]

    async def _is_idle(self, *names: str) -> bool:
        """Returns whether a product's page gives the same without the parameters: all of its
        fields, or title and price if its path is enough."""
        survey = self._survey
        carrying = [url for url in survey.known_urls if set(names) <= _read_params(url).keys()]
        if not names or not carrying:
            return False
        read = {url for url, _ in survey.product_pages}
        url = next((url for url in carrying if url in read), carrying[0])
        try:
            sample = (await self._read_product(url))[1]
            fetched, bare = await self._read_product(_drop_params(url, *names))
        except FetchError:
            return False
        # A shop that redirects to the address with the parameter needs it.
        if _read_params(fetched.url).keys() & set(names):
            return False
        compared = ("title", "price") if self._are_paths_apart() else survey.fields
        return _read_alike({name: survey.fields[name] for name in compared}, sample, bare)

    async def _is_one_product(self, one: str, other: str) -> bool:
        """Returns whether both addresses give the same product, but for what its list says."""
        fields = {
            name: choice for name, choice in self._survey.fields.items() if name not in _OF_THE_LIST
        }
        try:
            first, second = (await self._read_product(one))[1], (await self._read_product(other))[1]
        except FetchError:
            return False
        return _read_alike(fields, first, second)

    async def _read_product(self, url: str) -> tuple[Fetched, ProductSample]:
        """Reads a product page, unless the survey has read it."""
        survey = self._survey
        for (read, fetched), sample in zip(survey.product_pages, survey.samples, strict=True):
            if read == url:
                return fetched, sample
        if url not in self._extra:
            shown = Kind.PRODUCT in survey.shown
            self._extra[url] = await self._pages.read_sample(url, None, shown=shown)
        return self._extra[url]

    async def _is_idle_in_lists(self, name: str) -> bool:
        """Returns whether a list names the same products without the parameter, as for visits."""
        for page in self._survey.listing_pages:
            if name not in _read_params(page.url) or page.products is None:
                continue
            bare = await self._reader.try_read(_drop_params(page.url, name))
            products = bare.products if bare is not None else None
            return products is not None and _bare_urls(products.urls, name) == _bare_urls(
                page.products.urls, name
            )
        return False


def _read_params(url: str) -> Mapping[str, str]:
    return dict(parse_qsl(urlsplit(url).query, keep_blank_values=True))


def _drop_params(url: str, *names: str) -> str:
    return urls.clean(url, rules=urls.UrlRules(strip=names)) or url


def _bare_urls(listed: Iterable[str], name: str) -> set[str]:
    return {_drop_params(url, name) for url in listed}


def _read_alike(
    fields: Mapping[str, FieldChoice], sample: ProductSample, bare: ProductSample
) -> bool:
    """Returns whether both pages give the same values."""
    for name, choice in fields.items():
        if choice.best is not None:
            reader = field_reader(name, FieldSpec.model_validate(choice.definition()))
            if reader(sample.document)[0].get(name) != reader(bare.document)[0].get(name):
                return False
    return True
