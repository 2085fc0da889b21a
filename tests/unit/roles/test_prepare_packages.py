# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of packages of the role prepare, rendered by Ansible's own templating.

Its inputs are node_check's results on each distribution.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible import template
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar

from ansible_collections.kubenode.ipvs.plugins.module_utils._host import facts as _node
from ansible_collections.kubenode.ipvs.plugins.module_utils._host import packages as _packages
from ansible_collections.kubenode.ipvs.plugins.module_utils.engine.kernel.machine import Machine
from ansible_collections.kubenode.ipvs.plugins.module_utils.engine.kernel.missing_modules import diagnose

ROLE = Path(__file__).parents[3] / "roles/prepare"
COMMANDS = ["ipset", "ipvsadm", "iptables-restore", "conntrack", "modprobe"]

# The content of os-release, and the kernel's release.
DEBIAN_12 = ('ID=debian\nVERSION_ID="12"\n', "6.1.0-18-amd64")
UBUNTU_AWS = ('ID=ubuntu\nID_LIKE=debian\nVERSION_ID="24.04"\n', "6.8.0-1016-aws")
UBUNTU_KVM = ('ID=ubuntu\nID_LIKE=debian\nVERSION_ID="20.04"\n', "5.4.0-1103-kvm")
MINT = ('ID=linuxmint\nID_LIKE="ubuntu debian"\nVERSION_ID="22"\n', "6.8.0-38-generic")
RHEL_8 = ('ID="rhel"\nID_LIKE="fedora"\nVERSION_ID="8.10"\n', "4.18.0-553.el8_10.x86_64")
ROCKY_9 = ('ID="rocky"\nID_LIKE="rhel centos fedora"\nVERSION_ID="9.4"\n', "5.14.0-427.13.1.el9_4.x86_64")
ALMA_10 = ('ID="almalinux"\nID_LIKE="rhel centos fedora"\nVERSION_ID="10.0"\n', "6.12.0-55.9.1.el10_0.x86_64")
ORACLE_9 = ('ID="ol"\nID_LIKE="fedora"\nVERSION_ID="9.4"\n', "5.15.0-206.153.7.el9uek.x86_64")
FEDORA = ("ID=fedora\nVERSION_ID=41\n", "6.11.4-301.fc41.x86_64")
AMAZON = ('ID="amzn"\nID_LIKE="fedora"\nVERSION_ID="2023"\n', "6.1.119-129.201.amzn2023.x86_64")
LEAP = ('ID="opensuse-leap"\nID_LIKE="suse opensuse"\nVERSION_ID="15.6"\n', "6.4.0-150600.21-default")
SLES = ('ID="sles"\nID_LIKE="suse"\nVERSION_ID="15.6"\n', "6.4.0-150600.21-azure")
ARCH = ("ID=arch\n", "6.9.3-arch1-1")
GENTOO = ("ID=gentoo\n", "6.6.30-gentoo")

DEB = ["ipset", "ipvsadm", "conntrack", "iptables", "kmod"]
RPM = ["ipset", "ipvsadm", "conntrack-tools", "iptables-nft", "kmod"]


@pytest.fixture(scope="module")
def loader() -> DataLoader:
    return DataLoader()


@pytest.fixture
def render(loader: DataLoader, tmp_path: Path) -> Any:
    """Return a function that renders a variable of the role for a node and the role's other variables."""

    def rendered(variable: str, system: tuple[str, str], lacks: dict[str, list[str]], **given: Any) -> Any:
        (tmp_path / "os-release").write_text(system[0])
        facts: dict[str, Any] = {"kernel": system[1], "distribution": _node.distribution(str(tmp_path / "os-release"))}
        facts |= {"image_based": False, "systemd": True, "services": [], "refused": []}
        facts |= {"lacks": {"commands": [], "modules": [], **lacks}}
        node = facts["distribution"]
        machine = Machine(node["id"], node["version"], tuple(node["like"]), node["family"], system[1])
        machine = machine._replace(**given.pop("machine", {}))
        missing = diagnose(facts["lacks"]["modules"], machine, given.pop("lost", {}))
        facts["lacks"]["packages"] = list(dict.fromkeys(package for each in missing for package in each.packages))
        facts["missing_modules"] = [each._asdict() for each in missing]
        facts |= given.pop("node", {})
        facts["problems"] = facts["refused"] + _node.lacking(facts["lacks"]["commands"], missing, machine)
        variables = {**read(loader, "defaults"), **read(loader, "vars"), "prepare_node": facts, **given}
        return Templar(loader, variables=variables).template(variables[variable])

    return rendered


