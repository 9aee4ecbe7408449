"""`python -m scraper` is the `scraper` command."""

from scraper.cli.main import main

main()
