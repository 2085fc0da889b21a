# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Interpretation of recorded answers of a real kubeadm and kubectl by the expressions of the role kubeadm.

With KUBENODE_TEST_KUBEADM=/path/to/kubeadm, as root, the real programs are run too. With KUBENODE_TEST_KUBECONFIG, of a
cluster for tests, so are the commands that need a cluster. See tests/support/kubeadm/real.py.
"""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.kubeadm import real as kubeadm_real
from support.kubeadm.answers import Answer, recorded
from support.kubeadm.cases import EVERYTHING, Case

from ansible_collections.kubenode.ipvs.plugins.plugin_utils.kubeadm_versions import api_version, parse_version

ROLE = Path(__file__).parents[3] / "roles/kubeadm"
# Parts that differ in each run.
VARIABLE = (
    (re.compile(r"\b[a-z0-9]{6}[.][a-z0-9]{16}\b"), "TOKEN"),
    (re.compile(r"\b[0-9a-f]{64}\b"), "HEX"),
    (re.compile(r'(token delete |bootstrap token "|bootstrap-token-)[a-z0-9]{6}\b'), r"\1ID"),
    (re.compile(r"kubeadm join \S+"), "kubeadm join ENDPOINT"),
    (re.compile(r"(-data: )\S+"), r"\1DATA"),
    (re.compile(r"^[IWE]\d{4} \S+ +\d+ "), "LOG "),
    (re.compile(r"(error execution phase wait-control-plane: ).*"), r"\1WHY"),
)


def expression(file: str, pattern: str) -> re.Pattern[str]:
    """Return a regular expression from a file of the role, located by the text around it."""
    text = (ROLE / file).read_text(encoding="utf-8")
    (text_,) = re.findall(pattern, text)
    return re.compile(text_.replace(r"\\", "\\"))


JOIN = expression("tasks/join.yml", r"regex_search\('(kubeadm join .*?)', ")
KEY = expression("tasks/join.yml", r"regex_search\('(.*?\{64\}.*?)'\)")
CHANGED = expression("vars/main.yml", r"is not search\('(panic.*?)'\)")
NOT_FOUND = expression("tasks/join.yml", r"stderr is not search\('(.*?)'\)")
NOT_ENABLED = expression("tasks/run.yml", r"stderr is search\('(.*?)'\)")
UNCHANGED = expression("tasks/cluster.yml", r"reject\('search', '(.*?)'\)")
MISSING = expression("tasks/cluster.yml", r"stderr is search\('(.*?)'\)")
TAINT = expression("tasks/cluster.yml", r"kubeadm_taint: (\S+)")


@pytest.fixture(scope="module", params=["recorded", "live"] if kubeadm_real.KUBEADM else ["recorded"])
def answers(request: pytest.FixtureRequest) -> dict[str, Answer]:
    """Return all answers; without a cluster, the recorded ones for commands that need a cluster."""
    return {**recorded(), **kubeadm_real.answers()} if request.param == "live" else recorded()


def test_answers_match_the_recording(answers: dict[str, Answer]) -> None:
    assert answers.keys() == recorded().keys()
    for name, answer in answers.items():
        assert masked(answer) == masked(recorded()[name]), name


def masked(answer: Answer) -> tuple[Any, ...]:
    """Return an answer with the parts masked that differ in each run."""

    def mask(line: str) -> str:
        for pattern, replacement in VARIABLE:
            line = pattern.sub(replacement, line)
        return line

    argv, rc, *streams = answer
    return (mask(" ".join(argv)), rc, *([mask(line) for line in stream] for stream in streams))


def test_the_version_is_one_line(answers: dict[str, Answer]) -> None:
    (line,) = answers["version"].stdout
    assert api_version(parse_version(line)).startswith("kubeadm.k8s.io/")


def test_the_join_command_has_what_a_join_needs(answers: dict[str, Answer]) -> None:
    match = JOIN.search("\n".join(answers["token-create"].stdout))
    assert match is not None
    endpoint, token, pinned = match.groups()
    assert re.fullmatch(r"\S+:\d+", endpoint)
    assert re.fullmatch(r"[a-z0-9]{6}[.][a-z0-9]{16}", token)
    assert re.fullmatch(r"sha256:[0-9a-f]{64}", pinned)


def test_expired_token_is_no_failure(answers: dict[str, Answer]) -> None:
    assert answers["token-delete"].rc == 0
    assert answers["token-delete-again"].rc != 0
    assert NOT_FOUND.search("\n".join(answers["token-delete-again"].stderr))


def test_the_key_is_the_only_word_of_its_form(answers: dict[str, Answer]) -> None:
    assert len(KEY.findall("\n".join(answers["upload-certs"].stdout))) == 1


def test_the_kubeconfig_is_for_kube_proxys_user(answers: dict[str, Answer]) -> None:
    kubeconfig = yaml.safe_load("\n".join(answers["kubeconfig-user"].stdout))
    assert kubeconfig["clusters"][0]["cluster"]["server"] == "https://192.0.2.10:6443"
    assert kubeconfig["users"][0]["name"] == "system:kube-proxy"
    assert b"system:kube-proxy" in base64.b64decode(certificate(kubeconfig))


def certificate(kubeconfig: dict[str, Any]) -> str:
    pem = base64.b64decode(kubeconfig["users"][0]["user"]["client-certificate-data"]).decode()
    return "".join(pem.split("\n")[1:-2])


def test_kube_proxy_gets_every_field_of_ipvs(answers: dict[str, Answer]) -> None:
    documents = yaml.safe_load_all("\n".join(answers["print-kube-proxy"].stdout))
    deployed = next(document for document in documents if document["kind"] == "ConfigMap")["data"]["config.conf"]
    config = yaml.safe_load(deployed)
    built = next(document for document in Case(EVERYTHING).documents() if document["kind"] == "KubeProxyConfiguration")
    assert config["ipvs"] == built["ipvs"]
    assert [config[name] for name in ("mode", "clusterCIDR")] == ["ipvs", EVERYTHING["pod_subnet"]]
    assert config["conntrack"]["min"] == EVERYTHING["kube_proxy_config"]["conntrack"]["min"]


@pytest.mark.parametrize(
    ("name", "touched"),
    [("init-config", False), ("init-preflight", False), ("join-preflight", False), ("init-half-way", True)],
)
def test_failure_before_any_change_is_recognised(answers: dict[str, Answer], name: str, touched: bool) -> None:
    assert answers[name].rc in (1, 2, 3)
    assert bool(CHANGED.search("\n".join(answers[name].stderr))) is touched


@pytest.mark.parametrize("name", ["init-preflight", "join-preflight"])
def test_a_kubelet_that_would_not_start_at_boot_is_seen(answers: dict[str, Answer], name: str) -> None:
    assert NOT_ENABLED.search("\n".join(answers[name].stderr))


def test_a_reset_succeeds_on_a_node_that_has_nothing(answers: dict[str, Answer]) -> None:
    assert answers["reset"].rc == 0


@pytest.mark.parametrize(
    ("name", "unchanged"),
    [("apply", False), ("apply-again", True), ("apply-dry-run", False), ("apply-dry-run-again", True)],
)
def test_applied_objects_are_recognised_in_kubectl_output(
    answers: dict[str, Answer], name: str, unchanged: bool
) -> None:
    answer = answers[name]
    assert all(UNCHANGED.search(line) for line in answer.stdout) is unchanged
    assert answer.stdout
    # Without the namespace, a dry run fails where a real run does not.
    assert (answer.rc != 0) is (name == "apply-dry-run")
    assert bool(MISSING.search("\n".join(answer.stderr))) is (name == "apply-dry-run")


@pytest.mark.parametrize(("name", "keys"), [("get-taints", 1), ("get-taints-again", 0)])
def test_taints_are_words_after_a_name(answers: dict[str, Answer], name: str, keys: int) -> None:
    (words,) = (line.split(" ") for line in answers[name].stdout if line.startswith("n1"))
    assert len([word for word in words[1:] if TAINT.match(word)]) == keys
    assert "example.org/key" in words


def test_kube_proxy_is_seen_by_its_name_alone(answers: dict[str, Answer]) -> None:
    assert (answers["get-kube-proxy"].rc, answers["get-kube-proxy"].stdout) == (0, [])
    assert answers["get-kube-proxy-again"].stdout == ["daemonset.apps/kube-proxy"]
