#!/usr/bin/python3
# A fake of kubectl: the commands that the role migrate uses, on files in /var/lib/fake-cluster instead of a cluster of
# one node. Its kube-proxy is a service that runs where the DaemonSet's affinity and the node's label let it. Every call
# is written to /var/lib/fake-cluster/calls. `schedule` is the kubelet at boot. The agent's DaemonSet has one pod, the
# service fake-pod, on a node with the label's value "daemonset".
from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path("/var/lib/fake-cluster")
DAEMONSET, LABELS = ROOT / "daemonset.json", ROOT / "labels.json"
AGENTS = {"kind": "DaemonSet", "spec": {"template": {"spec": {"nodeSelector": {"kubenode.ipvs/proxy": "daemonset"}}}}}
POD = pathlib.Path("/etc/systemd/system/fake-pod.service")
KUBENODE = ["/usr/bin/python3", "-IS", "/var/lib/fake-pod/bin/kubenode"]


def merge(old, patch):
    """RFC 7396."""
    if not isinstance(patch, dict):
        return patch
    merged = {**(old if isinstance(old, dict) else {})}
    for key, value in patch.items():
        merged[key] = merge(merged.get(key), value)
    return merged


def keep(path, document):
    """Replace a file at once: readers find the old or the new one, and a power cut loses no answer of the API."""
    path.with_suffix(".new").write_text(json.dumps(document))
    path.with_suffix(".new").replace(path)
    os.sync()


def schedule():
    """Do what the DaemonSet's controller would."""
    labels = json.loads(LABELS.read_text())
    pod = json.loads(DAEMONSET.read_text())["spec"]["template"]["spec"]
    required = pod.get("affinity", {}).get("nodeAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution", {})
    terms = required.get("nodeSelectorTerms", [{}])
    away = all(any(excludes(rule, labels) for rule in term.get("matchExpressions", ())) for term in terms)
    serves = labels.get("kubenode.ipvs/proxy") == "daemonset"
    if POD.exists() and not serves:
        subprocess.run(["systemctl", "stop", POD.name], check=True)
    subprocess.run(["systemctl", "stop" if away else "start", "kube-proxy.service"], check=True)
    if POD.exists() and serves:
        subprocess.run(["systemctl", "start", "--no-block", POD.name], check=True)


def excludes(rule, labels):
    if rule["operator"] == "DoesNotExist":
        return rule["key"] in labels
    return labels.get(rule["key"]) in rule["values"]


def running(unit="kube-proxy.service"):
    return subprocess.run(["systemctl", "--quiet", "is-active", unit], check=False).returncode == 0


words = sys.argv[1:]
dry = "--dry-run=server" in words
with (ROOT / "calls").open("a") as calls:
    calls.write(" ".join(words[:3]) + (" dry" if dry else "") + "\n")
if words[:1] == ["get"] and words[1].startswith("services,"):
    print((ROOT / "objects.json").read_text())
elif words[:2] == ["get", "configmap"]:
    print((ROOT / "configmap.json").read_text())
elif words[:3] == ["get", "daemonset", "kubenode-agent"]:
    print(json.dumps(AGENTS))
elif words[:2] == ["get", "pod"]:
    print("pod/fake" if running(POD.name) else "")
elif words[:2] == ["diff", "--kustomize"] or words[:3] == ["rollout", "status", "daemonset"]:
    print("the agent's DaemonSet is as its manifests")
elif words[:1] == ["exec"]:
    sys.exit(subprocess.run([*KUBENODE, *words[words.index("--") + 2 :]], check=False).returncode)
elif words[:2] == ["get", "daemonset"]:
    print(DAEMONSET.read_text())
elif words[:2] == ["patch", "daemonset"]:
    patched = merge(json.loads(DAEMONSET.read_text()), json.loads(words[words.index("--patch") + 1]))
    if not dry:
        keep(DAEMONSET, patched)
        schedule()
    print("daemonset.apps/kube-proxy patched")
elif words[:2] == ["label", "node"]:
    before = json.loads(LABELS.read_text())
    key, is_set, value = words[3].rstrip("-").partition("=")
    after = {**before, key: value}
    if not is_set:
        del after[key]
    print(f"node/{words[2]} " + ("not labeled" if after == before else "labeled" if is_set else "unlabeled"))
    if not dry:
        keep(LABELS, after)
        schedule()
elif words == ["schedule"]:
    schedule()
elif words[:2] == ["wait", "--for=delete"]:
    sys.exit(running(POD.name if "k8s-app=kubenode-agent" in words else "kube-proxy.service"))
elif words[:2] == ["wait", "--for=condition=Ready"] and "k8s-app=kubenode-agent" in words:
    sys.exit(not running(POD.name) or subprocess.run([*KUBENODE, "status", "--wait", "300"], check=False).returncode)
elif words[:2] == ["wait", "--for=condition=Ready"]:
    sys.exit(not running())
else:
    sys.exit(f"fake: kubectl {' '.join(words)} is not known")
