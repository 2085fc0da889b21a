# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fake kubeadm, and kubectl when called by that name, with recorded answers of the real programs.

It refuses a command line without a recording, and a configuration that no real kubeadm was recorded to accept. The
cluster's state is files in $FAKE_KUBERNETES. Every call is appended to the file ``calls`` there, and its input is
written to a file with the name of the recording. init and join succeed without output, or fail with the recording named
in the file ``fail``.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import yaml
from support.kubeadm.answers import Answer, read, recorded

CLUSTER = Path(os.environ.get("FAKE_KUBERNETES", "."))
# Recording -> file whose presence selects the recording with the suffix -again; and the commands that make such a file.
CHANGED_BY = {
    "apply": "applied",
    "apply-dry-run": "applied",
    "get-taints": "untainted",
    "get-kube-proxy": "kube-proxy",
    "token-delete": "expired",
}
MAKES = {"apply": "applied", "taint": "untainted"}


def install(directory: Path) -> None:
    """Write the commands into a directory."""
    for name in ("kubeadm", "kubectl"):
        path = f"import sys; sys.path.insert(0, {str(Path(__file__).parents[2])!r})"
        call = f"from support.fakes.kubeadm import main; sys.exit(main(['{name}', *sys.argv[1:]]))"
        (directory / name).write_text(f"#!{sys.executable}\n{path}\n{call}\n")
        (directory / name).chmod(0o755)


def main(argv: list[str]) -> int:
    """Answer one call."""
    with (CLUSTER / "calls").open("a") as calls:
        calls.write(" ".join(argv) + "\n")
    given = sys.stdin.read() if "/dev/stdin" in argv or "-" in argv else ""
    # Each test has another path in place of /etc/kubernetes.
    asked = ["/etc/kubernetes/admin.conf" if argument.endswith("/admin.conf") else argument for argument in argv]
    # The kubeconfig was recorded for one user, but each node requests its own user.
    asked = ["system:kube-proxy" if argument.startswith("kubenode-agent:") else argument for argument in asked]
    possible = [name for name, answer in recorded().items() if answer.argv == asked]
    if not possible:
        return say(Answer(asked, 64, [], [f"no real {argv[0]} was recorded with: {' '.join(asked)}"]))
    if argv[1] in ("init", "join") and asked[2] == "--config":
        return run(argv[1], given)
    name = possible[0].removesuffix("-again")
    if name in CHANGED_BY and (CLUSTER / CHANGED_BY[name]).exists():
        name += "-again"
    if given:
        (CLUSTER / f"{name}.yaml").write_text(given)
    if name in MAKES:
        (CLUSTER / MAKES[name]).touch()
    if name == "reset":
        for file in ("admin.conf", "kubelet.conf"):
            (CLUSTER / "kubernetes" / file).unlink(missing_ok=True)
    answer = recorded()[name]
    if name == "version" and os.environ.get("FAKE_VERSION"):
        answer = answer._replace(stdout=[os.environ["FAKE_VERSION"]])
    if name == "validate" and not accepted(list(yaml.safe_load_all(given))):
        answer = Answer(asked, 64, [], ["no real kubeadm was recorded to accept this"])
    return say(answer)


def run(command: str, configuration: str) -> int:
    """Run init or join."""
    (CLUSTER / f"{command}.yaml").write_text(configuration)
    if (CLUSTER / "fail").exists():
        return say(recorded()[(CLUSTER / "fail").read_text()])
    for file in {"init": ["admin.conf", "kubelet.conf"], "join": ["kubelet.conf"]}[command]:
        (CLUSTER / "kubernetes" / file).touch()
    return 0


def accepted(documents: list[dict[str, Any]]) -> bool:
    """Tell whether a real kubeadm accepts the documents, whatever the version of the cluster."""
    validated = read("validated.json")
    for document in documents:
        if document["kind"] == "ClusterConfiguration":
            document["kubernetesVersion"] = validated["version"]
    return any(case["documents"] == documents and case["rc"] == 0 for case in validated["cases"].values())


def say(answer: Answer) -> int:
    """Print a recorded answer; return its exit status."""
    for stream, lines in ((sys.stdout, answer.stdout), (sys.stderr, answer.stderr)):
        stream.write("".join(f"{line}\n" for line in lines))
    return answer.rc
