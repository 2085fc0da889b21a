# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module packages with the real apt-get, dnf, zypper and pacman.

Each runs on a node of its family: a root directory with no network.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.distributions.foreign_packages import FAMILIES, UNCHECKED, Family, Package
from support.distributions.foreign_root import ForeignRoot

KERNEL = "6.11.4-301.fc41.x86_64"  # the running kernel
NEXT_KERNEL = "6.12.1-100.fc41.x86_64"


def kernel_modules(kernel: str) -> Package:
    """Return a package as Fedora builds it: versions of several kernels are installed side by side."""
    file = f"/usr/lib/modules/{kernel}/kernel/net/netfilter/ipset/ip_set.ko.xz"
    version = kernel.removesuffix(".x86_64")
    return Package("kernel-modules-extra", file, version, relations="Provides: installonlypkg(kernel-module)")


TOOL = Package("ipset-tool", "/usr/bin/ipset-tool", "7.11-1", requires="ipset-library")
LIBRARY = Package("ipset-library", "/usr/lib/ipset-library", "7.11-1")
OTHER = Package("conntrack-tool", "/usr/bin/conntrack-tool")


class Node:
    """A node of one family, with its repository: ``TOOL``, ``LIBRARY`` and ``OTHER``."""

    def __init__(self, family: Family, key: str, directory: Path) -> None:
        self.family = family
        self.root = ForeignRoot(directory)
        self.directory = directory
        self.repository = directory / "repository"
        self.root.write("/etc/os-release", family.os_release)
        if key in UNCHECKED:
            self.root.write(*UNCHECKED[key])
        self.mirror = family.mirror.format(directory=self.repository)
        if not self.repository.exists():
            self.repository.mkdir()
            self.build(self.repository, TOOL, LIBRARY, OTHER)
            family.index(self.root, self.repository)
        self.has_repository(self.mirror)

    def build(self, directory: Path, *packages: Package) -> None:
        directory.mkdir(exist_ok=True)
        for package in packages:
            self.family.build(self.root, package, directory)

    def has_repository(self, mirror: str) -> None:
        self.root.write(self.family.repository_file, self.family.repository_text.format(mirror=mirror))

    def files(self, directory: Path) -> list[str]:
        return [str(path) for path in sorted(directory.iterdir()) if path.name.endswith((".deb", ".rpm", ".zst"))]

    def packages(self, *names: str, **arguments: Any) -> Any:
        return self.root.module("packages", names=list(names), **arguments)

    def installed(self, name: str) -> set[str]:
        """Return the installed versions of a package; rpm has several for kernels."""
        done = self.root.attempt(*self.family.installed, name)
        lines = [line.split() for line in done.stdout.splitlines()] if done.returncode == 0 else []
        return {
            words[1] for words in lines if words[0] == name and len(words) == 2
        }  # dpkg lists some packages without a version

    def configuration(self) -> str:
        """Return digests of all files that configure package managers, and of their lists of packages."""
        places = ["/etc", "/var/lib/pacman/sync", "/var/lib/apt/lists"]
        command = "find \"$@\" -type f ! -name '*lock' ! -name ld.so.cache -exec sha256sum {} + 2>/dev/null | sort"
        return str(self.root.attempt("sh", "-c", command, "sh", *places).stdout)


