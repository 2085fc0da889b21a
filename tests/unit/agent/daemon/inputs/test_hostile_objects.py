# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cost of one tenant's objects for the agent: through manifests, ``render`` and the log."""

from __future__ import annotations

import json
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.clusters import objects
from support.clusters.objects import endpoint, piece, service

from kubenode.daemon.inputs.desired_state import DesiredState, Options
from kubenode.log import Log

ROOT = Path(__file__).parents[5]
WEIGHT, SCHEDULER = "kubenode.ipvs/weight", "kubenode.ipvs/scheduler"
GOOD = [service("good", ["10.96.0.2"]), piece("good", [endpoint("10.244.0.2")])]
GOOD_SERVER = "-a -t 10.96.0.2:80 -r 10.244.0.2:80 -m -w 1"
POISON = piece("web", [endpoint("10.244.0.1")], annotations={WEIGHT: "9" * 5000})


class Driver:
    """The desired state of a node, from one file of manifests, and the lines of its log."""

    def __init__(self, directory: Path) -> None:
        config = directory / "config.yaml"
        config.write_text(json.dumps({"apiVersion": "kubenode.ipvs/v1alpha1", "kind": "AgentConfiguration"}))
        self.file = directory / "objects.json"
        self.lines: list[str] = []
        self.time = 0.0
        log = Log(write=self.lines.append, journal=True, clock=lambda: self.time)
        self.wanted = DesiredState(
            Options(str(config), True, str(self.file), str(directory), str(directory), "n1", False), log
        )

    def write(self, *items: dict[str, Any]) -> None:
        self.write_text(json.dumps({"kind": "List", "items": list(items)}))

    def write_text(self, text: str) -> None:
        self.file.write_text(text)
        self.wanted.configure() if self.wanted.cluster is None else self.wanted.refresh({self.file.name})
        self.wanted.report()

    @property
    def servers(self) -> set[str]:
        assert self.wanted.cluster is not None
        return {str(key) for key in self.wanted.cluster.state()["virtual_server"]}

    @property
    def bytes_written(self) -> int:
        return sum(len(line.encode()) for line in self.lines)


@pytest.fixture
def driver(tmp_path: Path) -> Driver:
    return Driver(tmp_path)


def test_poisonous_slice_is_named_and_all_else_served(driver: Driver) -> None:
    driver.write(service("web", ["10.96.0.1"]), POISON, *GOOD)
    assert driver.servers == {"tcp 10.96.0.1:80", "tcp 10.96.0.2:80"}
    (line,) = [line for line in driver.lines if "object cannot be used" in line]
    assert f"EndpointSlice ns1/web-4: annotation {WEIGHT} is '999" in line
    assert len(line) < 1000


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_render_names_poison_and_renders_all_else(tmp_path: Path, form: str) -> None:
    items = [service("web", ["10.96.0.1"]), POISON, *GOOD]
    file = tmp_path / f"objects.{form}"
    file.write_text(json.dumps({"kind": "List", "items": items}) if form == "json" else yaml.safe_dump_all(items))
    words = ["render", "--objects", str(file), "--node", "n1", "--format", "ipvsadm"]
    environment = {"PYTHONPATH": str(ROOT / "agent/src"), "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-m", "kubenode", *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert GOOD_SERVER in done.stdout
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"kubenode: EndpointSlice ns1/web-4: annotation {WEIGHT} is '999")
    assert len(line) < 1000


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("9" * 5000, f"spec.ports[0].port is '{'9' * 40}... (5000 digits)', expected a port"),
        ("[" * 5000 + "]" * 5000, "spec.ports[0].port is [[[[[...]]]]], expected a port"),
    ],
    ids=["digits", "nested"],
)
def test_json_value_out_of_bounds_costs_only_its_object(driver: Driver, value: str, problem: str) -> None:
    """The output of ``kubectl get -o json`` is one document, which holds the hostile object and all others."""
    text = json.dumps({"kind": "List", "items": [service("web", ["10.96.0.1"], [objects.port(4711)]), *GOOD]})
    driver.write_text(text.replace("4711", value, 1))
    assert driver.servers == {"tcp 10.96.0.2:80"}
    (line,) = [line for line in driver.lines if "object cannot be used" in line]
    assert f"Service ns1/web: {problem}" in line


def test_yaml_number_out_of_bounds_costs_only_its_object(driver: Driver) -> None:
    text = yaml.safe_dump_all([service("web", ["10.96.0.1"], [objects.port(4711)]), *GOOD])
    driver.write_text(text.replace("4711", "9" * 5000, 1))
    assert driver.servers == {"tcp 10.96.0.2:80"}
    assert any("Service ns1/web: spec.ports[0].port is '999" in line for line in driver.lines)


def updates(driver: Driver, count: int, size: int) -> None:
    for number in range(count):
        driver.write(service("web", ["10.96.0.1"], annotations={SCHEDULER: f"{number} {'x' * size}"}), *GOOD)


def test_updates_of_a_long_annotation_write_little(driver: Driver) -> None:
    """Such updates once wrote 160 MB: each value in full, and each line again when its problem was gone."""
    updates(driver, 400, 200_000)
    assert driver.bytes_written < 100_000
    assert [line for line in driver.lines if "Service ns1/web" in line]


def test_updates_of_a_long_annotation_hold_little(driver: Driver) -> None:
    """Such updates once held 77 MiB, because the log remembers a thousand lines."""
    updates(driver, 5, 200_000)
    tracemalloc.start()
    updates(driver, 100, 200_000)
    held, _peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 2_000_000


def test_updates_of_a_short_annotation_have_a_quota(driver: Driver) -> None:
    updates(driver, 200, 5)
    for message in ("object cannot be used as it is", "object problem resolved"):
        assert len([line for line in driver.lines if message in line]) <= 51, message
    driver.time = 301.0
    driver.lines.clear()
    updates(driver, 1, 6)
    assert [line for line in driver.lines if "0 xxxxxx" in line]


def test_names_out_of_bounds_write_little(driver: Driver) -> None:
    for number in range(100):
        driver.write(service(f"{number}{'x' * 100_000}"), *GOOD)
    assert driver.servers == {"tcp 10.96.0.2:80"}
    assert driver.bytes_written < 100_000


def test_respelled_address_is_a_warning(driver: Driver) -> None:
    driver.write(service("web", ["010.96.0.1"]), *GOOD)
    assert driver.servers == {"tcp 10.96.0.1:80", "tcp 10.96.0.2:80"}
    (line,) = [line for line in driver.lines if "ns1/web" in line]
    assert line.startswith("<4>object is used, but not as it is written object=ns1/web reason=")
    assert "which is read as 10.96.0.1" in line
