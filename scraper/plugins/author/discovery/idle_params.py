"""Parameters of product URLs that change nothing: they name the page with the link, or a visit. By
them, a product has several addresses, and others in each crawl."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from urllib.parse import parse_qsl, urlsplit

from scraper.domain import Kind
from scraper.errors import FetchError
from scraper.plugins.author.discovery.fields.induction import FieldChoice
from scraper.plugins.author.discovery.fields.samples import ProductSample
from scraper.plugins.author.discovery.listings.listing_page import ListingPageReader
from scraper.plugins.author.discovery.product_pages import ProductPages
from scraper.plugins.author.discovery.survey import Survey
from scraper.plugins.author.discovery.trial import field_reader
from scraper.rules import urls
from scraper.sites.grammar.fields import FieldSpec

PARAMS_TRIED = 3


class IdleParams:
    """Finds them by reading a product with and without each."""

    def __init__(self, reader: ListingPageReader, survey: Survey, pages: ProductPages) -> None:
        self._reader, self._survey, self._pages = reader, survey, pages

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

    def _are_paths_apart(self) -> bool:
        """Returns whether the paths of the URLs identify products."""
        known = self._survey.known_urls
        return len({urlsplit(url).path for url in known}) * 2 > len(known)

    def _list_suspects(self) -> list[str]:
        """Returns the parameters that do not identify products, those on most URLs first."""
        params = [_read_params(url) for url in self._survey.known_urls]
        carried = Counter(name for each in params for name in each)
        values = {name: {each.get(name) for each in params} for name in carried}
        identity = str((self._survey.id or {}).get("url", ""))
        paths_apart = self._are_paths_apart()
        suspects = [
            name
            for name, _ in carried.most_common()
            if f"]{name}=" not in identity and (paths_apart or len(values[name]) > 1)
        ]
        return suspects[:PARAMS_TRIED]

    async def _is_idle(self, *names: str) -> bool:
        """Returns whether a product's page gives the same without the parameters: all of its
        fields, or title and price if its path is enough."""
        survey = self._survey
        carrying = [url for url in survey.known_urls if set(names) <= _read_params(url).keys()]
        if not names or not carrying:
            return False
        pages = zip(survey.product_pages, survey.samples, strict=True)
        read = {url: sample for (url, _), sample in pages}
        url = next((url for url in carrying if url in read), carrying[0])
        shown = Kind.PRODUCT in survey.shown
        try:
            sample = read.get(url) or (await self._pages.read_sample(url, None, shown=shown))[1]
            plain = _drop_params(url, *names)
            fetched, bare = await self._pages.read_sample(plain, None, shown=shown)
        except FetchError:
            return False
        # A shop that redirects to the address with the parameter needs it.
        if _read_params(fetched.url).keys() & set(names):
            return False
        compared = ("title", "price") if self._are_paths_apart() else survey.fields
        return _read_alike({name: survey.fields[name] for name in compared}, sample, bare)

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