def trust(text: str) -> str:
    """Mark a text as a template; before ansible-core 2.19 every text is one."""
    mark = getattr(template, "trust_as_template", str)
    marked: str = mark(text)
    return marked


def read(loader: DataLoader, directory: str) -> dict[str, Any]:
    path = str(ROLE / directory / "main.yml")
    try:
        variables: dict[str, Any] = loader.load_from_file(path, trusted_as_template=True)
    except TypeError:  # before ansible-core 2.19 every text is a template
        variables = loader.load_from_file(path)
    return variables


@pytest.mark.parametrize(
    ("system", "packages"),
    [
        (DEBIAN_12, DEB),
        (UBUNTU_AWS, DEB),
        (MINT, DEB),
        (RHEL_8, ["ipset", "ipvsadm", "conntrack-tools", "iptables", "kmod"]),
        (ROCKY_9, RPM),
        (ALMA_10, RPM),
        (ORACLE_9, RPM),
        (FEDORA, RPM),
        (AMAZON, RPM),
        (LEAP, ["ipset", "ipvsadm", "conntrack-tools", "iptables", "kmod"]),
        (ARCH, ["ipset", "ipvsadm", "conntrack-tools", "iptables", "kmod"]),
    ],
    ids=lambda value: value[0].split()[0] if isinstance(value, tuple) else "",
)
def test_packages_of_commands(render: Any, system: tuple[str, str], packages: list[str]) -> None:
    assert render("prepare_packages_needed", system, {"commands": COMMANDS}) == packages
    assert render("prepare_packages_needed", system, {"commands": ["ipset"]}) == ["ipset"]
    assert render("prepare_packages_needed", system, {}) == []
    assert render("prepare_packages_needed", system, {}, prepare_packages_extra=["jq"]) == ["jq"]
    assert render("prepare_packages_needed", system, {"commands": COMMANDS}, prepare_packages=False) == []
    assert render("prepare_refusals", system, {"commands": COMMANDS}) == []


@pytest.mark.parametrize(
    ("system", "packages"),
    [
        (UBUNTU_AWS, ["linux-modules-extra-6.8.0-1016-aws"]),
        (MINT, ["linux-modules-extra-6.8.0-38-generic"]),
        (RHEL_8, ["kernel-modules-4.18.0-553.el8_10.x86_64", "kernel-modules-extra-4.18.0-553.el8_10.x86_64"]),
        (ALMA_10, ["kernel-modules-6.12.0-55.9.1.el10_0.x86_64", "kernel-modules-extra-6.12.0-55.9.1.el10_0.x86_64"]),
        (FEDORA, ["kernel-modules-6.11.4-301.fc41.x86_64", "kernel-modules-extra-6.11.4-301.fc41.x86_64"]),
        (
            ORACLE_9,
            [
                "kernel-uek-modules-5.15.0-206.153.7.el9uek.x86_64",
                "kernel-uek-modules-extra-5.15.0-206.153.7.el9uek.x86_64",
            ],
        ),
    ],
    ids=lambda value: value[0].split()[0] if isinstance(value, tuple) else "",
)
def test_packages_of_kernel_modules(render: Any, system: tuple[str, str], packages: list[str]) -> None:
    assert render("prepare_packages_needed", system, {"modules": ["ip_set"]}) == packages
    assert render("prepare_refusals", system, {"modules": ["ip_set"]}) == []
    assert render("prepare_packages_needed", system, {"modules": ["ip_set"], "commands": ["ipset"]}) == [
        "ipset",
        *packages,
    ]


@pytest.mark.parametrize(
    ("system", "command"),
    [
        (DEBIAN_12, "apt-get install --reinstall linux-image-6.1.0-18-amd64"),
        (UBUNTU_KVM, "apt-get install linux-image-virtual && systemctl reboot"),
        (SLES, "zypper install --force kernel-azure"),
        (LEAP, "zypper install kernel-default -kernel-default-base"),
        (ARCH, "pacman -Syu linux && systemctl reboot"),
    ],
    ids=lambda value: value[0].split()[0] if isinstance(value, tuple) else "",
)
def test_modules_without_a_package_are_refused_with_command(render: Any, system: tuple[str, str], command: str) -> None:
    assert render("prepare_packages_needed", system, {"modules": ["ip_vs"]}) == []
    (lacking,) = render("prepare_refusals", system, {"modules": ["ip_vs", "xt_a|ipt_a"]})
    assert lacking.startswith(f"kernel {system[1]} has no module ip_vs (for virtual servers), xt_a or ipt_a: neither ")
    assert f"Run `{command}`" in lacking


