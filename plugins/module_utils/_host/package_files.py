# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection. It can change at any time, do not use it from outside.

"""Package files of a directory: choose those that install something new.

apt, dnf and pacman treat an older file as a request to downgrade, so older files are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Callable

    Run = Callable[[Sequence[str]], tuple[int, str]]

_RPM = r"%{NAME}\t%{EPOCHNUM}:%{VERSION}-%{RELEASE}\t[%{PROVIDENAME} ]\n"
# A package whose versions are installed side by side provides one of these: dnf's word, and zypper's.
_SIDE_BY_SIDE = ("installonlypkg(", "multiversion(")


class Package(NamedTuple):
    """Package in a file or installed.

    With ``side_by_side``, its versions do not replace each other, as with kernels.
    """

    name: str
    version: str
    side_by_side: bool = False


def newer(run: Run, family: str, paths: Iterable[str]) -> list[str]:
    """Return the files that install a new package or a newer version, in their order.

    If several files hold one package, the newest counts. If versions are installed side by side, every version that is
    not installed counts.

    Args:
        run: a function from a command to its status and output.
        family: a key of ``_packages.MANAGERS``.
        paths: the files.

    Raises:
        ValueError: a file is not a package; the text has its path.
    """
    in_file, installed, compare = _TOOLS[family]
    kept = {}
    for path in paths:
        package = in_file(run, path)
        if package is None:
            raise ValueError(f"{path} is not a package, or a broken one")
        there = installed(run, package.name)
        if package.side_by_side:
            if package.version not in there:
                kept[package] = path
        elif all(compare(run, version, package.version) < 0 for version in there):
            rival = next((one for one in kept if one.name == package.name), None)
            if rival is None:
                kept[package] = path
            elif compare(run, rival.version, package.version) < 0:
                del kept[rival]
                kept[package] = path
    return list(kept.values())


def _deb_in_file(run: Run, path: str) -> Package | None:
    words = run(["dpkg-deb", "--show", "--showformat=${Package} ${Version}", path])[1].split()
    return Package(words[0], words[1]) if len(words) == 2 else None


def _deb_installed(run: Run, name: str) -> list[str]:
    code, output = run(["dpkg-query", "--show", "--showformat=${db:Status-Status} ${Version}\n", name])
    lines = [line.split() for line in output.splitlines()] if code == 0 else []
    return [words[1] for words in lines if words[0] == "installed"]


def _deb_compare(run: Run, one: str, other: str) -> int:
    if one == other:
        return 0
    return -1 if run(["dpkg", "--compare-versions", one, "lt", other])[0] == 0 else 1


def _rpm_in_file(run: Run, path: str) -> Package | None:
    code, output = run(["rpm", "--query", "--queryformat", _RPM, "--package", path])
    name, _tab, rest = output.partition("\t")
    version, _tab, provided = rest.partition("\t")
    return Package(name, version, any(word in provided for word in _SIDE_BY_SIDE)) if code == 0 and version else None


def _rpm_installed(run: Run, name: str) -> list[str]:
    code, output = run(["rpm", "--query", "--queryformat", _RPM, name])
    return [line.split("\t")[1] for line in output.splitlines() if line.count("\t") == 2] if code == 0 else []


def _rpm_compare(run: Run, one: str, other: str) -> int:
    """Compare epoch, version and release one by one: before rpm 4.16 ``rpm.vercmp`` does not split them."""
    pairs = zip(_parts(one), _parts(other))
    asked = "".join(f'print(rpm.vercmp("{a}", "{b}"), " ")' for a, b in pairs)
    answers = [int(word) for word in run(["rpm", "--eval", f"%{{lua:{asked}}}"])[1].split()]
    return next((answer for answer in answers if answer), 0)


def _parts(version: str) -> tuple[str, ...]:
    epoch, _colon, rest = version.partition(":")
    return (epoch, *rest.split("-"))


def _pacman_in_file(run: Run, path: str) -> Package | None:
    words = run(["pacman", "--query", "--file", path])[1].split()
    return Package(words[0], words[1]) if len(words) == 2 else None


def _pacman_installed(run: Run, name: str) -> list[str]:
    code, output = run(["pacman", "--query", name])
    words = output.split()
    return [words[1]] if code == 0 and words[0] == name else []  # not a package that provides the name


def _pacman_compare(run: Run, one: str, other: str) -> int:
    return int(run(["vercmp", one, other])[1])


# Functions by family: the package in a file or None, a package's installed versions, and -1, 0 or 1 for two versions.
_TOOLS = {
    "debian": (_deb_in_file, _deb_installed, _deb_compare),
    "redhat": (_rpm_in_file, _rpm_installed, _rpm_compare),
    "suse": (_rpm_in_file, _rpm_installed, _rpm_compare),
    "arch": (_pacman_in_file, _pacman_installed, _pacman_compare),
}
