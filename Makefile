# Everything a checkout needs. `make` alone lists the targets.
#
# PYTHON=…   the interpreter to build .venv with (default: the first python3 >= 3.11)
# KEEP=1     with demo: leave the servers running afterwards
# FOLDER=…   with secrets: another one than ./secrets; POSTGRES=…, REDIS=… the hosts in the addresses
# MINUTES=…  with chaos: how long faults are injected (from 10 on with the default settings); SEED=… the same ones again;
#            HOLE_S=120 the networks' holes are so long, and a worker alone is cut off for as long
# CHANGES=…  with alerts-chaos; KILLS=…
# PRODUCTS=… with lies, days: of each site; SEED=… other shops
# UPGRADE=1  with lock: move to the newest releases
# NEWEST=1   with versions: the newest ones that pyproject.toml allows, whatever is locked
# PAGES=…    with repair; SEED=… other redesigns
# PAGES=…    with scale: in all sites of the large database
# FOLDER=…   with match: labelled sets (tools/match/sets.py has their formats); SEED=… another generated one
# ROUNDS=…   with bench: runs of each contender (default: 1); PRODUCTS=… in the shop (default: 10000); ONLY=ours,scrapy some
#            of them; JSON=file every run; WORKERS=2 no peers, two workers of ours against one; SIZE=600k pages as large as
#            real ones, over TLS, read by JSON-LD, CSS and XPath; PAGES=folder likewise, the saved pages in there

