# The commands of this repository. `make help` lists them; README.md shows what they are for.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
VENV := .venv
STAMPS := .cache/stamps
# Empty to go on without Debian's packages (another distribution: install the equivalents).
DEPS ?= $(STAMPS)/deps

export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)
export ANSIBLE_CONFIG := $(CURDIR)/ansible.cfg
export ANSIBLE_HOME := $(CURDIR)/.cache/ansible
export HYPOTHESIS_STORAGE_DIRECTORY := $(CURDIR)/.cache/hypothesis

.PHONY: help
help: ## this list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | while IFS=$$'\t' read -r name what; do printf '  make %-10s %s\n' "$$name" "$$what"; done

.PHONY: venv deps
venv: $(STAMPS)/venv ## the virtual environment .venv, from requirements/*.txt
deps: $(STAMPS)/deps ## the Debian packages of requirements/debian.txt

$(STAMPS)/deps: requirements/debian.txt
	@tests/tools/deps $<
	@mkdir -p $(@D) && touch $@

$(STAMPS)/venv: requirements/dev.txt requirements/constraints.txt | $(DEPS)
	@tests/tools/venv $(PYTHON) $(VENV)
	@mkdir -p $(@D) && touch $@
