# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The inventory and the ssh configuration, as Ansible and ssh read them."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from lab import access, state
from lab.state import Lab, Node


@pytest.fixture(params=["/srv/clone", "/srv/with space/100%"])
def lab(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Lab:
    monkeypatch.setattr(state, "RUNS", Path(request.param))
    nodes = (
        Node("node1", 0, "bookworm", "stock", "/images/x", "test"),
        Node("old", 1, "bullseye", "uml", "/images/y", "test"),
    )
    return Lab("test", nodes, ("client",), "512M")


def ssh_settings(lab: Lab, tmp_path: Path, host: str) -> dict[str, str]:
    """Return the settings that ssh itself derives from the configuration for a host."""
    path = tmp_path / "ssh_config"
    path.write_text(access.ssh_config(lab))
    output = subprocess.run(["ssh", "-F", path, "-G", host], check=True, capture_output=True, text=True).stdout
    return dict(line.partition(" ")[::2] for line in output.splitlines())


@pytest.mark.parametrize(
    ("host", "address"), [("node1", "10.77.0.11"), ("old", "10.77.0.12"), ("10.77.0.12", "10.77.0.12")]
)
def test_ssh_understands_its_configuration(lab: Lab, tmp_path: Path, host: str, address: str) -> None:
    settings = ssh_settings(lab, tmp_path, host)
    assert settings["hostname"] == address
    assert settings["user"] == "root"
    # -G prints before it expands
    assert settings["identityfile"].strip('"') == str(lab.directory / "id").replace("%", "%%")
    assert settings["userknownhostsfile"].strip('"') == str(lab.directory / "known_hosts")
    assert settings["stricthostkeychecking"] == "true"
    assert settings["proxyusefdpass"] == "yes"
    assert shlex.split(settings["proxycommand"])[-3:] == [lab.namespace, "%h", "%p"]
    assert settings["controlpath"] == f"{lab.control_directory}/{address}"


@pytest.mark.parametrize(("host", "seconds"), [("node1", 120), ("10.77.0.11", 120), ("old", 20), ("10.77.0.12", 20)])
def test_ssh_waits_longer_for_an_emulated_node(lab: Lab, tmp_path: Path, host: str, seconds: int) -> None:
    settings = ssh_settings(lab, tmp_path, host)
    assert int(settings["connecttimeout"]) == seconds
    assert int(settings["serveraliveinterval"]) * int(settings["serveralivecountmax"]) == seconds


def test_inventory_lists_all_nodes(lab: Lab) -> None:
    nodes = yaml.safe_load(access.as_yaml(access.inventory(lab)))["all"]["children"]["nodes"]
    assert nodes["hosts"]["old"] == {
        "ansible_host": "10.77.0.12",
        "lab_ipv4": "10.77.0.12",
        "lab_ipv6": "fd77:6b6e::12",
        "lab_release": "bullseye",
        "lab_kernel": "uml",
        "ansible_ssh_timeout": 30,
    }
    assert nodes["vars"]["ansible_user"] == "root"
    assert shlex.split(nodes["vars"]["ansible_ssh_args"])[:2] == ["-F", str(lab.directory / "ssh_config")]
    assert nodes["vars"]["lab_clients"]["client"]["namespace"].endswith(".test.client")


TEXT = st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"]))
VALUES = TEXT | st.integers() | st.booleans() | st.lists(TEXT, max_size=2)
KEYS = st.from_regex(r"[a-z][a-z_]{3,9}", fullmatch=True).filter(lambda key: key not in ("true", "false", "null"))


@given(
    st.dictionaries(
        KEYS, st.recursive(VALUES, lambda inner: st.dictionaries(KEYS, inner, max_size=3), max_leaves=8), max_size=4
    )
)
def test_yaml_is_read_back_unchanged(value: dict[str, object]) -> None:
    if value:
        assert yaml.safe_load(access.as_yaml(value)) == value
