# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Commands of docs/how-to/kubernetes-source.md, which write a kubeconfig for each node.

A kubeconfig has a token that expires and can be revoked alone. kubectl is a fake with answers to these commands.
A test with a real API server shows that it refuses such a token once its Secret is deleted
(tests/peers/test_kube_apiserver.py).
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from support.fakes.certificates import Authority

from kubenode.sources.kubernetes.kubeconfig import Kubeconfig

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/how-to/kubernetes-source.md"
KUBECTL = """#!/bin/bash
set -euo pipefail
echo "$*" >>calls
case "$*" in
'apply -f roles/agent/files/rbac.yaml') ;;
'apply -f -') cat >/dev/null ;;
'-n kube-system create secret generic kubenode-agent-'*' --dry-run=client -o yaml') echo 'kind: Secret' ;;
'-n kube-system create token kubenode-agent --duration='*'h --bound-object-kind=Secret \
--bound-object-name=kubenode-agent-'*)
  words="$*"; echo "token-for-${words##*kubenode-agent-}" ;;
'-n kube-system get configmap kube-root-ca.crt -o jsonpath={.data.ca\\.crt}') cat authority.pem ;;
*) echo "no kubectl was expected to be called with: $*" >&2; exit 64 ;;
esac
"""


def page_commands() -> str:
    section = PAGE.read_text(encoding="utf-8").split("\n## 2. Write a kubeconfig\n")[1]
    block = re.search(r"(?:^    .*\n)+", section, flags=re.MULTILINE)
    assert block
    return "".join(line[4:] for line in block[0].splitlines(keepends=True))


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/kubectl").write_text(KUBECTL)
    (tmp_path / "bin/kubectl").chmod(0o755)
    (tmp_path / "authority.pem").write_bytes(Authority("here").pem)
    return tmp_path


def run(directory: Path, node: str) -> Path:
    commands = page_commands().replace("node=n1", f"node={node}")
    variables = {**os.environ, "PATH": f"{directory}/bin:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands],
        cwd=directory,
        env=variables,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return directory / f"kubenode-{node}.kubeconfig"


def test_each_node_gets_a_kubeconfig_of_its_own(directory: Path) -> None:
    for node in ("n1", "n2"):
        path = run(directory, node)
        assert path.stat().st_mode & 0o777 == 0o600
        access = Kubeconfig(str(path)).access()
        assert access.identity.token == f"token-for-{node}"
        assert access.authority.strip() == (directory / "authority.pem").read_text().strip()


def test_tokens_expire_and_are_bound_to_a_secret_of_the_node(directory: Path) -> None:
    run(directory, "n1")
    run(directory, "n2")
    tokens = [line for line in (directory / "calls").read_text().splitlines() if "create token" in line]
    assert [line.split("--bound-object-name=")[1] for line in tokens] == ["kubenode-agent-n1", "kubenode-agent-n2"]
    assert all("--duration=8760h" in line and "--bound-object-kind=Secret" in line for line in tokens)
    text = PAGE.read_text(encoding="utf-8")
    assert "`kubectl -n kube-system delete secret kubenode-agent-n1`" in text


def test_no_page_says_that_certificates_can_be_revoked() -> None:
    text = (ROOT / "docs/explanation/sandbox.md").read_text(encoding="utf-8")
    assert "taken back one by one" not in text
    assert "Kubernetes cannot revoke a certificate" in text
