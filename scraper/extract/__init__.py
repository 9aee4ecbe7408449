"""Extraction: from a fetched body to validated links and products. Its public names."""

from scraper.extract.bounds import ON_LOOP, ReadElsewhere, TooSlow
from scraper.extract.extractor import Extractor, compile_site
from scraper.extract.function_reader import FunctionFailed

__all__ = ["ON_LOOP", "Extractor", "FunctionFailed", "ReadElsewhere", "TooSlow", "compile_site"]
