# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection. It can change at any time, do not use it from outside.

"""Commands of each package manager, as data: install from the node's repositories, from one mirror, or from files.

ansible-core has modules for apt and dnf only.
"""

from __future__ import annotations

import contextlib
import glob
import os
import re
import shutil
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Callable

    Run = Callable[[Sequence[str]], tuple[int, str]]
    Command = tuple[str, ...]

# Directories that every package writes to. If one is read-only, a package manager stops half-way.
WRITTEN = ("/usr", "/etc", "/var/lib")
# A mirror is used for one installation and leaves nothing in /etc: the package manager reads its repositories from the
# work directory.
_REPOSITORY = "[kubenode]\nname=kubenode\nbaseurl={mirror}\nenabled=1\n{keys}"
_APT = ("-o", "DPkg::Lock::Timeout=300", "-o", "APT::Sandbox::User=root")
# Options of apt that leave out sources.list.d and the cached lists of the node's repositories.
_APT_OWN = (
    *_APT,
    "-o",
    "Dir::Etc::SourceParts=/dev/null",
    "-o",
    "Dir::Cache::PkgCache=",
    "-o",
    "Dir::Cache::SrcPkgCache=",
)
_APT_MIRROR = (*_APT_OWN, "-o", "Dir::Etc::SourceList={work}/sources.list", "-o", "Dir::State::Lists={work}/lists")
_APT_FILES = (*_APT_OWN, "-o", "Dir::Etc::SourceList=/dev/null")
_APT_INSTALL = ("install", "--quiet", "--yes", "--no-install-recommends", "{names}")
_DNF = ("dnf", "--assumeyes", "--quiet")
_DNF_MIRROR = ("--setopt=reposdir={work}", "--setopt=cachedir={work}/cache")
_ZYPPER = ("zypper", "--non-interactive", "--quiet")
_ZYPPER_MIRROR = ("--reposd-dir", "{work}", "--cache-dir", "{work}/cache")
_PACMAN_MIRROR = ("--config", "{work}/pacman.conf", "--cachedir", "{work}/cache")
# pacman keeps repository lists only beside its database of installed packages: they are restored after the use of a
# mirror.
PACMAN_LISTS = "/var/lib/pacman/sync"


class Manager(NamedTuple):
    """Commands of a package manager.

    A command is a tuple of words; ``{names}`` stands for the packages or files, ``{work}`` for the work directory,
    ``{mirror}`` for the mirror. ``lists`` is the file, in the work directory, that names the mirror, with its text (see
    ``mirror_list``). ``done`` are the exit statuses of success.
    """

    suffix: str
    lists: tuple[str, str]
    repositories: tuple[Command, ...]
    mirror: tuple[Command, ...]
    files: tuple[Command, ...]
    done: tuple[int, ...] = (0,)


MANAGERS = {
    "debian": Manager(
        ".deb",
        ("sources.list", "deb {mirror}\n"),
        (("apt-get", *_APT, "--quiet", "update"), ("apt-get", *_APT, *_APT_INSTALL)),
        (("apt-get", *_APT_MIRROR, "--quiet", "update"), ("apt-get", *_APT_MIRROR, *_APT_INSTALL)),
        (("apt-get", *_APT_FILES, *_APT_INSTALL),),
    ),
    "redhat": Manager(
        ".rpm",
        ("kubenode.repo", _REPOSITORY),
        ((*_DNF, "install", "{names}"),),
        ((*_DNF, *_DNF_MIRROR, "install", "{names}"),),
        ((*_DNF, "--setopt=reposdir={work}", "install", "{names}"),),
    ),
    "suse": Manager(
        ".rpm",
        ("kubenode.repo", _REPOSITORY),
        ((*_ZYPPER, "install", "--no-recommends", "{names}"),),
        ((*_ZYPPER, *_ZYPPER_MIRROR, "install", "--no-recommends", "{names}"),),
        ((*_ZYPPER, *_ZYPPER_MIRROR, "install", "--no-recommends", "--allow-unsigned-rpm", "{names}"),),
        done=(0, 102, 103, 106),  # a reboot, or zypper itself started anew, is suggested; a repository was left out
    ),
    "arch": Manager(
        ".pkg.tar.zst",
        ("pacman.conf", "{options}[core]\nServer = {mirror}\n[extra]\nServer = {mirror}\n"),
        (("pacman", "--sync", "--refresh", "--noconfirm", "--needed", "{names}"),),
        (("pacman", *_PACMAN_MIRROR, "--sync", "--refresh", "--refresh", "--noconfirm", "--needed", "{names}"),),
        (("pacman", "--upgrade", "--noconfirm", "--needed", "{names}"),),
    ),
}


