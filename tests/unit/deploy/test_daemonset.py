# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The DaemonSet of deploy/daemonset: what a kubelet needs, what the agent needs, and what each overlay changes."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.containers import kustomize
from support.containers.kustomize import DAEMONSET, OVERLAYS, Object

from kubenode import container, paths
from kubenode.cli import parser
from kubenode.configuration import load
from kubenode.sources.kubernetes.kubeconfig import Kubeconfig
from kubenode.sources.kubernetes.service_account import DIRECTORY

ROOT = DAEMONSET.parents[1]
MOUNT = "/var/lib/kube-proxy"
OWN_CONFIG = ("k3s", "rke2", "talos")  # overlays for distributions without kubeadm's ConfigMap
SERVERS = {"k3s": "https://127.0.0.1:6444", "rke2": "https://127.0.0.1:6443", "talos": "https://127.0.0.1:7445"}


@pytest.fixture(params=OVERLAYS)
def objects(request: pytest.FixtureRequest) -> list[Object]:
    return kustomize.overlay(request.param)


def one(objects: list[Object], kind: str, name: str = "kubenode-agent") -> Any:
    """Return an object of an overlay."""
    (item_of_name,) = [item for item in objects if (item["kind"], item["metadata"]["name"]) == (kind, name)]
    return item_of_name


def pod(objects: list[Object]) -> Any:
    return one(objects, "DaemonSet")["spec"]["template"]["spec"]


def containers(objects: list[Object]) -> dict[str, Any]:
    spec = pod(objects)
    return {entry["name"]: entry for entry in [*spec["initContainers"], *spec["containers"]]}


def test_pod_has_what_a_node_critical_proxy_needs(objects: list[Object]) -> None:
    spec = pod(objects)
    assert spec["hostNetwork"] is True
    assert spec["priorityClassName"] == "system-node-critical"
    assert spec["tolerations"] == [{"operator": "Exists"}]
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert one(objects, "DaemonSet")["spec"]["updateStrategy"]["type"] == "RollingUpdate"
    labels = one(objects, "DaemonSet")["spec"]["template"]["metadata"]["labels"]
    assert one(objects, "DaemonSet")["spec"]["selector"]["matchLabels"].items() <= labels.items()


def test_containers_have_no_right_beyond_the_named(objects: list[Object]) -> None:
    agent, prepare = containers(objects)["agent"], containers(objects)["prepare"]
    for entry in (agent, prepare):
        assert "privileged" not in entry["securityContext"]
        assert entry["securityContext"]["allowPrivilegeEscalation"] is False
        assert entry["securityContext"]["readOnlyRootFilesystem"] is True
        assert entry["securityContext"]["capabilities"]["drop"] == ["ALL"]
    assert agent["securityContext"]["capabilities"]["add"] == ["NET_ADMIN", "NET_RAW"]
    assert agent["securityContext"]["runAsNonRoot"] is True
    assert agent["securityContext"]["runAsUser"] == agent["securityContext"]["runAsGroup"] == container.USER
    assert prepare["securityContext"]["runAsUser"] == 0


def test_only_talos_keeps_init_container_from_loading_modules() -> None:
    able = {name: containers(kustomize.overlay(name))["prepare"] for name in OVERLAYS}
    added = {name: set(entry["securityContext"]["capabilities"]["add"]) for name, entry in able.items()}
    assert {name for name in OVERLAYS if "SYS_MODULE" not in added[name]} == {"talos"}
    assert {frozenset(names - {"SYS_MODULE"}) for names in added.values()} == {
        frozenset("CHOWN DAC_OVERRIDE FOWNER KILL SETGID SETUID SYS_ADMIN NET_ADMIN NET_RAW".split())
    }


def test_mounts_have_volumes_and_the_paths_of_the_agent(objects: list[Object]) -> None:
    spec = pod(objects)
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    assert len(volumes) == len(spec["volumes"])
    for entry in containers(objects).values():
        mounts = {mount["mountPath"]: mount for mount in entry["volumeMounts"]}
        assert {mount["name"] for mount in mounts.values()} == set(volumes)
        assert {paths.RUN, paths.STATE, DIRECTORY, f"{container.SYSCTLS}/net", MOUNT} <= set(mounts)
        assert {path for path, mount in mounts.items() if not mount.get("readOnly")} == {
            paths.RUN, paths.STATE, "/run/xtables.lock", f"{container.SYSCTLS}/net",
        }  # fmt: skip
    assert volumes["run"]["hostPath"]["path"] == paths.RUN
    assert volumes["state"]["hostPath"]["path"] == paths.STATE


