"""What distinguishes variants of one product: sizes, colours, capacities, packs and conditions."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Set

from scraper.plugins.matching.identity.measures import Measures

Attributes = Mapping[str, Set[str]]

# A colour, to the words for it in English, German, French, Spanish, Italian and Dutch.
COLOURS = {
    "black": "black schwarz noir negro nero zwart",
    "white": "white weiß weiss blanc blanco bianco wit",
    "red": "red rot rouge rojo rosso rood",
    "blue": "blue blau bleu azul blu blauw",
    "navy": "navy marineblau marine",
    "green": "green grün gruen vert verde groen",
    "yellow": "yellow gelb jaune amarillo giallo geel",
    "grey": "grey gray grau gris grigio grijs spacegrau graphite graphit anthracite anthrazit",
    "silver": "silver silber argent plata argento zilver",
    "gold": "gold golden or dorado oro goud",
    "pink": "pink rosa rose roze",
    "purple": "purple violet lila violett viola morado paars",
    "orange": "orange naranja arancione oranje",
    "brown": "brown braun marron marrón marrone bruin",
    "beige": "beige cream creme crème",
    "turquoise": "turquoise türkis turquesa teal",
}
CONDITIONS = {
    "refurbished": "refurbished refurb renewed generalüberholt generalueberholt reconditionné "
    "reconditionne reacondicionado ricondizionato wiederaufbereitet aufbereitet remanufactured "
    "recertified refurbed gereviseerd",
    "used": "used gebraucht occasion usado usato gebruikt secondhand preowned tweedehands",
    "open": "openbox bware ausstellungsstück demoware reconditioned",
}
_SIZES = re.compile(
    r"\b(?:size|größe|groesse|gr|taille|talla|taglia|maat|eu|uk|us)\.?\s?:?\s?"
    r"(?P<a>\d{1,2}(?:[.,]5)?|x{0,4}[sl]|m)\b|(?<![\w'’-])(?P<b>x{1,4}[sl]|[2-5]xl)(?!\w)"
    r"|(?:[,/(|-]\s*)(?P<c>[sml])\s*(?:$|[,/)|])",
    re.I,
)
_BUNDLE = re.compile(
    r"\b(?:bundle|kit with|inkl\.?|incl\.?|including|avec|with free|plus gratis|set mit|im set)\b"
    r"|\s\+\s|\s&\s(?=.*\b(?:case|bag|charger|tasche|hülle)\b)",
    re.I,
)
_ACCESSORY = re.compile(
    r"\b(?:for|für|pour|per|para|voor|compatible with|kompatibel mit|passend für)\s+\w", re.I
)


def _index_words(words: Mapping[str, str]) -> dict[str, str]:
    return {word: name for name, text in words.items() for word in text.split()}


_COLOUR_WORDS, _CONDITION_WORDS = _index_words(COLOURS), _index_words(CONDITIONS)
# These differ from product to product within a line of one name; the others may be left out of one
# shop's title.
STRICT = ("pack", "condition", "bundle")
# Titles name several of these, and each counts: 8 GB of memory and 256 GB of storage.
SEVERAL = ("gb",)


def read_attributes(
    title: str, measures: Measures, fields: Mapping[str, object]
) -> dict[str, frozenset[str]]:
    """Returns the attributes of an offer, from its title and from its fields `color`, `size` and
    `condition`."""
    text = unicodedata.normalize("NFKC", title).casefold()
    stated = " ".join(str(fields[key]).casefold() for key in ("color", "colour") if fields.get(key))
    words = re.findall(r"[^\W\d_]+", f"{text} {stated}")
    joined = re.sub(r"[\W_]+", "", f"{text} {str(fields.get('condition') or '').casefold()}")
    values_by_name: dict[str, set[str]] = {
        "colour": {_COLOUR_WORDS[word] for word in words if word in _COLOUR_WORDS},
        "condition": {_CONDITION_WORDS[word] for word in words if word in _CONDITION_WORDS},
        "size": {
            (match["a"] or match["b"] or match["c"]).upper().replace(",", ".")
            for match in _SIZES.finditer(text)
        },
    }
    for name in ("openbox", "bware", "refurbished", "secondhand", "preowned"):
        if name in joined:
            values_by_name["condition"].add(_CONDITION_WORDS[name])
    if fields.get("size"):
        values_by_name["size"].add(str(fields["size"]).strip().upper())
    for value in measures.values:
        values_by_name.setdefault(value.partition(":")[0], set()).add(value.partition(":")[2])
    if measures.pack > 1:
        values_by_name["pack"] = {str(measures.pack)}
    if _BUNDLE.search(text):
        values_by_name["bundle"] = {"yes"}
    return {name: frozenset(values) for name, values in values_by_name.items() if values}


def find_contradiction(left: Attributes, right: Attributes) -> str | None:
    """Returns the attribute by which two offers cannot be one product, or None.

    >>> find_contradiction({"gb": {"64"}}, {"gb": {"128"}})
    'gb'
    >>> find_contradiction({"pack": {"6"}}, {})
    'pack'
    """
    for name in sorted({*left, *right}):
        left_values = left.get(name, frozenset())
        right_values = right.get(name, frozenset())
        if name in STRICT:
            agree = left_values == right_values
        elif name in SEVERAL:
            agree = left_values <= right_values or right_values <= left_values
        else:
            agree = bool(left_values & right_values)
        if not agree and (name in STRICT or (left_values and right_values)):
            return name
    return None


def has_unstated_variant(left: Attributes, right: Attributes) -> bool:
    """Returns whether only one of two offers states its colour or size: shops give all variants of
    a product one part number more often than one GTIN.

    >>> has_unstated_variant({"colour": {"black"}}, {})
    True
    """
    return any((name in left) != (name in right) for name in ("colour", "size"))
