# The commands of this repository; `make help` lists them, README.md says what they show.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

# A distribution optimizes its Python. One that pyenv has compiled, and put first on the PATH, takes a third more time.
PYTHON ?= $(shell /usr/bin/python3 -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && \
	echo /usr/bin/python3 || echo python3)
VENV := .venv
CACHE := .cache
STAMPS := $(CACHE)/stamps
BUILT_KERNEL := $(CACHE)/lab/built-kernel# beside the link to it, and removed with it
# On another distribution than Debian, install the equivalents of requirements/debian.txt and say `make DEPS= …`.
DEPS ?= $(STAMPS)/deps

BUNDLE := roles/agent/files/kubenode-agent.tar.gz
ARTIFACT := $(CACHE)/dist/kubenode-ipvs-$(shell sed -n 's/^version: //p' galaxy.yml).tar.gz
# What the bundle and the artifact are built from.
files = $(shell find $(wildcard $1) -type f ! -name '*.py[co]' ! -path '$(BUNDLE)')
AGENT_SOURCES := $(call files,agent plugins/module_utils/engine plugins/module_utils/manifests)
SOURCES := $(call files,galaxy.yml $(wildcard *.md) changelogs deploy docs meta playbooks plugins roles tests/config.yml tests/sanity)

# Everything a run leaves behind is in this clone: .venv, .cache and the bundle.
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)
export ANSIBLE_CONFIG := $(CURDIR)/ansible.cfg
export ANSIBLE_HOME := $(CURDIR)/$(CACHE)/ansible
export PYTHONPYCACHEPREFIX := $(CURDIR)/$(CACHE)/pycache
export PYTHONDONTWRITEBYTECODE := # else each process would compile the standard library
export PYTHONUNBUFFERED := # else Python reads each module that Ansible sends it byte by byte
export PIP_COMPILE := 0# Python compiles what is imported; compiling all that is installed takes pip half of its time

.PHONY: help
help: ## this list
	@sed -n 's/^\([a-z0-9]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | \
	while IFS=$$'\t' read -r name what; do printf '  make %-10s %s\n' "$$name" "$$what"; done

##### see it, test it

.PHONY: demo test
KERNEL ?=
demo: venv $(BUNDLE) ## three nodes from nothing: prepared, balancing, scaled, checked; KERNEL=stock: with Debian's own kernel
	@KERNEL=$(KERNEL) molecule/demo/run

# The kernel is compiled beside the virtual environment, which takes one processor. Then two lanes: the kernel part, which
# can use all processors, comes last.
test: $(DEPS) ## everything: lint, unit, fuzz, kernel, lab, sanity, units, matrix, molecule
	@$(MAKE) --jobs=2 $(ARTIFACT) $(BUILT_KERNEL)
	@python tests/tools/whole.py molecule -- sanity lint unit fuzz units matrix lab kernel

##### the parts of `make test`; each leaves its report in .cache/results/

.PHONY: lint unit fuzz kernel lab sanity units matrix molecule
lint: venv $(ARTIFACT) ## ruff, mypy --strict, ansible-lint, yamllint, shellcheck, antsibull, galaxy-importer
	@python tests/tools/lint.py

unit: venv ## pure tests and property tests, in seconds
	@pytest --junitxml $(CACHE)/results/unit/pytest.xml tests/unit

FUZZ ?= 60
fuzz: venv ## coverage-guided fuzzing of every parser: FUZZ=60 seconds for all targets together
	@python tests/fuzz/run.py --seconds $(FUZZ)

kernel: venv $(BUILT_KERNEL) ## engine and modules against real kernels: user-mode Linux, and this machine's (nft)
	@python tests/tools/kernel.py

lab: venv $(BUILT_KERNEL) ## the lab itself: nodes that are killed, rebooted, interrupted while they are made
	@pytest --junitxml $(CACHE)/results/lab/pytest.xml tests/lab

sanity: venv $(ARTIFACT) ## ansible-test sanity on the built and installed artifact
	@tests/tools/sanity $(ARTIFACT)

units: venv $(ARTIFACT) ## ansible-test units: the plugins' unit tests on the installed artifact
	@tests/tools/units $(ARTIFACT)

matrix: venv $(ARTIFACT) ## the built artifact with every ansible-core that it supports
	@python tests/tools/matrix.py $(ARTIFACT)

molecule: venv $(ARTIFACT) $(BUILT_KERNEL) ## molecule's scenarios on nodes with real kernels
	@python tests/tools/scenarios.py

FLAKY ?= unit=20 host=5 kernel=5 lab=5
.PHONY: flaky
flaky: venv ## tests many times beside a load: FLAKY="unit=20 host=5 kernel=5 lab=5" lists what did not always pass
	@python tests/tools/flaky.py $(FLAKY)