def test_probes_ask_the_agent_of_the_node(objects: list[Object]) -> None:
    agent = containers(objects)["agent"]
    asked = {name: agent[name]["httpGet"] for name in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert {(probe["host"], probe["port"]) for probe in asked.values()} == {("127.0.0.1", 10256)}
    assert {name: probe["path"] for name, probe in asked.items()} == {
        "startupProbe": "/livez",
        "livenessProbe": "/livez",
        "readinessProbe": "/healthz",
    }


def test_environment_gives_node_and_configuration_to_commands(
    objects: list[Object], monkeypatch: pytest.MonkeyPatch
) -> None:
    for entry in containers(objects).values():
        variables = {item["name"]: item for item in entry["env"]}
        assert set(variables) == {paths.CONFIG_VARIABLE, paths.NODE_VARIABLE}
        assert variables[paths.NODE_VARIABLE]["valueFrom"]["fieldRef"]["fieldPath"] == "spec.nodeName"
        monkeypatch.setenv(paths.CONFIG_VARIABLE, variables[paths.CONFIG_VARIABLE]["value"])
        monkeypatch.setenv(paths.NODE_VARIABLE, "n1")
        options: argparse.Namespace = parser.parser(entry["args"][0])[0].parse_args(entry["args"][1:])
        assert (options.config, options.node) == (f"{MOUNT}/config.conf:/etc/kubenode/agent.yaml", "n1")


def test_rights_are_those_of_the_role_agent(objects: list[Object]) -> None:
    roles = {item["kind"]: item for item in yaml.safe_load((ROOT / "roles/agent/files/rbac.yaml").read_text())["items"]}
    assert one(objects, "ClusterRole")["rules"] == roles["ClusterRole"]["rules"]
    assert one(objects, "ClusterRoleBinding") == roles["ClusterRoleBinding"]
    assert one(objects, "ServiceAccount")["automountServiceAccountToken"] is False
    assert pod(objects)["serviceAccountName"] == "kubenode-agent"
    token = next(volume for volume in pod(objects)["volumes"] if volume["name"] == "token")["projected"]["sources"]
    assert token[0]["serviceAccountToken"] == {"path": "token", "expirationSeconds": 3600}


@pytest.mark.parametrize("name", OWN_CONFIG)
def test_configuration_in_place_of_kubeadms_can_be_used(name: str, tmp_path: Path) -> None:
    objects = kustomize.overlay(name)
    (volume,) = [item for item in pod(objects)["volumes"] if item["name"] == "kube-proxy"]
    data = one(objects, "ConfigMap", volume["configMap"]["name"])["data"]
    for file, text in {**data, **one(objects, "ConfigMap")["data"]}.items():
        (tmp_path / file).write_text(text)
    config, warnings = load(f"{tmp_path}/config.conf:{tmp_path}/agent.yaml", required=True)
    assert warnings == []
    assert (config.source, config.kubeconfig) == ("kubernetes", f"{MOUNT}/kubeconfig.conf")
    kubeconfig = yaml.safe_load(data["kubeconfig.conf"])
    kubeconfig["clusters"][0]["cluster"]["certificate-authority"] = str(tmp_path / "ca")
    (tmp_path / "ca").write_text("PEM")
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(kubeconfig))
    access = Kubeconfig(str(tmp_path / "kubeconfig")).access()
    assert (access.server, access.identity.token_file) == (SERVERS[name], f"{DIRECTORY}/token")


def test_configmap_of_kubeadm_is_used_as_it_is() -> None:
    for name in set(OVERLAYS) - set(OWN_CONFIG):
        objects = kustomize.overlay(name)
        (volume,) = [item for item in pod(objects)["volumes"] if item["name"] == "kube-proxy"]
        assert volume["configMap"] == {"name": "kube-proxy"}
        assert [item["metadata"]["name"] for item in objects if item["kind"] == "ConfigMap"] == ["kubenode-agent"]


def test_label_leads_either_kube_proxy_or_the_agent_to_a_node() -> None:
    for name in ("kubeadm", "flatcar"):
        assert pod(kustomize.overlay(name))["nodeSelector"]["kubenode.ipvs/proxy"] == "daemonset"
    (patch,) = kustomize.documents(DAEMONSET / "overlays/kubeadm/kube-proxy.yaml")
    affinity = patch["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [{"key": "kubenode.ipvs/proxy", "operator": "DoesNotExist"}]


def test_images_are_those_that_make_image_names(objects: list[Object]) -> None:
    source = (ROOT / "agent/image/__main__.py").read_text()
    match = re.search(r'^NAME = "(.+)"$', source, re.MULTILINE)
    assert match is not None
    version = (ROOT / "agent/src/kubenode/_version.py").read_text().split('"')[-2]
    assert {entry["image"] for entry in containers(objects).values()} == {f"{match[1]}:{version}"}


def test_image_user_is_the_agents() -> None:
    assert f"USER = {container.USER} " in (ROOT / "agent/image/tree.py").read_text()
