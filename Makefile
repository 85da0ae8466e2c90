# `make help` lists the targets. Nothing outside this folder is changed (pip's cache aside).
PYTHON ?= python3
VENV ?= .venv
py = $(VENV)/bin/python

.PHONY: help run test lint check demo bench deps deps-dev requirements

help:
	@sed -n 's/^\([a-z-]*\):.*## /\1  /p' Makefile | expand -t14

run: deps ## the whole service on this machine, until Ctrl-C
	@exec $(py) -m config.run

demo: deps ## a guided tour against a running service
	@exec $(py) -m bench.demo

bench: deps ## the benchmark, with a report
	@exec $(py) -m bench

test: deps-dev ## the tests, with servers of their own; ARGS="-k name" narrows
	@exec $(py) -m pytest $(ARGS)

lint: deps-dev ## style, types, migrations, deployment settings, API schema
	$(py) -m ruff check .
	$(py) -m ruff format --check .
	$(py) -m mypy

check: lint test ## what a change has to pass

deps:
	@$(PYTHON) config/bootstrap.py $(VENV) requirements.txt

deps-dev:
	@$(PYTHON) config/bootstrap.py $(VENV) requirements.txt requirements-dev.txt

requirements: deps-dev ## pin again what requirements*.in ask for