KERNELS ?=
.PHONY: kernels
kernels: venv $(BUNDLE) ## the scenario stock and tests/kernel on each Debian release's own kernel, with iptables-legacy and on arm64, for hours; writes the tables of docs/how-to/prepare.md: KERNELS="trixie bookworm-legacy", KERNELS="--scenario trixie-arm64"
	@python tests/tools/kernels.py $(KERNELS)

KUBERNETES ?=
NODES ?=
FOCUS ?=
SKIP ?=
.PHONY: e2e
e2e: export KUBERNETES := $(KUBERNETES)
e2e: export NODES := $(NODES)
e2e: export KERNEL := $(KERNEL)
e2e: export FOCUS := $(FOCUS)
e2e: export SKIP := $(SKIP)
e2e: venv $(BUNDLE) $(STAMPS)/e2e ## Kubernetes' own end-to-end tests on lab nodes: KUBERNETES=dir with the programs, NODES=2|3, KERNEL=uml|stock, FOCUS, SKIP; tests/e2e/README.md
	@PYTHONPATH=tests:molecule:$(CACHE)/e2e/python python -m e2e.run

##### measure, publish

.PHONY: bench soak docs bundle artifact image packages release
bench: venv $(BUNDLE) $(STAMPS)/peers $(STAMPS)/plot ## measure against the peers; writes docs/reference/benchmarks.md; KUBE_PROXY= KUBE_APISERVER= ETCD= paths: beside kube-proxy
	@tests/bench/run

SOAK ?= 7200
soak: venv ## hours of churn for the agent on a real kernel: SOAK=7200 seconds, memory and descriptors flat
	@molecule/lab/uml-pytest -s --soak=$(SOAK) tests/kernel/test_agent_soak.py

docs: venv $(ARTIFACT) ## all documentation as a site: .cache/docs/html/
	@tests/tools/site $(ARTIFACT) $(CACHE)/docs

bundle: $(BUNDLE) ## the agent and all it needs in one file for the nodes
image: venv ## the agent's container images for amd64 and arm64: .cache/dist/*.oci.tar, for `docker load` and `ctr image import`
	@python agent/image $(CACHE)/dist
artifact: $(ARTIFACT) ## the collection, built: .cache/dist/
packages: venv ## the agent as .deb and .rpm, for nodes that install it that way: .cache/dist/
	@python agent/packages.py $(CACHE)/dist

$(BUNDLE): $(AGENT_SOURCES) $(STAMPS)/venv
	@python agent/bundle.py

$(ARTIFACT): $(SOURCES) $(BUNDLE) tests/tools/artifact.py
	@python tests/tools/artifact.py $(@D)

GPG ?=
MINISIGN ?=
release: venv ## a release of this commit, signed: VERSION=0.1.0 GPG=key MINISIGN=file; docs/how-to/release.md
	@python tests/tools/release.py "$(VERSION)" --check
	@$(MAKE) artifact packages image docs
	@python tests/tools/release.py "$(VERSION)" $(if $(GPG),--gpg $(GPG)) $(if $(MINISIGN),--minisign $(MINISIGN))

##### what all of that needs

.PHONY: venv deps clean
venv: $(STAMPS)/venv ## the virtual environment .venv, from requirements/*.txt
deps: $(STAMPS)/deps ## the Debian packages of requirements/debian.txt

$(STAMPS)/deps: requirements/debian.txt
	@tests/tools/deps $<
	@mkdir -p $(@D) && touch $@

# Without the source of that kernel, tests run on the packaged one, which takes them twice the time.
$(BUILT_KERNEL): molecule/lab/uml.config molecule/lab/uml_kernel.py | $(DEPS)
	@molecule/lab/lab kernel || [ $$? = 2 ]
	@mkdir -p $(@D) && touch $@

$(STAMPS)/venv: requirements/dev.txt requirements/constraints.txt | $(DEPS)
	@tests/tools/venv $(PYTHON) $(VENV)
	@mkdir -p $(@D) && touch $@

$(STAMPS)/e2e: requirements/e2e.txt $(STAMPS)/venv
	@tests/tools/progress "make e2e: $< into $(CACHE)/e2e/python" python -m pip install --disable-pip-version-check --no-deps \
	    --upgrade --require-hashes --target $(CACHE)/e2e/python --requirement $<
	@touch $@

$(STAMPS)/peers: requirements/bench.txt $(STAMPS)/venv
	@tests/tools/peers $(CACHE)/peers
	@touch $@

$(STAMPS)/plot: requirements/plot.txt $(STAMPS)/venv
	@python -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: --require-hashes \
		--upgrade --target $(CACHE)/plot --requirement $<
	@touch $@

clean: ## end the lab's nodes and networks, remove all that was made
	@for lab in $(wildcard $(CACHE)/lab-test-*/molecule/lab/lab) molecule/lab/lab; do $$lab clean --all; done
	@rm -rf $(VENV) $(CACHE) .ansible kubenode-report $(BUNDLE)
	@find . -name __pycache__ -prune -exec rm -rf {} + -o -name '*.egg-info' -prune -exec rm -rf {} +
