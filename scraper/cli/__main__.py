from scraper.cli.main import main

main()
