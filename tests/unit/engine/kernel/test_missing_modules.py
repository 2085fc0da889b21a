# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Missing kernel modules: packages, causes and sentences, for each distribution."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from kubenode.engine.kernel.machine import Machine, read_machine
from kubenode.engine.kernel.missing_modules import diagnose, sentences
from kubenode.engine.kernel.module_needs import needed_for
from kubenode.engine.kernel.module_packages import ROWS, remedy

ROOT = Path(__file__).parents[4]
OTHER = "9.9.9-other"
LOST = {"ip_set": "kernel/net/netfilter/ipset/ip_set.ko.xz"}


class Node(NamedTuple):
    """Distribution, kernel and the expected remedy; the role may install ``packages``."""

    id: str
    version: str
    like: str
    release: str
    packages: str
    install: str
    reinstall: str


EL8, EL9, EL10 = "4.18.0-553.el8_10.x86_64", "5.14.0-427.13.1.el9_4.x86_64", "6.12.0-55.9.1.el10_0.x86_64"
UEK6, UEK7 = "5.4.17-2136.el8uek.x86_64", "5.15.0-206.153.7.el9uek.x86_64"
UEK8 = "6.12.0-100.28.2.el9uek.x86_64"
AL2023, AL2 = "6.1.119-129.201.amzn2023.x86_64", "5.10.228-219.884.amzn2.x86_64"


def rpm(release: str, kernel: str = "kernel") -> tuple[str, str, str]:
    packages = f"{kernel}-modules-{release} {kernel}-modules-extra-{release}"
    return packages, f"dnf install {packages}", f"dnf reinstall '{kernel}-*{release}'"


def extra(release: str) -> tuple[str, str, str]:
    package = f"linux-modules-extra-{release}"
    return package, f"apt-get install {package}", f"apt-get install --reinstall linux-modules-{release}"


def uek(release: str, *names: str) -> tuple[str, str, str]:
    packages = " ".join(f"kernel-uek-{name}-{release}" for name in names)
    return packages, f"dnf install {packages}", f"dnf reinstall 'kernel-uek-*{release}'"


def debian(release: str, install: str = "") -> tuple[str, str, str]:
    return "", install, f"apt-get install --reinstall linux-image-{release}"


def whole(release: str) -> tuple[str, str, str]:
    return "", "", f"apt-get install --reinstall linux-modules-{release}"


