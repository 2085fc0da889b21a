# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Root directory with the package managers of other distributions, entered in namespaces of its own.

Debian packages dnf, zypper and pacman. They are installed once, into a tree below .cache. Each test gets that tree with
a layer in memory over it, without a network. Its packages disappear with its processes. The machine's own packages
never change.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import ansible
from lab import mirror
from lab.command import run_contained
from lab.lock import locked

ROOT = Path(__file__).resolve().parents[3]
TREES = ROOT / ".cache/trees"
PACKAGES = ("python3", "dnf", "rpm", "createrepo-c", "zypper", "pacman-package-manager", "makepkg", "libarchive-tools")
PACKAGES += ("dbus", "firewalld", "network-manager", "iptables", "iproute2", "netcat-openbsd")
MARK = "/foreign-root"  # marks the tree: no command runs in a directory without it
# Files that these distributions have and Debian lacks, or has elsewhere.
HOOKS = (
    'mkdir -p "$1/etc/rpm" "$1/etc/yum.repos.d" "$1/etc/zypp/repos.d"',
    'printf "%%_dbpath /var/lib/rpm\\n" > "$1/etc/rpm/macros"',
    'ln -sf ../proc/self/mounts "$1/etc/mtab"',
    'rm -rf "$1/lib/modules"',
    f'touch "$1{MARK}"',
)
# The layers become the root, and the machine's root is unmounted. Then the shell prints "entered". All processes within
# end with the shell's standard input.
_ENTER = """
set -e
mount --make-rprivate /
mount -t tmpfs layer /mnt
mkdir /mnt/upper /mnt/work /mnt/root
mount -t overlay overlay -o "lowerdir=$1,upperdir=/mnt/upper,workdir=/mnt/work" /mnt/root
mount -t proc proc /mnt/root/proc
mount --rbind /dev /mnt/root/dev
mkdir -p "/mnt/root$2"
mount --bind "$2" "/mnt/root$2"
mount -o remount,bind,ro "/mnt/root$2"
shift 2
for path in "$@"; do mkdir -p "/mnt/root$path"; mount --bind "$path" "/mnt/root$path"; done
cd /mnt/root
mkdir machine
pivot_root . machine
exec chroot . /bin/sh -c 'umount -l /machine && rmdir /machine && echo entered && exec cat'
"""
_RUN = f'test -e {MARK} && cd / && exec "$@"'
# Runs tests/kernel/modules.py in the root's own Python.
MODULE = """
import json, sys
from kernel.modules import ModuleError, run
arguments = json.load(sys.stdin)
try:
    result = run(**arguments)
except ModuleError as error:
    result = error.result
print(json.dumps(result))
"""


def tree() -> Path:
    """Return the tree; build it if it is missing, or wait for another process that builds it."""
    directory = _directory()
    with locked(TREES / "lock"):
        if not directory.is_dir():
            shutil.rmtree(TREES / "building", ignore_errors=True)
            _build(TREES / "building")
            for old in TREES.iterdir():
                if old.is_dir() and old.name != "building":
                    shutil.rmtree(old)
            (TREES / "building").rename(directory)
    return directory


def _directory() -> Path:
    return TREES / hashlib.sha256(repr((PACKAGES, HOOKS)).encode()).hexdigest()[:12]


def _build(directory: Path) -> None:
    sources = mirror.sources_for("bookworm", mirror.host_sources(), mirror.host_release())
    left_out = ("man", "doc", "locale", "info")
    command = [
        "mmdebstrap",
        "--mode=root",
        "--format=directory",
        "--variant=minbase",
        "--hook-dir=/usr/share/mmdebstrap/hooks/maybe-merged-usr",
        f"--include={','.join(PACKAGES)}",
        *(f"--aptopt={option}" for option in [*mirror.apt_options(), 'APT::Install-Recommends "false";']),
        *(f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in left_out),
        *(f"--customize-hook={hook}" for hook in HOOKS),
        "bookworm",
        str(directory),
        *(mirror.source_line(source) for source in sources),
    ]
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8", "TMPDIR": str(TREES)}
    run_contained(command, TREES / "log", what="mmdebstrap", env=environment)


def built() -> Path:
    """Return the tree without building it, for a kernel without a network.

    Raises:
        AssertionError: the tree is missing.
    """
    assert _directory().is_dir(), (
        f"{_directory()} is not there; on the machine: "
        "PYTHONPATH=tests:molecule python -m support.distributions.foreign_root"
    )
    return _directory()


class ForeignRoot:
    """Running root: the tree, entered in namespaces.

    ``shared`` are directories of this machine that are mounted in it at the same path, besides the clone.

    It has its own network namespace, or with ``alone=False`` that of the thread.
    """

    def __init__(self, *shared: Path, alone: bool = True) -> None:
        self._holder = subprocess.Popen(
            ["unshare", "--mount", *(["--net"] if alone else []), "--pid", "--uts", "--ipc", "--fork", "--kill-child",
             "sh", "-c", _ENTER, "sh",
             str(built() if "KUBENODE_KERNEL" in os.environ else tree()), str(ROOT), *map(str, shared)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._holder.stdout is not None
        assert self._holder.stdout.readline() == "entered\n"
        children = Path(f"/proc/{self._holder.pid}/task/{self._holder.pid}/children").read_text().split()
        namespaces = ["--mount", "--net", "--pid", "--uts", "--ipc"]
        self.enter = ["nsenter", f"--target={children[0]}", *namespaces, "/bin/sh", "-c", _RUN, "sh"]
        self.run("true")

    def close(self) -> None:
        """End all processes within; the kernel removes mounts and namespaces."""
        self._holder.communicate()

    def write(self, path: str, text: str) -> None:
        """Write a file, with its directories."""
        self.run("sh", "-c", 'mkdir -p "${1%/*}" && cat > "$1"', "sh", path, text=text)

    def attempt(self, *command: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command within."""
        environment = {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": "/root",
            "LC_ALL": "C.UTF-8",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": f"{ROOT}/collection:{ROOT}/tests:{Path(ansible.__file__).parents[1]}",
        }
        return subprocess.run(
            [*self.enter, *command], input=text, env=environment, check=False, capture_output=True, text=True
        )

    def run(self, *command: str, text: str | None = None) -> str:
        """Run a command within that must succeed; return its output."""
        done = self.attempt(*command, text=text)
        assert done.returncode == 0, f"{' '.join(command)}: {done.stdout}{done.stderr}"
        return done.stdout

    def module(self, name: str, **arguments: Any) -> dict[str, Any]:
        """Run one of the collection's modules within (see ``kernel.modules.run``).

        ``failed`` and ``msg`` tell if it failed.
        """
        output = self.run("/usr/bin/python3", "-c", MODULE, text=json.dumps({"name": name, **arguments}))
        result: dict[str, Any] = json.loads(output)
        return result

    def interpreter(self, path: Path) -> str:
        """Write a program to ``path`` on this machine that runs Python within, for Ansible. Both share its files."""
        path.write_text(f'#!/bin/sh\nexec {shlex.join(self.enter)} env -u PYTHONPATH /usr/bin/python3 "$@"\n')
        path.chmod(0o755)
        return str(path)


if __name__ == "__main__":
    print(tree())
