# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Packages and repositories of each family of distributions, made by its own tools in a foreign root."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from lab.repository import write_index

from .foreign_root import ForeignRoot


class Package(NamedTuple):
    """A package with one empty program.

    ``relations`` are further fields; ``requires`` is the name of a package, or "".
    """

    name: str
    file: str
    version: str = "1-1"
    requires: str = ""
    relations: str = ""


class Family(NamedTuple):
    """Build and query of a family's packages. The root and this machine share every path."""

    os_release: str
    build: Callable[[ForeignRoot, Package, Path], None]
    index: Callable[[ForeignRoot, Path], None]
    repository_file: str  # names the repositories of a node
    repository_text: str
    mirror: str
    away: str  # a mirror that does not answer
    installed: tuple[str, ...]  # prints name and version of a package
    checks_signatures: tuple[str, str]  # configuration file, and text that makes the package manager require signatures
    unsigned: str  # part of its error for an unsigned package


def _deb(root: ForeignRoot, package: Package, directory: Path) -> None:
    requires = f"Depends: {package.requires}\n" if package.requires else ""
    root.run("rm", "-rf", "/tmp/package")
    root.write(
        "/tmp/package/DEBIAN/control",
        f"Package: {package.name}\nVersion: {package.version}\nArchitecture: all\nMaintainer: none\nDescription:"
        f" none\n{requires}",
    )
    root.run("install", "-D", "-m", "755", "/dev/null", f"/tmp/package{package.file}")
    root.run("dpkg-deb", "--build", "/tmp/package", str(directory))


def _rpm(root: ForeignRoot, package: Package, directory: Path) -> None:
    version, release = package.version.split("-")
    requires = f"Requires: {package.requires}\n" if package.requires else ""
    root.write(
        "/tmp/package.spec",
        f"Name: {package.name}\nVersion: {version}\nRelease: {release}\nBuildArch: x86_64\nAutoReqProv: no\nSummary:"
        f" none\nLicense: none\n{requires}{package.relations}\n%description\n\n%install\ninstall -D -m 755 /dev/null"
        f" %{{buildroot}}{package.file}\n%files\n{package.file}\n",
    )
    root.run(
        "rpmbuild",
        "--quiet",
        "-bb",
        "-D",
        f"_rpmdir {directory}",
        "-D",
        "_build_name_fmt %{NVRA}.rpm",
        "/tmp/package.spec",
    )


def _pacman(root: ForeignRoot, package: Package, directory: Path) -> None:
    requires = f"depend = {package.requires}\n" if package.requires else ""
    root.run("rm", "-rf", "/tmp/package")
    root.write(
        "/tmp/package/.PKGINFO",
        f"pkgname = {package.name}\npkgbase = {package.name}\npkgver = {package.version}\npkgdesc = none\nbuilddate ="
        f" 1\npackager = none\nsize = 1\narch = any\n{requires}",
    )
    root.run("install", "-D", "-m", "755", "/dev/null", f"/tmp/package{package.file}")
    path = directory / f"{package.name}-{package.version}-any.pkg.tar.zst"
    root.run("bsdtar", "--zstd", "-C", "/tmp/package", "-cf", str(path), ".PKGINFO", package.file.split("/")[1])


def _index_deb(_root: ForeignRoot, directory: Path) -> None:
    write_index(directory, "amd64")


def _index_rpm(root: ForeignRoot, directory: Path) -> None:
    root.run("createrepo_c", "--quiet", str(directory))


def _index_pacman(root: ForeignRoot, directory: Path) -> None:
    files = [str(path) for path in sorted(directory.glob("*.zst"))]
    for name in ("core", "extra"):  # pacman finds a repository's files by its name
        root.run("repo-add", "--quiet", str(directory / f"{name}.db.tar.gz"), *(files if name == "core" else []))


_YUM = "[own]\nname=own\nbaseurl={mirror}\nenabled=1\n"
_AWAY = "http://127.0.0.1:9/"
_RPM_INSTALLED = ("rpm", "--query", "--queryformat", "%{NAME} %{VERSION}-%{RELEASE}\n")
_DEB_INSTALLED = ("dpkg-query", "--show", "--showformat=${Package} ${Version}\n")
_PACMAN_CONF = "[options]\nArchitecture = auto\n[core]\nServer = {mirror}\n"
FAMILIES = {
    "debian": Family(
        'ID=debian\nVERSION_ID="12"\n', _deb, _index_deb, "/etc/apt/sources.list", "deb {mirror}\n",
        "[trusted=yes] file:{directory} ./", "[trusted=yes] http://127.0.0.1:9/ ./", _DEB_INSTALLED,
        ("/dev/null", ""), "",
    ),
    "redhat": Family(
        'ID="rocky"\nID_LIKE="rhel centos fedora"\nVERSION_ID="9.4"\n', _rpm, _index_rpm,
        "/etc/yum.repos.d/own.repo", _YUM,
        "file://{directory}", _AWAY, _RPM_INSTALLED, ("/etc/dnf/dnf.conf", "[main]\ngpgcheck=1\n"),
        "do not have any GPG public keys",
    ),
    "suse": Family(
        'ID="opensuse-leap"\nID_LIKE="suse opensuse"\nVERSION_ID="15.6"\n', _rpm, _index_rpm,
        "/etc/zypp/repos.d/own.repo", _YUM,
        "file://{directory}", _AWAY, _RPM_INSTALLED, ("/etc/zypp/zypp.conf", "[main]\ngpgcheck = on\n"),
        "Signature verification failed",
    ),
    "arch": Family(
        "ID=arch\n", _pacman, _index_pacman, "/etc/pacman.conf", _PACMAN_CONF,
        "file://{directory}", _AWAY, ("pacman", "--query"), ("/etc/pacman.conf", "[options]\nSigLevel = Required\n"),
        "core.db.sig",
    ),
}  # fmt: skip
# Configuration of a node whose administrator disables signatures.
UNCHECKED = {
    "redhat": ("/etc/dnf/dnf.conf", "[main]\ngpgcheck=0\n"),
    "suse": ("/etc/zypp/zypp.conf", "[main]\ngpgcheck = off\n"),
}