@pytest.fixture(scope="module", params=sorted(FAMILIES))
def tree(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    return request.param, tmp_path_factory.mktemp(request.param)


@pytest.fixture
def node(tree: tuple[str, Path]) -> Iterator[Node]:
    key, directory = tree
    prepared = Node(FAMILIES[key], key, directory)
    yield prepared
    prepared.root.close()


def test_packages_are_installed_from_node_repositories(node: Node) -> None:
    foreseen = node.packages(TOOL.name, OTHER.name, check=True)
    assert (foreseen["changed"], foreseen["missing"]) == (True, [TOOL.name, OTHER.name])
    assert foreseen["diff"]["after"] == f"{TOOL.name}\n{OTHER.name}\n"
    assert node.installed(TOOL.name) == set()
    done = node.packages(TOOL.name, OTHER.name)
    assert [done[field] for field in ("changed", "missing", "lines", "diff")] == [
        foreseen[field] for field in ("changed", "missing", "lines", "diff")
    ]
    assert node.installed(TOOL.name) == node.installed(LIBRARY.name) == {"7.11-1"}
    node.has_repository(node.family.mirror.format(directory="/nowhere"))  # not asked again
    again = node.packages(TOOL.name, OTHER.name)
    assert (again["changed"], again["missing"], again["lines"]) == (False, [], [])


def test_packages_are_installed_from_a_mirror_without_traces(node: Node) -> None:
    node.has_repository(node.family.mirror.format(directory="/nowhere"))
    node.root.attempt("sh", "-c", "mkdir -p /var/lib/pacman/sync; echo old > /var/lib/pacman/sync/core.db")
    before = node.configuration()
    assert node.packages(TOOL.name, mirror=node.mirror)["changed"]
    assert node.installed(TOOL.name) == node.installed(LIBRARY.name) == {"7.11-1"}
    assert node.configuration() == before


def test_packages_are_installed_from_files_without_repository(node: Node) -> None:
    node.has_repository(node.family.mirror.format(directory="/nowhere"))
    files = node.files(node.repository)
    assert node.packages(TOOL.name, directory="here", files=files)["changed"]
    assert [node.installed(package.name) for package in (TOOL, LIBRARY, OTHER)] == [{"7.11-1"}, {"7.11-1"}, {"1-1"}]
    assert not node.packages(TOOL.name, directory="here", files=files)["changed"]


def test_older_package_files_do_not_downgrade(node: Node) -> None:
    directory = node.directory / "files"
    newer = TOOL._replace(version="7.12-1")
    node.build(directory, TOOL, newer, LIBRARY)
    node.packages(TOOL.name, directory="here", files=node.files(directory))
    assert node.installed(TOOL.name) == {"7.12-1"}
    older = node.files(node.repository)
    assert node.packages(OTHER.name, directory="here", files=older)["changed"]
    assert node.installed(TOOL.name) == {"7.12-1"}
    missing = node.packages("nothing", directory="here", files=older)
    assert missing["msg"] == "nothing cannot be installed: not among the packages of here"


def test_missing_package_is_named_and_nothing_installed(node: Node) -> None:
    for source in ({}, {"mirror": node.mirror}):
        result = node.packages(OTHER.name, "nothing", **source)
        assert result["failed"]
        assert result["msg"].startswith(
            f"{OTHER.name}, nothing cannot be installed from {source.get('mirror', 'the node')}"
        )
        assert result["msg"].count("nothing") > 1  # the package manager's own message
        assert node.installed(OTHER.name) == set()


def test_read_only_directory_is_named_and_nothing_tried(node: Node) -> None:
    for directory in ("/usr", "/etc", "/var/lib"):
        node.root.run("sh", "-c", 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1"', "sh", directory)
        for check in (True, False):
            assert (
                node.packages(OTHER.name, check=check)["msg"]
                == f"{OTHER.name} cannot be installed: {directory} is read-only, expected to be written to; nothing was"
                " changed"
            )
        node.root.run("umount", "--lazy", directory)
    assert node.packages(OTHER.name)["changed"]


def test_full_disk_is_reported_and_package_not_installed(node: Node) -> None:
    """The dependency fits on the disk, the package itself does not."""
    directory, large = node.directory / "large", Package("large", "/opt/full/large", requires=OTHER.name)
    node.build(directory, large, OTHER)
    # A program of these packages is empty, so the limit must be on inodes.
    node.root.run("sh", "-c", "mkdir -p /opt/full && mount -t tmpfs -o nr_inodes=1 full /opt/full")
    result = node.packages("large", directory="here", files=node.files(directory))
    assert result["msg"].startswith("large cannot be installed from the files of here: ")
    assert re.search("No space left|free disk space|more space|inodes|Can't create", result["msg"]), result["msg"]
    assert node.installed("large") == set()
    node.root.run("umount", "/opt/full")
    assert node.packages("large", directory="here", files=node.files(directory))["changed"]


def test_file_that_is_no_package_is_named(node: Node) -> None:
    broken = node.directory / f"broken{Path(node.files(node.repository)[0]).suffix}"
    broken.write_text("<html>404</html>")
    result = node.packages(OTHER.name, directory="here", files=[*node.files(node.repository), str(broken)])
    assert result["msg"] == f"{broken} is not a package, or a broken one (from here)"
    assert node.installed(OTHER.name) == set()


def test_missing_dependency_of_files_is_named(node: Node) -> None:
    alone = [file for file in node.files(node.repository) if LIBRARY.name not in file]
    result = node.packages(TOOL.name, directory="here", files=alone)
    assert result["msg"].startswith(f"{TOOL.name} cannot be installed from the files of here: ")
    assert LIBRARY.name in result["msg"]
    assert node.installed(TOOL.name) == set()


def test_unreachable_repository_is_named(node: Node) -> None:
    node.has_repository(node.family.away)
    for source in ({}, {"mirror": node.family.away}):
        result = node.packages(TOOL.name, **source)
        assert result["failed"]
        assert {"127.0.0.1", "'own'"} & set(re.split("[ :/]", result["msg"])), result["msg"]


@pytest.mark.parametrize("tree", ["redhat", "suse", "arch"], indirect=True)
def test_unsigned_mirror_is_refused_if_node_checks_signatures(node: Node) -> None:
    node.root.write(*node.family.checks_signatures)
    result = node.packages(OTHER.name, mirror=node.mirror)
    assert result["failed"]
    assert node.family.unsigned in result["msg"], result["msg"]
    assert node.installed(OTHER.name) == set()


@pytest.mark.parametrize("tree", ["redhat"], indirect=True)
def test_mirror_is_checked_with_keys_of_the_distribution(node: Node) -> None:
    node.root.write(*node.family.checks_signatures)
    node.root.run("gpg", "--batch", "--passphrase", "", "--quick-generate-key", "own", "rsa2048", "sign")
    node.root.write("/etc/pki/rpm-gpg/RPM-GPG-KEY-own", node.root.run("gpg", "--armor", "--export", "own"))
    refused = node.packages(OTHER.name, mirror=node.mirror)
    assert "is not signed" in refused["msg"], refused["msg"]
    signed = node.directory / "signed"
    node.build(signed, OTHER)
    node.root.run("rpmsign", "-D", "__gpg /usr/bin/gpg", "-D", "_gpg_name own", "--addsign", *node.files(signed))
    node.family.index(node.root, signed)
    assert node.packages(OTHER.name, mirror=node.family.mirror.format(directory=signed))["changed"]
    assert node.installed(OTHER.name) == {OTHER.version}


@pytest.mark.parametrize("tree", ["redhat"], indirect=True)
def test_modules_of_running_and_next_kernel_coexist(node: Node) -> None:
    name = kernel_modules(KERNEL).name
    directory = node.directory / "kernels"
    node.build(directory, kernel_modules(KERNEL), kernel_modules(NEXT_KERNEL))
    running, following = node.files(directory)
    node.packages(f"{name}-{NEXT_KERNEL}", directory="here", files=[following])
    node.packages(f"{name}-{KERNEL}", directory="here", files=[running, following])
    assert node.installed(name) == {KERNEL.removesuffix(".x86_64"), NEXT_KERNEL.removesuffix(".x86_64")}
    node.family.index(node.root, directory)
    result = node.packages(f"{name}-6.13.0-1.fc41.x86_64", mirror=node.family.mirror.format(directory=directory))
    assert result["msg"].startswith(f"{name}-6.13.0-1.fc41.x86_64 cannot be installed from file:///")
    assert node.packages(f"{name}-{KERNEL}")["changed"] is False


@pytest.mark.parametrize("tree", ["suse"], indirect=True)
def test_package_conflict_is_reported_and_nothing_removed(node: Node) -> None:
    base = Package(
        "kernel-default-base",
        "/usr/lib/modules/base",
        "6.4.0-150600.21",
        relations="Conflicts: kernel-default = 6.4.0-150600.21",
    )
    full = Package("kernel-default", "/usr/lib/modules/full", "6.4.0-150600.21")
    directory = node.directory / "conflict"
    node.build(directory, base, full)
    node.family.index(node.root, directory)
    mirror = node.family.mirror.format(directory=directory)
    assert node.packages(base.name, mirror=mirror)["changed"]
    result = node.packages(full.name, mirror=mirror)
    assert result["msg"].startswith(f"{full.name} cannot be installed from {mirror}: ")
    assert "conflicts with" in result["msg"], result["msg"]
    assert (node.installed(base.name), node.installed(full.name)) == ({base.version}, set())