CLOUD = "apt-get install linux-image-amd64 && systemctl reboot"
VIRTUAL = "apt-get install linux-image-virtual && systemctl reboot"
NODES = [
    Node("debian", "11", "", "5.10.0-32-amd64", *debian("5.10.0-32-amd64")),
    Node("debian", "12", "", "6.1.0-18-cloud-amd64", *debian("6.1.0-18-cloud-amd64", CLOUD)),
    Node("debian", "12", "", "6.12.9-0.deb12.1-amd64", *debian("6.12.9-0.deb12.1-amd64")),
    Node("debian", "13", "", "6.12.43+deb13-amd64", *debian("6.12.43+deb13-amd64")),
    Node("debian", "13", "", "6.12.43+deb13-cloud-amd64", *debian("6.12.43+deb13-cloud-amd64", CLOUD)),
    Node("debian", "12", "", "6.1.176", "", "", ""),
    Node("ubuntu", "20.04", "debian", "5.4.0-1103-kvm", "", VIRTUAL, ""),
    Node("ubuntu", "22.04", "debian", "5.15.0-1053-azure", *extra("5.15.0-1053-azure")),
    Node("ubuntu", "24.04", "debian", "6.8.0-1016-aws", *extra("6.8.0-1016-aws")),
    Node("ubuntu", "24.04", "debian", "7.0.0-12-generic", *whole("7.0.0-12-generic")),
    Node("ubuntu", "25.10", "debian", "6.17.0-5-generic", *whole("6.17.0-5-generic")),
    Node("ubuntu", "26.04", "debian", "7.0.0-14-generic", *whole("7.0.0-14-generic")),
    Node("linuxmint", "22", "ubuntu debian", "6.8.0-38-generic", *extra("6.8.0-38-generic")),
    Node("rhel", "8.10", "fedora", EL8, *rpm(EL8)),
    Node("rocky", "9.4", "rhel centos fedora", EL9, *rpm(EL9)),
    Node("almalinux", "10.0", "rhel centos fedora", EL10, *rpm(EL10)),
    Node("rhel", "9.4", "fedora", f"{EL9}+rt", *rpm(EL9, "kernel-rt")),
    Node("rhel", "9.4", "fedora", f"{EL9}+64k", *rpm(EL9, "kernel-64k")),
    Node("fedora", "41", "", "6.11.4-301.fc41.x86_64", *rpm("6.11.4-301.fc41.x86_64")),
    Node("ol", "8.10", "fedora", UEK6, "", "", f"dnf reinstall kernel-uek-{UEK6}"),
    Node("ol", "9.4", "fedora", UEK7, *uek(UEK7, "modules", "modules-extra")),
    Node("ol", "9.6", "fedora", UEK8, *uek(UEK8, "modules", "modules-extra", "modules-extra-netfilter")),
    Node("ol", "9.4", "fedora", EL9, *rpm(EL9)),
    Node(
        "amzn", "2023", "fedora", AL2023, "",
        f"dnf install $(rpm --query --file --queryformat '%{{NAME}}' /boot/vmlinuz-{AL2023})-modules-extra-{AL2023}",
        f"dnf reinstall $(rpm --query --file /boot/vmlinuz-{AL2023})",
    ),
    Node("amzn", "2", "centos rhel fedora", AL2, "", "", f"yum reinstall kernel-{AL2}"),
    Node(
        "opensuse-leap", "15.6", "suse opensuse", "6.4.0-150600.21-default", "",
        "zypper install kernel-default -kernel-default-base", "zypper install --force kernel-default",
    ),
    Node("sles", "15.6", "suse", "6.4.0-150600.21-azure", "", "", "zypper install --force kernel-azure"),
    Node("arch", "", "", "6.9.3-arch1-1", "", "", "pacman -Syu linux && systemctl reboot"),
    Node("arch", "", "", "6.6.32-1-lts", "", "", "pacman -Syu linux-lts && systemctl reboot"),
    Node("gentoo", "", "", "6.6.30-gentoo", "", "", ""),
]  # fmt: skip
FAMILY = {"debian": "debian", "ubuntu": "debian", "fedora": "redhat", "suse": "suse", "arch": "arch"}
each_node = pytest.mark.parametrize("node", NODES, ids=lambda node: f"{node.id} {node.release}")


def machine(node: Node, **given: object) -> Machine:
    like = (node.id, *node.like.split())
    family = next((FAMILY[name] for name in like if name in FAMILY), "unknown")
    made = Machine(node.id, node.version, like, family, node.release, (node.release,))
    return made._replace(**given)


@each_node
def test_remedy_of_each_distribution(node: Node) -> None:
    assert remedy(machine(node)) == (tuple(node.packages.split()), node.install, node.reinstall)


def test_every_row_has_a_distribution_that_matches_it() -> None:
    first = [next((row for row in ROWS if row.matches(machine(node))), None) for node in NODES]
    assert {row.title for row in first if row} == {row.title for row in ROWS}


@each_node
def test_missing_package_is_named_with_its_command(node: Node) -> None:
    (missing,) = diagnose(["ip_set"], machine(node), {})
    assert (missing.entry, missing.needed_for, missing.cause, missing.path) == ("ip_set", "sets", "package", "")
    assert missing.packages == tuple(node.packages.split())
    assert missing.command == (node.install or node.reinstall)
    (sentence,) = sentences([missing], machine(node))
    assert sentence.startswith(f"kernel {node.release} has no module ip_set (for sets): neither loaded, nor built in")
    assert (f"Run `{missing.command}`" if missing.command else f"No package of {node.id}") in sentence


