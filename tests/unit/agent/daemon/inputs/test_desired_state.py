# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Desired state from files that become valid and invalid."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.clusters import objects as make

from kubenode.cli.desired import wanted
from kubenode.daemon.inputs.desired_state import DesiredState, Options
from kubenode.engine.errors import KernelError
from kubenode.engine.kernel import ipv6 as families
from kubenode.log import Log

CONFIG = {"apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration", "mode": "ipvs"}


class Driver:
    """A configuration file, a directory of manifests, and the lines of the log."""

    def __init__(self, directory: Path) -> None:
        self.config = directory / "config.yaml"
        self.manifests = directory / "manifests"
        self.manifests.mkdir()
        self.lines: list[str] = []
        log = Log(write=self.lines.append, journal=True, clock=lambda: 0.0)
        options = Options(str(self.config), True, str(self.manifests), str(directory), str(directory), "n1", False)
        self.wanted = DesiredState(options, log)
        self.configure()

    def configure(self, **fields: Any) -> None:
        self.config.write_text(json.dumps({**CONFIG, **fields}))

    def write(self, *items: dict[str, Any]) -> None:
        (self.manifests / "a.json").write_text(json.dumps({"kind": "List", "items": list(items)}))


@pytest.fixture
def driver(tmp_path: Path) -> Driver:
    started = Driver(tmp_path)
    started.write(make.service("web", ["10.96.0.10", "fd00::10"]))
    return started


def test_node_without_selector_labels_is_not_served(driver: Driver) -> None:
    own = {
        "kind": "AgentConfiguration",
        "apiVersion": "kubenode.ipvs/v1alpha1",
        "nodeSelector": {"proxy": "ours", "a": "b"},
    }
    driver.config.write_text(json.dumps(CONFIG) + "\n" + json.dumps(own))
    driver.wanted.configure()
    assert driver.wanted.waiting == driver.wanted.elsewhere == "the label a=b and proxy=ours on Node n1 (nodeSelector)"
    for labels, lacking in (({"proxy": "theirs", "a": "b"}, "proxy=ours"), ({"proxy": "ours", "a": "b", "c": "d"}, "")):
        driver.write({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "labels": labels}})
        driver.wanted.refresh()
        assert driver.wanted.elsewhere == (lacking and f"the label {lacking} on Node n1 (nodeSelector)")
    driver.configure()
    driver.wanted.configure()
    assert driver.wanted.elsewhere == ""


def servers(delta: Any) -> set[str]:
    return {str(key) for key in delta.get("virtual_server", {})}


def test_missing_configuration_gives_no_desired_state(driver: Driver) -> None:
    driver.config.write_text("mode: [")
    driver.wanted.configure()
    assert "config.yaml:1: not valid YAML" in driver.wanted.waiting
    assert driver.wanted.take() == ({}, False)
    driver.configure()
    driver.wanted.configure()
    assert driver.wanted.waiting == ""
    delta, everything = driver.wanted.take()
    assert everything
    assert servers(delta) == {"tcp 10.96.0.10:80", "tcp [fd00::10]:80"}


def test_bad_configuration_keeps_the_last_good_one(driver: Driver) -> None:
    driver.configure(ipvs={"scheduler": "lc"})
    driver.wanted.configure()
    driver.wanted.take()
    driver.configure(ipvs={"scheduler": "nonsense"})
    driver.wanted.configure()
    assert "nonsense" in driver.wanted.problems[0]
    assert driver.wanted.config.scheduler == "lc"
    assert driver.wanted.take() == ({}, False) or not any(driver.wanted.take()[0].values())
    driver.configure(ipvs={"scheduler": "wrr"})
    driver.wanted.configure()
    delta, everything = driver.wanted.take()
    assert everything
    assert {value.scheduler for value in delta["virtual_server"].values()} == {"wrr"}
    assert driver.wanted.problems == []


def test_node_without_ipv6_is_served_ipv4_only(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(families, "_IPV6", "/nowhere")
    driver.wanted.configure()
    delta, _everything = driver.wanted.take()
    assert servers(delta) == {"tcp 10.96.0.10:80"}
    assert {key.family for key in delta["chain"]} == {key.family for key in delta["jump"]} == {4}
    assert not [name for name in delta["set"] if name.startswith("KUBE-6-")]
    assert not [key for key in delta["address"] if ":" in key.address]
    assert not [key for key in delta["member"] if key.set.startswith("KUBE-6-")]
    assert driver.wanted.cluster is not None
    assert {kind: items for kind, items in wanted(driver.wanted.cluster).items() if items} == delta


def test_ipv6_stays_while_the_kernel_does_not_tell_of_it(
    driver: Driver, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    driver.wanted.configure()
    with monkeypatch.context() as patch:
        patch.setattr(families, "_IPV6", str(loop))
        with pytest.raises(KernelError, match=r"IPv6 virtual servers.*loop cannot be looked up"):
            driver.wanted.take()
    delta, everything = driver.wanted.take()
    assert everything
    assert servers(delta) == {"tcp 10.96.0.10:80", "tcp [fd00::10]:80"}


def test_problem_and_its_end_are_logged_once(driver: Driver) -> None:
    driver.write(make.service("bad", ["10.96.0.11"], [make.port(70000)]))
    driver.wanted.configure()
    for _time in range(3):
        driver.wanted.report()
    (line,) = [line for line in driver.lines if "70000" in line]
    assert line.startswith("<3>")
    assert "object=ns1/bad" in line
    driver.write(make.service("bad", ["10.96.0.11"]))
    driver.wanted.refresh()
    driver.wanted.report()
    assert driver.lines[-1].startswith('<6>object problem resolved object=ns1/bad reason="Service ns1/bad: ')


def test_invalid_object_name_is_logged_unchanged(driver: Driver) -> None:
    driver.write(make.service("a b", ["10.96.0.11"]))
    driver.wanted.configure()
    (line,) = [line for line in driver.lines if line.startswith("<3>")]
    assert line.startswith('<3>object cannot be used object="ns1/a b" reason=')


def test_source_that_was_never_read_is_unknown(driver: Driver) -> None:
    (driver.manifests / "b.json").write_text("{")
    driver.wanted.configure()
    assert not driver.wanted.complete
    (driver.manifests / "b.json").unlink()
    driver.wanted.refresh()
    assert driver.wanted.complete
