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

AGENT_BUNDLE := roles/agent/files/kubenode-agent.tar.gz
ARTIFACT := .cache/dist/kubenode-ipvs-$(shell sed -n 's/^version: //p' galaxy.yml).tar.gz
PYTEST := pytest --junitxml

.PHONY: lint unit kernel sanity molecule test
lint: venv ## ruff, mypy --strict, ansible-lint, yamllint, shellcheck, antsibull: seconds
	@python tests/tools/lint.py

unit: venv ## pure tests and property tests: seconds
	@$(PYTEST) .cache/results/unit/pytest.xml tests/unit

kernel: venv ## tests of the engine against the real kernel, in one user-mode Linux
	@molecule/lab/uml-pytest --junitxml .cache/results/kernel/pytest.xml tests/kernel

sanity: venv artifact ## ansible-test sanity on the built and installed artifact
	@tests/tools/sanity $(ARTIFACT)

test: venv ## everything: lint, unit, kernel, sanity, molecule
	@python tests/tools/whole.py lint unit kernel sanity molecule

.PHONY: bundle artifact
bundle: venv ## the agent and its wheels in one file for the nodes: roles/agent/files/
	@python agent/bundle.py

artifact: $(wildcard agent/bundle.py) ## the collection's artifact in .cache/dist/
	@ansible-galaxy collection build --force --output-path $(dir $(ARTIFACT)) >/dev/null
