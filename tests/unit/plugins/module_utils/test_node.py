# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts about a node, from its files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.kubenode.ipvs.plugins.module_utils._host import facts as _node
from ansible_collections.kubenode.ipvs.plugins.module_utils.engine.kernel.machine import Machine
from ansible_collections.kubenode.ipvs.plugins.module_utils.engine.kernel.missing_modules import diagnose


@pytest.mark.parametrize(
    ("text", "recognised"),
    [
        ('ID=debian\nVERSION_ID="12"\n', ("debian", "12", ["debian"], "debian")),
        ("ID=ubuntu\nID_LIKE=debian\nVERSION_ID=24.04\n", ("ubuntu", "24.04", ["ubuntu", "debian"], "debian")),
        (
            'ID="rocky"\nID_LIKE="rhel centos fedora"\nVERSION_ID="9.4"\n',
            ("rocky", "9.4", ["rocky", "rhel", "centos", "fedora"], "redhat"),
        ),
        (
            'ID="opensuse-leap"\nID_LIKE="suse opensuse"\nVERSION_ID="15.6"\n',
            ("opensuse-leap", "15.6", ["opensuse-leap", "suse", "opensuse"], "suse"),
        ),
        ("ID=arch\n", ("arch", "", ["arch"], "arch")),
        ("ID=gentoo\n", ("gentoo", "", ["gentoo"], "unknown")),
        ("", ("unknown", "", [], "unknown")),
    ],
)
def test_distributions_are_recognised(tmp_path: Path, text: str, recognised: tuple[object, ...]) -> None:
    path = tmp_path / "os-release"
    path.write_text(text)
    assert tuple(_node.distribution(str(path)).values()) == recognised
    assert _node.distribution(str(tmp_path / "nosuch"))["family"] == "unknown"


def test_distribution_may_have_any_bytes(tmp_path: Path) -> None:
    path = tmp_path / "os-release"
    path.write_bytes(b'PRETTY_NAME="D\xe9bian"\nID=debian\n')
    assert _node.distribution(str(path))["family"] == "debian"


def test_a_node_that_lacks_something_is_not_fit() -> None:
    facts = _node.survey(["no_such_module|nor_this"], ["sh", "no-such-command"], "/nosuch")
    assert facts["commands"]["no-such-command"] is None
    assert facts["commands"]["sh"].endswith("/sh")
    assert not facts["fit"]
    assert "command no-such-command is not installed" in facts["problems"]
    assert set(facts["modules"]) == {"no_such_module", "nor_this"}
    assert facts["lacks"]["commands"] == ["no-such-command"]


FACTS = {"kernel": "6.1.0-18-amd64", "python": "3.11.2", "container": False, "virtualization": "kvm", "ipvs": None}
ROOT = {"user": 0, "python": (3, 11, 2), "unwritable": [], "full": []}


@pytest.mark.parametrize(
    ("facts", "given", "sentences"),
    [
        ({}, {}, []),
        ({"kernel": "4.18.0-553.el8_10.x86_64"}, {}, []),
        ({"kernel": "5.4"}, {}, []),
        ({"kernel": "4.15.0-213-generic"}, {}, ["kernel is 4.15.0-213-generic, expected 4.18 or newer"]),
        ({}, {"user": 1000, "unwritable": ["/etc"]}, ["tasks run as user 1000, expected root (become: true)"]),
        (
            {"python": "3.6.8"},
            {"python": (3, 6, 8)},
            ["Python is 3.6.8, expected 3.9 or newer (ansible_python_interpreter)"],
        ),
        (
            {"container": True, "virtualization": "docker"},
            {"unwritable": ["/proc/sys/net/ipv4/ip_forward"]},
            [
                "/proc/sys/net/ipv4/ip_forward is read-only, expected to be written to (kernel parameters)",
                (
                    "the node is a container (docker), which cannot load kernel modules, and the kernel that it shares"
                    " has not loaded ip_vs: load it on the machine below"
                ),
            ],
        ),
        ({"container": True, "virtualization": "lxc", "ipvs": "1.2.1"}, {}, []),
        ({}, {"full": ["/etc"]}, ["/etc has no space left, expected some (files)"]),
    ],
)
def test_unpreparable_node_is_refused(facts: dict[str, Any], given: dict[str, Any], sentences: list[str]) -> None:
    assert _node.refusals({**FACTS, **facts}, **{**ROOT, **given}) == sentences


