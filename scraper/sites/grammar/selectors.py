"""Compiles selectors once: XPath for lxml, regular expressions for `regex`, JSON paths to steps
(CSS: see `css`). Pure.

Every function raises `ValueError` with a sentence that names the mistake and the fix. A selector
that was compiled never fails later because of its syntax. `REGEX_TIMEOUT_S` limits searches in
hostile pages; XPath's own `re:` functions have no such limit, so prefer the key `regex:`."""

from __future__ import annotations

import re
from enum import Enum
from functools import lru_cache
from typing import Any, NamedTuple

import parsel  # noqa: F401 - it registers XPath's has-class()
import regex
from lxml import etree

REGEX_TIMEOUT_S = 0.4
QUICK_CHARS = 1000
# The namespaces that parsel supports, and sets.
REGEXPS = {"re": "http://exslt.org/regular-expressions"}
SETS = {"set": "http://exslt.org/sets"}

_EMPTY = etree.fromstring(b"<html><body/></html>", etree.HTMLParser())
_SEGMENT = re.compile(r"([@\w:-]+)((?:\[-?\d+\])*)")
_LITERAL = re.compile(r"'[^']*'|\"[^\"]*\"")
_BRACKETS = re.compile(r"\[[^\[\]]*\]")
# XPath that compares each element with many others. (`|` merges its results pair by pair.)
_FAR = re.compile(r"preceding|following|ancestor|set:|count\(|sum\(|id\(|\||\[[^\]]*//")
# The elements of a class: `//p[contains(concat(' ', normalize-space(@class), ' '), ' price ')]`,
# with no further condition, which may ask for a position.
_OF_CLASS = re.compile(
    r"""//(?P<tag>\*|[A-Za-z][\w-]*)\[\s*(?P<test>contains\(\s*concat\(\s*(?:'\ '|"\ ")\s*,
    \s*(?:normalize-space\(\s*@class\s*\)|@class)\s*,\s*(?:'\ '|"\ ")\s*\)\s*,
    \s*(?P<quote>['"])\ (?P<name>[^\s'"]+)\ (?P=quote)\s*\))\s*\](?!\s*\[)|'[^']*'|"[^"]*\"""",
    re.X,
)
_MAY_BE_SLOW = re.compile(r"\{|\(\?|\(\*|\\[0-9gkL]")


class JsonPath(NamedTuple):
    """`Product.offers[0].price`: the @type to look for, then keys (str) and indexes (int)."""

    type: str
    steps: tuple[str | int, ...]

    def make_sibling(self, key: str) -> JsonPath:
        return JsonPath(self.type, (*self.steps[:-1], key))


@lru_cache(maxsize=4096)
def compile_xpath(xpath: str) -> etree.XPath:
    """Compiles XPath 1.0 with `re:` and `set:` of EXSLT and parsel's `has-class()`."""
    if not xpath.strip():
        raise ValueError("the XPath is empty (fix: for example `//h1/text()`)")
    try:
        return _compile_checked(xpath)
    except ValueError as error:
        raise ValueError(
            f"bad XPath {xpath!r}: {_describe_error(error)} (fix: check brackets and quotes; a "
            f"relative path starts with `//`)"
        ) from None


@lru_cache(maxsize=4096)
def compile_regex(pattern: str) -> regex.Pattern[str]:
    """Compiles a pattern of the `regex` package. Search it with the functions below, which limit
    the time."""
    if not pattern:
        raise ValueError(r"the regular expression is empty (fix: for example `(\d+)`)")
    try:
        return regex.compile(pattern)
    except (regex.error, ValueError, RecursionError, OverflowError) as error:
        raise ValueError(
            f"bad regular expression {pattern!r}: {_describe_error(error)} (fix: balance the "
            "brackets, and put a backslash before each literal `( [ + * ? .`; in YAML use 'single "
            "quotes', which keep backslashes)"
        ) from None


def find_first(pattern: regex.Pattern[str], text: str) -> str | None:
    """Returns the first matching group of the first match, or the whole match without groups, or
    None. Raises `TimeoutError` after `REGEX_TIMEOUT_S`."""
    match = _search_within_time(pattern, text)
    return None if match is None else _pick_group(match)


def matches_anywhere(pattern: regex.Pattern[str], text: str) -> bool:
    return _search_within_time(pattern, text) is not None