@each_node
def test_updated_kernel_needs_a_reboot(node: Node) -> None:
    updated = machine(node, installed=(OTHER,))
    (missing,) = diagnose(["ip_set"], updated, {})
    assert (missing.cause, missing.packages, missing.command) == ("reboot", (), "systemctl reboot")
    assert sentences([missing], updated) == [
        f"kernel {node.release} has no module ip_set (for sets): /lib/modules/{node.release} is gone, and the"
        f" installed kernel is {OTHER}. Boot the installed kernel: run `systemctl reboot`"
    ]


@each_node
def test_lost_file_needs_a_reinstallation(node: Node) -> None:
    (missing,) = diagnose(["ip_set"], machine(node), LOST)
    assert (missing.cause, missing.path, missing.packages) == ("file", LOST["ip_set"], ())
    assert missing.command == node.reinstall
    (sentence,) = sentences([missing], machine(node))
    assert f"modules.dep lists it, and the file {LOST['ip_set']} is gone. " in sentence


def test_causes_have_one_sentence_each() -> None:
    node = machine(NODES[0])
    missing = diagnose(["ip_set", "xt_set", "xt_MASQUERADE|ipt_MASQUERADE", "nosuch"], node, LOST)
    first, second = sentences(missing, node)
    assert "no module ip_set (for sets): /lib/modules/5.10.0-32-amd64/modules.dep" in first
    assert (
        "no module xt_set (for rules that match sets), xt_MASQUERADE or ipt_MASQUERADE (for masquerading), nosuch: "
        in second
    )


@pytest.mark.parametrize(
    ("given", "index", "command"),
    [
        ({"image": "rpm-ostree"}, 18, "rpm-ostree install kernel-modules-6.11.4-301.fc41.x86_64"),
        ({"image": "transactional-update"}, 25, "transactional-update pkg install kernel-default -kernel-default-base"),
    ],
)
def test_image_has_commands_of_its_own(given: dict[str, str], index: int, command: str) -> None:
    (missing,) = diagnose(["ip_set"], machine(NODES[index], **given), {})
    assert missing.packages == ()
    assert missing.command.startswith(command)
    assert missing.command.endswith(" && systemctl reboot")


def test_remedy_of_a_container_is_on_its_host() -> None:
    inside = machine(NODES[0], container="lxc", installed=(OTHER,))
    assert not inside.awaits_reboot
    (sentence,) = sentences(diagnose(["ip_set"], inside, {}), inside)
    assert sentence.endswith("` on the container's host")


def test_machine_is_read_from_files(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/os-release").write_text('ID="rocky"\nID_LIKE="rhel centos fedora"\nVERSION_ID="9.4"\n')
    for name in (EL9, "empty"):
        (tmp_path / "lib/modules" / name).mkdir(parents=True)
    (tmp_path / "lib/modules" / EL9 / "modules.dep").touch()
    machine = read_machine(str(tmp_path), EL9)
    assert machine == ("rocky", "9.4", ("rocky", "rhel", "centos", "fedora"), "redhat", EL9, (EL9,), None, "")
    assert not machine.awaits_reboot
    assert read_machine(str(tmp_path), EL8).awaits_reboot
    (tmp_path / "run").mkdir()
    (tmp_path / "run/ostree-booted").touch()
    assert read_machine(str(tmp_path), EL9).image == "rpm-ostree"


def test_every_module_of_the_role_has_a_feature() -> None:
    defaults = yaml.safe_load((ROOT / "roles/prepare/defaults/main.yml").read_text())
    lists = [value for key, value in defaults.items() if key.startswith("prepare_kernel_modules")]
    names = [name for entries in lists for entry in entries for name in entry.split("|")]
    assert len(names) > 20
    assert [name for name in names if not needed_for(name)] == []
    assert needed_for("ip_vs_mh") == "the scheduler mh"
    assert needed_for("ip_vs_pe_sip") == "the persistence engine sip"
    assert needed_for("nosuch") == ""