@pytest.mark.parametrize(
    "given",
    [
        {"machine": {"installed": ("6.8.0-1099-aws",)}},
        {"lost": {"ip_set": "kernel/net/netfilter/ipset/ip_set.ko.zst"}},
        {"machine": {"image": "rpm-ostree"}},
    ],
    ids=["updated kernel", "file is gone", "ostree"],
)
def test_modules_that_packages_cannot_bring_are_refused(render: Any, given: dict[str, Any]) -> None:
    lacks = {"modules": ["ip_set"], "commands": ["ipset"]}
    assert render("prepare_packages_needed", UBUNTU_AWS, lacks, **given) == ["ipset"]
    (lacking,) = render("prepare_refusals", UBUNTU_AWS, lacks, **given)
    assert lacking.startswith("kernel 6.8.0-1016-aws has no module ip_set (for sets): ")


def test_unknown_distribution_names_its_missing_modules_once(render: Any) -> None:
    refusals = render("prepare_refusals", GENTOO, {"modules": ["ip_vs"]})
    assert [sentence for sentence in refusals if "has no module ip_vs" in sentence] == refusals[:1]
    assert "No package of gentoo is known to bring kernel modules" in refusals[0]


@pytest.mark.parametrize(
    ("check_mode", "lacks", "hidden"),
    [(False, [], False), (False, ["ip_set"], False), (True, [], False), (True, ["ip_set"], True)],
)
def test_failed_kernel_settings_is_hidden_in_check_mode_only(
    loader: DataLoader, check_mode: bool, lacks: list[str], hidden: bool
) -> None:
    tasks = loader.load_from_file(str(ROLE / "tasks/main.yml"))
    (task,) = [task for task in tasks if "kubenode.ipvs.kernel_settings" in task]
    node = {"check_mode": check_mode, "lacks": {"modules": lacks}}
    variables = {"prepare_node": node, "prepare_kernel_result": {"failed": True}}
    condition = trust("{{ " + task["failed_when"] + " }}")
    assert Templar(loader, variables=variables).template(condition) is not hidden


@pytest.mark.parametrize(
    ("lacks", "given", "words"),
    [
        ({}, {}, []),
        ({"commands": ["ipvsadm", "conntrack"]}, {"prepare_packages": False}, []),
        (
            {"commands": ["ipset", "ipvsadm"]},
            {"prepare_packages": False},
            ["command ipset is not installed", "command ipvsadm is"],
        ),
        (
            {"commands": ["ipset"]},
            {"node": {"image_based": True}},
            ["command ipset is not installed", "image of this node"],
        ),
        ({}, {"prepare_packages_mirror": "m", "prepare_packages_directory": "d"}, ["expected one of them"]),
        ({}, {"prepare_route_localnet": True}, []),
        (
            {},
            {"prepare_route_localnet": True, "node": {"systemd": False}},
            ["systemd does not run this node, expected false"],
        ),
        (
            {},
            {"prepare_route_localnet": True, "node": {"services": ["firewalld"]}},
            ["firewalld runs, whose reloads remove the rule"],
        ),
        ({}, {"node": {"systemd": False, "services": ["firewalld"]}}, []),
        ({}, {"prepare_firewalld_ports": ["53/udp", "30000-32767/tcp"]}, []),
        (
            {},
            {"prepare_firewalld_ports": ["53/udp", "80", "1-/tcp"]},
            ["prepare_firewalld_ports has 80, 1-/tcp, expected ports with"],
        ),
        (
            {"commands": ["ipset"], "modules": ["ip_vs"]},
            {
                "node": {"refused": ["tasks run as user 7"]},
                "prepare_packages_mirror": "m",
                "prepare_packages_directory": "d",
            },
            ["tasks run as user 7", "expected one of them", "has no module ip_vs"],
        ),
    ],
)
def test_all_reasons_are_reported_at_once(
    render: Any, lacks: dict[str, list[str]], given: dict[str, Any], words: list[str]
) -> None:
    refusals = render("prepare_refusals", DEBIAN_12, lacks, **given)
    assert len(refusals) == len(words)
    for sentence, word in zip(refusals, words, strict=True):
        assert word in sentence


def test_unknown_distribution_needs_its_missing_commands_only(render: Any) -> None:
    assert render("prepare_refusals", GENTOO, {}) == []
    assert render("prepare_packages_needed", GENTOO, {"commands": COMMANDS}) == []
    *lacking, why = render("prepare_refusals", GENTOO, {"commands": ["ipset", "modprobe"]})
    assert lacking == ["command ipset is not installed", "command modprobe is not installed"]
    assert why.startswith("the package names on gentoo are not known")


def test_every_family_has_a_package_manager(render: Any) -> None:
    assert set(render("prepare_families", DEBIAN_12, {})) == set(_packages.MANAGERS)
