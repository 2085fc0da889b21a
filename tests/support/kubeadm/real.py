# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the commands of the role kubeadm with a real kubeadm, and the kubectl beside it: for tests and recordings.

$KUBENODE_TEST_KUBEADM is the path of the kubeadm. $KUBENODE_TEST_KUBECONFIG is an administrator's kubeconfig of a test
cluster, for the commands that need an API server. To record everything in tests/golden/kubeadm, as root:

    PYTHONPATH=collection:tests KUBENODE_TEST_KUBEADM=… KUBENODE_TEST_KUBECONFIG=… .venv/bin/python -m
    support.kubeadm.real
"""

from __future__ import annotations

import base64
import json
import os
import re
import shlex
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from support.kubeadm.answers import GOLDEN, Answer, recorded
from support.kubeadm.cases import CASES, EVERYTHING, JOIN, SITE, Case

KUBEADM = os.environ.get("KUBENODE_TEST_KUBEADM", "")
KUBECONFIG = os.environ.get("KUBENODE_TEST_KUBECONFIG", "")
ADMIN_CONF = "/etc/kubernetes/admin.conf"
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
TAINTS = [
    {"key": f"{name}/{key}", "effect": "NoSchedule"}
    for name, key in (("node-role.kubernetes.io", "control-plane"), ("example.org", "key"))
]

SYSTEMCTL = """#!/bin/sh
case $1 in
is-enabled | is-active) exit 1 ;;
esac
"""
# The private key of a kubeconfig is not recorded.
KEY = re.compile(r"(?<=client-key-data: )\S+")
NO_KEY = base64.b64encode(b"a key that was not recorded").decode()

CONFIG = "--config /dev/stdin"
ADMIN = f"--kubeconfig {ADMIN_CONF}"
KUBECTL = f"kubectl {ADMIN}"
APPLY = f"{KUBECTL} apply --filename -"
TAINT = f"{KUBECTL} taint nodes n1 node-role.kubernetes.io/control-plane-"
TAINTS_PATH = 'jsonpath={range .items[*]}{.metadata.name}{range .spec.taints[*]}{" "}{.key}{end}{"\\n"}{end}'
GET_TAINTS = f"{KUBECTL} get nodes --output '{TAINTS_PATH}'"
GET_PROXY = f"{KUBECTL} get daemonset kube-proxy --namespace kube-system --ignore-not-found --output name"
KUBECONFIG_USER = f"kubeadm kubeconfig user --client-name system:kube-proxy {CONFIG}"
DRY = "--dry-run=server"


def text(documents: Sequence[dict[str, Any]]) -> str:
    """Return documents as YAML for kubeadm."""
    return yaml.safe_dump_all(documents)


def ask(command: str, given: str = "", before: Sequence[str] = ()) -> Answer:
    """Run a command of the role with the real program; return the answer with the role's command line."""
    argv = shlex.split(command)
    real = [KUBECONFIG if argument == ADMIN_CONF else argument for argument in argv[1:]]
    program = KUBEADM if argv[0] == "kubeadm" else str(Path(KUBEADM).with_name(argv[0]))
    done = subprocess.run([*before, program, *real], input=given, capture_output=True, text=True, check=False)
    return Answer(argv, done.returncode, done.stdout.splitlines(), done.stderr.splitlines())


def version() -> str:
    """Return the version of the real kubeadm."""
    return ask("kubeadm version --output short").stdout[0]


def validate(case: Case) -> Answer:
    """Validate the documents of a case."""
    return ask(f"kubeadm config validate {CONFIG}", text(case.documents(version())))


def answers() -> dict[str, Answer]:
    """Return all answers that can be recorded."""
    recorded_now = {
        "version": ask("kubeadm version --output short"),
        "validate": validate(Case(SITE)),
        "print-kube-proxy": print_kube_proxy(EVERYTHING),
        **_on_an_empty_machine(),
    }
    with tempfile.TemporaryDirectory() as certificates:
        ask(f"kubeadm init phase certs all {CONFIG}", _cluster(certificates))
        recorded_now["kubeconfig-user"] = ask(KUBECONFIG_USER, _cluster(certificates))
        if KUBECONFIG:
            recorded_now.update(_in_a_cluster(certificates))
    return recorded_now


def print_kube_proxy(settings: dict[str, Any]) -> Answer:
    """Print the objects that kubeadm deploys for kube-proxy."""
    return ask(
        f"kubeadm init phase addon kube-proxy --print-manifest {CONFIG}", text(Case(settings).documents(version()))
    )


def _cluster(certificates: str) -> str:
    settings = {"advertise_address": "192.0.2.11", "cluster_config": {"certificatesDir": certificates}}
    return text(Case({**SITE, **settings}).documents(version()))