def test_missing_modules_are_lacking() -> None:
    states = {"a": "absent", "b": "loadable", "c": "absent", "d": "unknown"}
    assert _node.absent(["a|b", "a", "a|c", "d"], states, False) == ["a", "a|c"]
    assert _node.absent(["a|b", "a", "a|c", "d"], states, True) == []


def test_commands_and_modules_are_reported_at_once() -> None:
    machine = Machine("debian", "12", ("debian",), "debian", "6.12.0")
    missing = diagnose(["ip_set", "xt_a|ipt_a"], machine, {})
    assert _node.lacking(["ipset", "conntrack"], missing, machine) == [
        "command ipset is not installed",
        "command conntrack is not installed",
        (
            "kernel 6.12.0 has no module ip_set (for sets), xt_a or ipt_a: neither loaded, nor built in, nor under"
            " /lib/modules/6.12.0. No package of debian is known to bring kernel modules to this kernel. Boot a kernel"
            " of the distribution that has them"
        ),
    ]


@pytest.mark.parametrize(
    ("wanted", "backend", "family", "result"),
    [
        (["xt_set"], "nft", "debian", ["xt_set", "nft_compat"]),
        (["nft_compat", "xt_set"], "nft", "debian", ["nft_compat", "xt_set"]),
        (["xt_set"], "legacy", "redhat", ["xt_set"]),
        (["ip_vs"], "nft", "debian", ["ip_vs"]),
        (["xt_set"], None, "redhat", ["xt_set", "nft_compat"]),
        (["xt_set"], None, "debian", ["xt_set"]),
    ],
)
def test_iptables_nft_needs_nft_compat(wanted: list[str], backend: str | None, family: str, result: list[str]) -> None:
    assert _node.with_nft_compat(wanted, backend, family) == result


@pytest.mark.parametrize(
    ("files", "kind"),
    [
        ({}, None),
        ({"run/systemd/container": "lxc\n"}, "lxc"),
        ({".dockerenv": ""}, "docker"),
        ({"run/.containerenv": "engine=podman"}, "podman"),
        ({"proc/1/environ": "PATH=/bin\0container=oci\0"}, "oci"),
        ({"proc/1/environ": "PATH=/bin\0notcontainer=oci\0"}, None),
        ({"proc/1/environ": "KUBERNETES_SERVICE_HOST=10.96.0.1\0"}, "kubernetes"),
        ({"proc/1/environ": "container=\0KUBERNETES_SERVICE_HOST=10.96.0.1\0", ".dockerenv": ""}, "docker"),
        ({"run/host/container-manager": "toolbox\n", "run/.containerenv": ""}, "toolbox"),
        ({"proc/self/ns/pid": ""}, "unknown"),
        ({"proc/self/ns/pid": "", "proc/1/environ": "container=lxc\0"}, "lxc"),
    ],
)
def test_containers_are_recognised(tmp_path: Path, files: dict[str, str], kind: str | None) -> None:
    write(tmp_path, files)
    assert _node.container_kind(str(tmp_path)) == kind


@pytest.mark.parametrize(
    ("files", "kind"),
    [
        ({"proc/cpuinfo": "flags : fpu vme\n"}, "none"),
        ({"proc/cpuinfo": "flags : fpu hypervisor\n"}, "unknown"),
        ({"proc/cpuinfo": "vendor_id : User Mode Linux\n"}, "uml"),
        ({"sys/class/dmi/id/sys_vendor": "VMware, Inc.\n"}, "vmware"),
        ({"sys/class/dmi/id/product_name": "KVM\n", "sys/class/dmi/id/sys_vendor": "QEMU\n"}, "kvm"),
    ],
)
def test_virtual_machines_are_recognised(tmp_path: Path, files: dict[str, str], kind: str) -> None:
    write(tmp_path, files)
    assert _node.hypervisor(str(tmp_path)) == kind


def test_digests_of_files_are_reported(tmp_path: Path) -> None:
    write(tmp_path, {"file": "abc"})
    assert _node.digest(str(tmp_path / "file")) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert _node.digest(str(tmp_path / "nosuch")) is None


def write(directory: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text)
