"""The words next to an amount: of former prices, instalments, deposits, net prices. Pure."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

_TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
WORDS = {name: f"(?:{'|'.join(words)})" for name, words in _TABLE.items()}
# Units of numbers that are not amounts: percentages, measures, pieces.
OTHER = re.compile(
    r"\s?(?:%|(?:[kmcd]?g|[mcd]?l|[mck]m|m[²³23]|oz|lbs?|inch|gb|tb|mb|w|v|pcs|pieces?|pack"
    r"|stück|stk"
    r"|st|pièces?|x)\b|[x×]\s?\d)",
    re.IGNORECASE,
).match
# Words before a former price or a saving, after the previous amount.
FORMER = re.compile(rf"(?:\b{WORDS['former']}\b|{WORDS['former_unspaced']})[^\d]*$", re.IGNORECASE)
# A deposit, or the lowest price of the last 30 days, which shops in the EU show.
OTHER_PURPOSE = re.compile(
    rf"\b{WORDS['deposit']}\b|\b30[\s-]?(?:\w+\s)?{WORDS['days']}", re.IGNORECASE
)
# Before an amount that is for something else: a deposit, an instalment, a delivery.
EXTRA = re.compile(
    rf"{OTHER_PURPOSE.pattern}|(?:^|[\s(])\+\s|\b{WORDS['added']}\b\.?\s*\w*\W*$"
    rf"|\b{WORDS['lowest']}|\d\s?[x×*]\s?(?:de|of|a|à|von|di|da|po|av)?\s?\W*$"
    rf"|\b(?:{WORDS['instalment']}|{WORDS['instalment_only']}|{WORDS['delivery']}"
    rf"|{WORDS['coupon']})\b(?:\s?0\s?%)?[^\d]*$"
    rf"|{WORDS['instalment_unspaced']}[^\d]*$",
    re.IGNORECASE,
).search
# Before an amount that is one of several: "12 x $49.90", "4 interest-free payments of $12.50".
INSTALMENT = re.compile(
    rf"(?<![\d.,])(?:[2-9]|[1-9]\d)\s?(?:[x×]|(?:[^\W\d][\w-]*\s){{0,2}}(?:{WORDS['instalment']}"
    rf"|{WORDS['instalment_only']}))(?:\s(?:de|of|a|à|von|di|da|po|av|zu|по))?\W*$",
    re.IGNORECASE,
).search
# Right behind an amount: what it is for, or a month.
EXTRA_BEHIND = re.compile(
    rf"\)?\s?(?:(?:d['’])?{WORDS['deposit']}\b(?!\W{{0,3}}\w{{0,3}}\s?\d)"
    rf"|(?:/|\b(?:per|pro|im|par|al|por|na|i|a|en|в)\s)\s?{WORDS['month']}\b"
    rf"|{WORDS['coupon']}\b(?!\D*\d)"
    r"|mtl\b|monatlich|mensual|mensili|monthly"
    r"|(?:every|each)\s(?:\w+\s)?(?:weeks?|months?|fortnight)\b|(?:a|per)\s(?:week|fortnight)\b)",
    re.IGNORECASE,
).match
# An amount in brackets, or after a sign for "about", repeats the price in another currency.
REPEATED = re.compile(rf"[(\[≈~=≙]\s?$|\b{WORDS['about']}\.?\s?$", re.IGNORECASE).search
# Such a word before a colon or a percentage belongs to what follows.
SAVED = re.compile(
    r"\s*(?:off|discount|rabatt|saved|save(?=\W*$)|gespart|de remise|korting)\b"
    r"(?!\s*(?::|[-–]?\s?\d{1,2}(?:[.,]\d)?\s?%))",
    re.IGNORECASE,
).match
PER_UNIT = re.compile(
    rf"\s*(?:/|(?:per|pro|je|par|por|al|à|le|za|за|na)\b|p\.)\s?\d{{0,4}}\s?(?:{WORDS['unit']}|100)\b",
    re.IGNORECASE,
).match
NET = re.compile(
    rf"\W{{0,3}}?(?:\b{WORDS['net']}\.?:? ?(?:de )?{WORDS['tax']}\b|\b{WORDS['net_alone']}\b"
    rf"|\+ ?{WORDS['tax']}\b|税(?:抜|別))",
    re.IGNORECASE,
)
GROSS = re.compile(
    rf"\W{{0,3}}?(?:\b{WORDS['gross']}\.?:? ?(?:de |of )?(?:\d\d? ?% )?{WORDS['tax']}\b"
    rf"|\b{WORDS['gross_alone']}\b|{WORDS['gross_unspaced']})\W{{0,3}}",
    re.IGNORECASE,
)
OPENED = re.compile(r"[(\[\uff08]\s*([^)\]\uff09]*)$")
BETWEEN = re.compile(rf"\b{WORDS['between']}\s$", re.IGNORECASE).search
# Before the price of a kilogram or of several pieces: "(1 kg = 11,98 €)", "3 for £12".
PER_QUANTITY = re.compile(
    r"\d\s?(?:(?:[kmcd]?g|[mcd]?l|m[²³23]?|oz|lb|stück|stk)\s?=|(?:for|für|pour|per|por"
    r"|voor)\b)\s?$|\d\s?[kmcd]?[glm]\s?あたり\D*$|\b(?:kg|l|m)-?\s?pr(?:is|eis|ijs)\W*$",
    re.IGNORECASE,
)
RANGE = re.compile(
    r"\s*(?:[-\u2013\u2014~～…]|to|bis|à|a|до|do|tot|till?|hasta|až)\s*", re.IGNORECASE
).fullmatch