def _in_a_cluster(certificates: str) -> dict[str, Answer]:
    """Run the commands that need an API server, in an order in which each has an effect.

    Remove the objects that the commands make.
    """
    manifest = (GOLDEN / "manifest.yaml").read_text(encoding="utf-8")
    answers_of = {}
    try:
        answers_of["token-create"] = ask(f"kubeadm token create --print-join-command --ttl 15m0s {ADMIN}")
        (identifier,) = re.findall(r"--token ([a-z0-9]+)[.]", answers_of["token-create"].stdout[0])
        answers_of["token-delete"] = ask(f"kubeadm token delete {identifier} {ADMIN}")
        answers_of["token-delete-again"] = ask(f"kubeadm token delete {identifier} {ADMIN}")
        answers_of["upload-certs"] = ask(
            f"kubeadm init phase upload-certs --upload-certs {ADMIN} {CONFIG}", _cluster(certificates)
        )
        answers_of["apply-dry-run"] = ask(f"{APPLY} {DRY}", manifest)
        answers_of["apply"] = ask(APPLY, manifest)
        answers_of["apply-dry-run-again"] = ask(f"{APPLY} {DRY}", manifest)
        answers_of["apply-again"] = ask(APPLY, manifest)
        ask(APPLY, json.dumps({**NODE, "spec": {"taints": TAINTS}}))
        answers_of["get-taints"] = ask(GET_TAINTS)
        answers_of["taint-dry-run"] = ask(f"{TAINT} {DRY}")
        answers_of["taint"] = ask(TAINT)
        answers_of["get-taints-again"] = ask(GET_TAINTS)
        answers_of["get-kube-proxy"] = ask(GET_PROXY)
        ask(f"kubeadm init phase addon kube-proxy {ADMIN} {CONFIG}", _cluster(certificates))
        answers_of["get-kube-proxy-again"] = ask(GET_PROXY)
    finally:
        delete = f"{KUBECTL} delete --ignore-not-found --timeout 60s"
        ask(f"{delete} --filename -", manifest)
        ask(f"{delete} node n1")
        ask(f"{delete} --namespace kube-system daemonset/kube-proxy secret/kubeadm-certs")
    return answers_of


def _on_an_empty_machine() -> dict[str, Answer]:
    """Run the commands that would change this machine in an empty environment.

    The environment has only kubeadm and a kubelet that is not enabled, and no network.
    """
    init = f"kubeadm init {CONFIG} --skip-token-print"
    site = {**SITE, "advertise_address": "192.0.2.11", "node_name": "n1"}
    soon = dict.fromkeys(["kubeletHealthCheck", "controlPlaneComponentHealthCheck", "kubernetesAPICall"], "1s")

    def documents(**fields: Any) -> str:
        built = Case(site).documents(version())
        return text(
            [{**document, **fields} if document["kind"] == "InitConfiguration" else document for document in built]
        )

    return {
        "init-config": _alone(init, documents(nodeRegistration={"name": "n_1"})),
        "init-preflight": _alone(init, documents()),
        "init-half-way": _alone(init, documents(skipPhases=["preflight"], timeouts=soon)),
        "join-preflight": _alone(f"kubeadm join {CONFIG}", text(Case(site, JOIN).documents(version()))),
        "reset": _alone("kubeadm reset --force", ""),
    }


def _alone(command: str, given: str) -> Answer:
    script = f"""
        set -e
        mount -t tmpfs tmpfs /mnt
        cd /mnt
        mkdir proc dev etc tmp bin
        cp {KUBEADM} kubeadm
        cp --parents /bin/sh $(ldd /bin/sh | grep -o '/[^ ]*') .
        echo '{SYSTEMCTL}' >bin/systemctl
        chmod +x bin/systemctl
        mount -t proc proc proc
        mount --bind /dev dev
        PATH=/bin exec /usr/sbin/chroot . /kubeadm "$@"
    """
    return ask(command, given, ["unshare", "--mount", "--net", "--pid", "--uts", "--fork", "sh", "-c", script])


def main() -> None:
    """Record all answers."""
    by_name = {name: without_key(answer)._asdict() for name, answer in {**recorded(), **answers()}.items()}
    write("answers.json", {"version": version(), "answers": by_name})
    judged = {name: {"documents": case.documents(), **validate(case)._asdict()} for name, case in CASES.items()}
    write("validated.json", {"version": version(), "cases": judged})


def without_key(answer: Answer) -> Answer:
    """Return the answer without its private key."""
    return answer._replace(stdout=[KEY.sub(NO_KEY, line) for line in answer.stdout])


def write(name: str, content: Any) -> None:
    """Write a recording."""
    (GOLDEN / name).write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