def commands(family: str, source: str, names: Sequence[str], work: str = "", mirror: str = "") -> list[list[str]]:
    """Return the commands that install ``names``, in order.

    Args:
        family: a key of ``MANAGERS``.
        source: ``repositories``, ``mirror`` or ``files``.
        names: packages, or with ``files`` paths.
        work: the work directory; with a mirror, it holds only ``lists``.
        mirror: the mirror.
    """
    return [
        [part for word in command for part in (names if word == "{names}" else [word.format(work=work, mirror=mirror)])]
        for command in getattr(MANAGERS[family], source)
    ]


def mirror_list(
    family: str, mirror: str, configuration: str = "/etc/pacman.conf", keys: str = "/etc/pki/rpm-gpg"
) -> tuple[str, str]:
    """Return name and text of the file that names the mirror.

    Args:
        family: a key of ``MANAGERS``.
        mirror: the mirror.
        configuration: pacman's configuration; its section ``options`` is kept, for example the signature level.
        keys: the directory of the distribution's keys, which dnf uses only if a repository names them.
    """
    name, text = MANAGERS[family].lists
    key_files = sorted(glob.glob(os.path.join(keys, "RPM-GPG-KEY-*"))) if family == "redhat" else []
    own = _options(configuration) if family == "arch" else ""
    named = "gpgkey=" + " ".join(f"file://{path}" for path in key_files) + "\n" if key_files else ""
    return name, text.replace("{options}", own).replace("{keys}", named).replace("{mirror}", mirror)


def _options(path: str) -> str:
    """Return the part of pacman's configuration before the first repository."""
    with open(path, encoding="utf-8") as file:
        lines = file.readlines()
    names = [line.strip() if line.lstrip().startswith("[") else None for line in lines]
    end = next((number for number, name in enumerate(names) if name not in (None, "[options]")), len(lines))
    return "".join(lines[:end])


@contextlib.contextmanager
def unchanged(directory: str, copy: str) -> Iterator[None]:
    """Restore a directory, which may be absent, at the end; ``copy`` is the path of the copy meanwhile."""
    there = os.path.isdir(directory)
    if there:
        shutil.copytree(directory, copy)
    try:
        yield
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        if there:
            shutil.move(copy, directory)


def removals(output: str) -> list[list[str]]:
    """Return the commands that remove each package that pacman failed to install.

    After a failure for lack of space, pacman records the package as installed.
    """
    names = re.findall(r"^error: problem occurred while installing (\S+)$", output, re.MULTILINE)
    return [["pacman", "--remove", "--nodeps", "--nodeps", "--noconfirm", name] for name in names]


def missing(run: Run, family: str, names: list[str]) -> list[str]:
    """Return those of the packages that are not installed; ``run(command)`` returns status and output."""
    if family == "debian":
        _code, output = run(["dpkg-query", "--show", "--showformat=${Package} ${db:Status-Status}\n", *names])
        installed = {line.split()[0] for line in output.splitlines() if line.endswith(" installed")}
        return [name for name in names if name not in installed]
    if family == "arch":
        code, output = run(["pacman", "--deptest", *names])
        return output.split() or (names if code else [])  # no output if pacman cannot open its database
    return [name for name in names if all(run(["rpm", "--query", *how, name])[0] for how in ((), ("--whatprovides",)))]