BIN := .venv/bin
# Changes with what .venv is made from, and with the place it was made for: a copied or outdated one is brought up to date.
STAMP := .venv/.ready-$(shell (pwd; cat pyproject.toml Makefile requirements/*.txt) | cksum | cut -d ' ' -f 1)
HALF_MADE := .venv/.half-made
# What the benchmark measures us against has an environment of its own.
PEERS := benchmarks/peers/.venv
PEERS_STAMP := $(PEERS)/.ready-$(shell (pwd; cat Makefile benchmarks/peers/requirements.txt) | cksum | cut -d ' ' -f 1)
COMPILE = $(UV) pip compile --quiet --no-header --no-annotate --generate-hashes --universal --python-version 3.11 \
	$(if $(UPGRADE),--upgrade)
IN_IMAGES := --extra accounts --extra alerts --extra archive --extra embedded --extra impersonate --extra matching --extra metrics --extra s3 --extra speed --extra xlsx
EVERY_EXTRA := --extra all
VERSIONS := .cache/versions
# Installers trust what the machine trusts, a company's own certificates among them. (pip does so by itself from 24.2 on.)
export UV_SYSTEM_CERTS := 1
# Where it is set, every process would compile anew what it imports of ours, and pytest every test.
unexport PYTHONDONTWRITEBYTECODE
OLD_PIP := import pip, ssl; old = tuple(map(int, pip.__version__.split(".")[:2])) < (24, 2); \
	print(old and ssl.get_default_verify_paths().cafile or "")
UV = $$(command -v uv || echo $(BIN)/uv)
# Two tests a core of a small machine: most wait for servers and processes.
AT_ONCE := -n 4
SUITABLE := import sys; sys.exit(sys.version_info < (3, 11))

.DEFAULT_GOAL := help
.PHONY: help setup demo fast test versions check docs house secrets chaos failover alerts-chaos lies days repair match fresh lock bench scale dist clean

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## /\1	/p' $(MAKEFILE_LIST) | while IFS='	' read -r name text; do \
		printf '  make %-8s %s\n' "$$name" "$$text"; done

setup: ## make .venv and install everything, from hash-locked files (again: does nothing)
	@$(BIN)/python -c '' 2>/dev/null && test -f $(STAMP) || $(MAKE) --no-print-directory .install

.PHONY: .install
.install:
	@test ! -e $(HALF_MADE) && $(BIN)/python -c '$(SUITABLE)' 2>/dev/null && $(BIN)/python -m pip --version >/dev/null 2>&1 || { \
		for python in $${PYTHON:-$(PYTHON)} $(if $(PYTHON),,python3 python3.14 python3.13 python3.12 python3.11); do \
			"$$python" -c '$(SUITABLE)' 2>/dev/null && break; python=; done; \
		test -n "$$python" || { echo "No Python 3.11 or later found$(if $(PYTHON), at $(PYTHON))." \
			"Install one (Debian: apt install python3 python3-venv), or type: make setup PYTHON=/path/to/python3" >&2; \
			exit 1; }; \
		echo "Making .venv with $$("$$python" --version) ($$python)"; \
		"$$python" -m venv --clear .venv || { rm -rf .venv; \
			echo "$$python cannot make a .venv (Debian: apt install python3-venv)" >&2; exit 1; }; }
	@rm -f .venv/.ready-*; touch $(HALF_MADE)
	@command -v uv >/dev/null || { \
		test -n "$$PIP_CERT" || PIP_CERT=$$($(BIN)/python -c '$(OLD_PIP)'); test -z "$$PIP_CERT" || export PIP_CERT; \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/uv.txt; }
	@echo "Installing the locked requirements"
	@$(UV) pip install --quiet --compile-bytecode --python $(BIN)/python --require-hashes -r requirements/dev.txt
	@$(UV) pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation -e .
	@mv $(HALF_MADE) $(STAMP)
	@echo "Ready: $(BIN)/scraper"

demo: setup ## crawl the bundled sample shop, servers and all (KEEP=1 leaves them running)
	@$(BIN)/scraper demo $(if $(KEEP),--keep)

fast: setup ## lint, types, import rules and unit tests: before every commit
	@$(MAKE) --no-print-directory --jobs 2 lint .unit

.PHONY: .unit
.unit:
	$(BIN)/pytest tests/unit

test: setup ## unit and integration tests on real servers, and one whole crawl
	@$(BIN)/pytest $(AT_ONCE) -m "not (slow or browser or broker)"

versions: setup ## tests of the package with the lowest versions that pyproject.toml allows (NEWEST=1: the newest)
	@rm -rf $(VERSIONS); $(BIN)/python -m venv $(VERSIONS)
	@$(UV) pip compile --quiet --resolution $(if $(NEWEST),highest,lowest-direct) pyproject.toml $(EVERY_EXTRA) \
		-o $(VERSIONS)/requirements.txt
	@$(UV) pip install --quiet --python $(VERSIONS)/bin/python -r $(VERSIONS)/requirements.txt -e . --group dev
	$(VERSIONS)/bin/pytest $(AT_ONCE) -m "not (browser or broker)" tests/unit tests/integration \
		--ignore tests/unit/tools --ignore tests/integration/tools

check: setup ## everything, as CI runs it: lint, migrations up and down, all tests
	@$(MAKE) --no-print-directory --jobs 2 lint .everything

.PHONY: .everything
.everything:
	$(BIN)/python -m tools.migrations
	$(BIN)/pytest $(AT_ONCE)

docs: setup ## build the documentation's site into build/docs; a dead link or anchor is an error
	@$(BIN)/python -m tools.docs
	@$(BIN)/zensical build --clean --strict

house: setup ## print the figures of the house test beside their limits
	@$(BIN)/python -m tools.house

.PHONY: lint
lint: setup
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy --strict scraper tools
	$(BIN)/lint-imports

# Needs no .venv: a machine that runs containers may have none.
secrets: ## write the passwords that docker-compose.yml reads (FOLDER= POSTGRES= REDIS=), unless they are there
	@python3 deploy/make_secrets.py $(FOLDER) $(if $(POSTGRES),--postgres $(POSTGRES)) $(if $(REDIS),--redis $(REDIS))

chaos: setup ## kill everything again and again during a crawl, and check that nothing is lost (MINUTES=30 SEED=…)
	@$(BIN)/python -m tests.acceptance.chaos $(if $(MINUTES),--minutes $(MINUTES)) $(if $(SEED),--seed $(SEED)) \
		$(if $(JSON),--json $(JSON)) $(if $(KEEP),--keep) $(if $(HOLE_S),--hole-s $(HOLE_S))
	@$(if $(HOLE_S),HOLE_S=$(HOLE_S) $(BIN)/pytest -n 0 tests/acceptance/test_bad_networks.py -k swallows)
	@FAILPOINTS_ALL=1 FAILPOINTS_SEED=$(or $(SEED),1) $(BIN)/pytest -n 0 -q -rP -o log_cli=false \
		tests/acceptance/test_failpoints.py

failover: setup ## kill the primary in mid-crawl and promote its standby, again and again (PROMOTIONS=20 SEED=…)
	@SCRAPER_PROMOTIONS=$(or $(PROMOTIONS),20) SCRAPER_FAILOVER_SEED=$(or $(SEED),1) \
		$(BIN)/pytest -n 0 -rP -o log_cli=false tests/acceptance/test_failover.py

alerts-chaos: setup ## replay changes through kills of who makes price alerts of them: none missed, none doubled (CHANGES=100000 KILLS=20)
	@CHANGES=$(or $(CHANGES),100000) KILLS=$(or $(KILLS),20) SEED=$(or $(SEED),1) $(BIN)/pytest -n 0 -q -rP \
		tests/integration/plugins/alerts/test_price_alerts.py tests/integration/plugins/matching/test_market_alerts.py \
		-k through_kills -o log_cli=false --timeout 3600 | grep -v '\[info \|\[0m'

stalls: setup ## run tests while their processes are stopped for a moment again and again (TESTS=tests/integration LONGEST_S=0.8 SEED=…)
	@$(BIN)/python -m tools.stalls $(if $(SEED),--seed $(SEED)) $(if $(LONGEST_S),--longest-s $(LONGEST_S)) \
		$(AT_ONCE) $(or $(TESTS),tests/integration)

lies: setup ## let shops go wrong in every way, and count what is published wrongly, delisted wrongly, late (PRODUCTS=200 SEED=…)
	@LIES_PRODUCTS=$(or $(PRODUCTS),200) LIES_SEED=$(or $(SEED),1) $(BIN)/pytest tests/acceptance/test_lies.py -n 2 -rP \
		-o log_cli=false | grep -v '\[info \|\[0m'

days: setup ## crawl an honest shop on 40 days, and count what is published late, false alarms, products lost (PRODUCTS=100 SEED=…)
	@DAYS_PRODUCTS=$(or $(PRODUCTS),100) DAYS_SEED=$(or $(SEED),1) $(BIN)/pytest tests/acceptance/test_days.py -n 0 -q -rP \
		-o log_cli=false | grep -v '\[info \|\[0m'

repair: setup ## redesign the pages of small shops, and count the fields that `scraper repair` fixes (PAGES=1000 SEED=…)
	@$(BIN)/python -m tools.redesigns $(if $(PAGES),--pages $(PAGES)) $(if $(SEED),--seed $(SEED))

match: setup ## link labelled offers of several shops, and count wrong links and missed ones (FOLDER=… SEED=…)
	@$(BIN)/python -m tools.match $(FOLDER) $(if $(SEED),--seed $(SEED)) $(if $(PRODUCTS),--products $(PRODUCTS))

fresh: setup ## plan visits of invented pages, and compare what stays true with the best possible (PAGES=… SEED=…)
	@$(BIN)/python -m tools.fresh $(if $(PAGES),--pages $(PAGES)) $(if $(SEED),--seed $(SEED))

# The build backend is locked with the rest, so that installing the checkout itself fetches nothing that is not.
lock: setup ## write requirements/*.txt anew from pyproject.toml (UPGRADE=1 takes the newest releases)
	printf 'hatchling>=1.27\neditables\nbuild\n' | $(COMPILE) pyproject.toml - $(EVERY_EXTRA) --group dev -o requirements/dev.txt
	$(COMPILE) pyproject.toml $(IN_IMAGES) -c requirements/dev.txt -o requirements/runtime.txt
	$(COMPILE) pyproject.toml $(IN_IMAGES) --extra browser -c requirements/dev.txt -o requirements/browser.txt
	echo uv | $(COMPILE) - -o requirements/uv.txt
	$(COMPILE) benchmarks/peers/requirements.in -o benchmarks/peers/requirements.txt

# A peer that cannot be installed is named in the table; the others run.
bench: setup ## measure us and our peers side by side, in one table (ROUNDS= PRODUCTS= ONLY=ours,scrapy JSON=file)
	@$(if $(WORKERS)$(filter ours,$(ONLY)),,$(PEERS)/bin/python -c '' 2>/dev/null && test -f $(PEERS_STAMP) || \
		$(MAKE) --no-print-directory .peers || echo "The peers could not be installed: without them" >&2)
	@$(BIN)/python -m benchmarks $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(PRODUCTS),--products $(PRODUCTS)) \
		$(if $(ONLY),--only $(ONLY)) $(if $(JSON),--json $(JSON)) $(if $(WORKERS),--workers $(WORKERS)) \
		$(if $(STRICT),--strict) $(if $(SIZE),--size $(SIZE)) $(if $(PAGES),--pages $(PAGES))

scale: setup ## measure what grows with other sites' pages, in databases of 50,000 pages and of more (PAGES=500000)
	@$(BIN)/python -m benchmarks.scale $(if $(PAGES),--pages 50000,$(PAGES)) $(if $(ROUNDS),--rounds $(ROUNDS)) \
		$(if $(JSON),--json $(JSON))

.PHONY: .peers
.peers:
	@echo "Installing the peers' locked requirements into $(PEERS)"
	@$(BIN)/python -m venv --clear $(PEERS)
	@$(UV) pip install --quiet --compile-bytecode --python $(PEERS)/bin/python --require-hashes \
		-r benchmarks/peers/requirements.txt
	@touch $(PEERS_STAMP)

dist: setup ## build the wheel and the source distribution into dist/
	@rm -rf dist && $(BIN)/python -m build --no-isolation --outdir dist . | tail -1

clean: ## remove .venv and every cache; data in .scraper stays
	rm -rf .venv $(PEERS) .cache build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