def _search_within_time(pattern: regex.Pattern[str], text: str) -> regex.Match[str] | None:
    """Searches within the time limit. A search that needs none keeps the interpreter's lock: to get
    it back from another thread takes longer than the search."""
    limit_s = search_timeout_s(pattern, text)
    return pattern.search(text, timeout=limit_s, concurrent=False if limit_s is None else None)


def search_timeout_s(pattern: regex.Pattern[str], text: str) -> float | None:
    """Returns the time limit for a search. It is None if even the worst text of that length takes
    only milliseconds: a limit costs ten times as much as the search itself."""
    return None if len(text) <= QUICK_CHARS and _is_at_most_quadratic(pattern) else REGEX_TIMEOUT_S


@lru_cache(maxsize=4096)
def _is_at_most_quadratic(pattern: regex.Pattern[str]) -> bool:
    """Returns whether a pattern has at most one repetition, no back-reference, and nothing that
    begins with `(?` or `{`."""
    source = pattern.pattern
    return not _MAY_BE_SLOW.search(source) and sum(map(source.count, "*+?")) <= 1


def find_all(pattern: regex.Pattern[str], text: str, limit: int) -> list[str]:
    picked_texts: list[str] = []
    for match in pattern.finditer(text, timeout=REGEX_TIMEOUT_S):
        picked = _pick_group(match)
        if picked is not None:
            picked_texts.append(picked)
        if len(picked_texts) >= limit:
            break
    return picked_texts


def _pick_group(match: regex.Match[str]) -> str | None:
    if match.re.groups:
        return next((group for group in match.groups() if group is not None), None)
    return match[0]


@lru_cache(maxsize=4096)
def parse_jsonld(path: str) -> JsonPath:
    """Parses a JSON-LD path. `offers.price` is searched for in the page's Product; a capitalised
    first word names another @type."""
    steps = _parse_steps(path)
    if not steps:
        raise ValueError(
            f"bad JSON-LD path {path!r} (fix: names joined by dots, as in "
            f"`Product.offers[0].price`)"
        )
    first = steps[0]
    if isinstance(first, str) and first[:1].isupper():
        if len(steps) == 1 or isinstance(steps[1], int):
            raise ValueError(
                f"the JSON-LD path {path!r} names only a type (fix: add a key of that type: "
                f"`{first}.name`)"
            )
        return JsonPath(first, tuple(steps[1:]))
    return JsonPath("Product", tuple(steps))


@lru_cache(maxsize=4096)
def parse_jsonld_objects(path: str) -> JsonPath:
    """Parses a JSON-LD path to objects; a type alone means each object of that type."""
    steps = _parse_steps(path)
    if len(steps) == 1 and isinstance(steps[0], str) and steps[0][:1].isupper():
        return JsonPath(steps[0], ())
    return parse_jsonld(path)


@lru_cache(maxsize=4096)
def parse_json(path: str) -> tuple[str | int, ...]:
    """Parses a path of keys and indexes in any JSON: `items[0].price`, or `$.items[0].price`. A
    list without an index means each entry."""
    steps = _parse_steps(path.removeprefix("$."))
    if not steps:
        raise ValueError(
            f"bad JSON path {path!r} (fix: names joined by dots, as in `product.offers[0].price`)"
        )
    return tuple(steps)


class XPathCost(Enum):
    """LINEAR: in the page's size; POLYNOMIAL: a page can make it quadratic or worse; UNBOUNDED: a
    regular expression without a time limit."""

    LINEAR = "linear"
    POLYNOMIAL = "polynomial"
    UNBOUNDED = "unbounded"


@lru_cache(maxsize=4096)
def classify_xpath(xpath: str) -> XPathCost:
    """Returns how the time of an XPath grows with the page: regular expressions take any time, and
    several searches among descendants multiply."""
    plain = _LITERAL.sub("''", xpath)
    if "re:" in plain:
        return XPathCost.UNBOUNDED
    if _FAR.search(plain) or plain.count("//") + plain.count("descendant") > 1:
        return XPathCost.POLYNOMIAL
    return XPathCost.LINEAR


