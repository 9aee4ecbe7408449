"""A fetched body to validated links and products; these names are all that other modules need."""

from scraper.extract.extractor import Extractor, compile_site
from scraper.extract.functions import FunctionFailed

__all__ = ["Extractor", "FunctionFailed", "compile_site"]
