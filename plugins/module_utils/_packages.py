# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection. It can change at any time, do not use it from outside.

"""How each package manager is told to install, as data: from the node's repositories, from one mirror, from files alone.

ansible-core has modules for apt and dnf only.
"""

from __future__ import annotations

from typing import NamedTuple

# A mirror is used for one installation and leaves nothing in /etc: the manager is told to look for repositories in a directory of ours.
_REPOSITORY = "[kubenode]\nname=kubenode\nbaseurl={mirror}\nenabled=1\n"
_APT = ("-o", "DPkg::Lock::Timeout=300", "-o", "APT::Sandbox::User=root")
# What apt knows of packages, without what it has cached of the node's repositories.
_APT_OWN = (*_APT, "-o", "Dir::Etc::SourceParts=/dev/null", "-o", "Dir::Cache::PkgCache=", "-o", "Dir::Cache::SrcPkgCache=")
_APT_MIRROR = (*_APT_OWN, "-o", "Dir::Etc::SourceList={work}/sources.list", "-o", "Dir::State::Lists={work}/lists")
_APT_FILES = (*_APT_OWN, "-o", "Dir::Etc::SourceList=/dev/null")
_APT_INSTALL = ("install", "--quiet", "--yes", "--no-install-recommends", "{names}")
_DNF = ("dnf", "--assumeyes", "--quiet")
_DNF_MIRROR = ("--setopt=reposdir={work}", "--setopt=cachedir={work}/cache")
_ZYPPER = ("zypper", "--non-interactive", "--quiet")
_ZYPPER_MIRROR = ("--reposd-dir", "{work}", "--cache-dir", "{work}/cache")


class Manager(NamedTuple):
    """What a package manager is called with.

    A command is a tuple of words; ``{names}`` stands for the packages or files, ``{work}`` for a directory of ours, ``{mirror}`` for the mirror.
    ``lists`` is the file, below that directory, that names the mirror, with its text. ``done`` are the exit statuses of success.
    """

    suffix: str
    lists: tuple
    repositories: tuple
    mirror: tuple
    files: tuple
    done: tuple = (0,)


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
        ((*_ZYPPER, "--no-remote", "install", "--no-recommends", "--allow-unsigned-rpm", "{names}"),),
        done=(0, 102, 103, 106),  # a reboot, or zypper itself started anew, is suggested; a repository was left out
    ),
    "arch": Manager(
        ".pkg.tar.zst",
        ("pacman.conf", "[options]\nArchitecture = auto\n[core]\nServer = {mirror}\n[extra]\nServer = {mirror}\n"),
        (("pacman", "--sync", "--refresh", "--noconfirm", "--needed", "{names}"),),
        (("pacman", "--config", "{work}/pacman.conf", "--sync", "--refresh", "--noconfirm", "--needed", "{names}"),),
        (("pacman", "--upgrade", "--noconfirm", "--needed", "{names}"),),
    ),
}


def commands(family, source, names, work="", mirror=""):
    """Return the commands that install ``names``, in order.

    Args:
        family: a key of ``MANAGERS``.
        source: ``repositories``, ``mirror`` or ``files``.
        names: packages, or with ``files`` paths.
        work: a directory of ours; empty but for ``lists``, with a mirror.
        mirror: the mirror.
    """
    return [
        [part for word in command for part in (names if word == "{names}" else [word.format(work=work, mirror=mirror)])]
        for command in getattr(MANAGERS[family], source)
    ]


def missing(run, family, names):
    """Return those of the packages that are not installed; ``run(command)`` returns status and output."""
    if family == "debian":
        _code, output = run(["dpkg-query", "--show", "--showformat=${Package} ${db:Status-Status}\n", *names])
        installed = {line.split()[0] for line in output.splitlines() if line.endswith(" installed")}
        return [name for name in names if name not in installed]
    if family == "arch":
        return run(["pacman", "--deptest", *names])[1].split()
    return [name for name in names if all(run(["rpm", "--query", *how, name])[0] for how in ((), ("--whatprovides",)))]


def newer(run, family, paths):
    """Return the files that are not older than, or the same as, what is installed: apt takes that for a wish to go back.

    The other managers leave such files alone by themselves.
    """
    if family != "debian":
        return paths
    kept = []
    for path in paths:
        name, version = run(["dpkg-deb", "--show", "--showformat=${Package} ${Version}", path])[1].split()
        code, output = run(["dpkg-query", "--show", "--showformat=${db:Status-Status} ${Version}", name])
        status, _space, installed = output.partition(" ")
        if code or status != "installed" or run(["dpkg", "--compare-versions", installed, "lt", version])[0] == 0:
            kept.append(path)
    return kept