@lru_cache(maxsize=4096)
def split_in_two_steps(xpath: str) -> tuple[etree.XPath, etree.XPath] | None:
    """Splits `//nav//a/@href` into `//nav` and `.//a/@href`, which is evaluated for each result of
    the first that is not inside another. Returns None for other XPaths, and if a step is not linear
    in the page."""
    # Strings and brackets are masked, at the same length.
    plain = _LITERAL.sub(lambda literal: "_" * len(literal[0]), xpath)
    while (hidden := _BRACKETS.sub(lambda inner: "_" * len(inner[0]), plain)) != plain:
        plain = hidden
    at = plain.rfind("//")
    # The first step must give elements, not attributes (@, ::) or text().
    if at < 1 or not plain.startswith("//") or not {"(", "@", ":"}.isdisjoint(plain[:at]):
        return None
    outer, inner = xpath[:at], "." + xpath[at:]
    # Two steps up may leave the element.
    if plain.count("..", at) + plain.count("parent", at) > 1:
        return None
    if {classify_xpath(outer), classify_xpath(inner)} != {XPathCost.LINEAR}:
        return None
    return compile_xpath(outer), compile_xpath(inner)


def _parse_steps(path: str) -> list[str | int]:
    """Parses a path; the result is empty if the path is invalid."""
    steps: list[str | int] = []
    at = 0
    while at < len(path):
        match = _SEGMENT.match(path, at)
        if match is None:
            break
        steps.append(match[1])
        steps.extend(int(index) for index in re.findall(r"-?\d+", match[2]))
        at = match.end()
        if at < len(path) and path[at] == ".":
            at += 1
            if at == len(path):
                at = -1
                break
        else:
            break
    return steps if at == len(path) else []


def _compile_checked(xpath: str) -> etree.XPath:
    try:
        compiled = _compile_quickly(xpath)
        # Only an evaluation reports unknown functions and prefixes.
        compiled(_EMPTY)
    except (etree.XPathError, ValueError, TypeError) as error:
        raise ValueError(_describe_error(error)) from None
    return compiled


def _compile_quickly(xpath: str) -> etree.XPath:
    if "set:" in xpath:
        return _RecompiledXPath(xpath, xpath, REGEXPS | SETS)
    whole = _OF_CLASS.fullmatch(xpath.removeprefix("."))
    if whole is None or not whole["tag"]:
        return _NamedXPath(xpath, _OF_CLASS.sub(_test_class_quickly, xpath), REGEXPS)
    dot = "." if xpath.startswith(".") else ""
    return _ClassXPath(xpath, dot + _test_class_quickly(whole, "."), REGEXPS, smart=True)


def _test_class_quickly(step: re.Match[str], attribute: str = "@class") -> str:
    """Returns the step with a quick test first, and without a list of all elements between."""
    tag, test, quote, name = step.group("tag", "test", "quote", "name")
    if not tag:
        return step[0]
    test = f"contains({attribute}, {quote}{name}{quote}) and {test.replace('@class', attribute)}"
    return f"/descendant::{tag}" + (f"[{test}]" if attribute == "@class" else f"/@class[{test}]")


class _NamedXPath(etree.XPath):
    """An XPath that is written as `path`, and evaluated in a form that is quicker."""

    path = ""

    def __init__(self, path: str, quick: str, names: dict[str, str], smart: bool = False) -> None:
        super().__init__(quick, namespaces=names, smart_strings=smart)
        self.path = path


class _ClassXPath(_NamedXPath):
    """The elements of a class, found by their attributes: a third of the time that it takes to ask
    each element."""

    def __call__(self, _etree_or_element: Any, **_variables: Any) -> Any:  # lxml names them so
        names: Any = super().__call__(_etree_or_element, **_variables)
        return [name.getparent() for name in names]


class _RecompiledXPath(_NamedXPath):
    """An XPath with EXSLT's sets, compiled again for every page, which costs 10 us.

    lxml registers the functions for sets (and for dates, math and strings) with each evaluation of
    an XPath that declares their prefix. From the second time on, libxml2 (2.13 and later)
    complains, and lxml adds the complaint to the evaluator's error log, which cannot be emptied. A
    worker grew by 160 to 500 bytes for each page and selector."""

    def __call__(self, _etree_or_element: Any, **_variables: Any) -> Any:  # lxml names them so
        return _NamedXPath(self.path, self.path, REGEXPS | SETS)(_etree_or_element, **_variables)


def _describe_error(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__
