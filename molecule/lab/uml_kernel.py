# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""User-mode kernel built from Debian's source: its processes start three times as fast as with the packaged one.

Since Linux 6.16, user-mode Linux can stop the system calls of its processes by seccomp instead of ptrace. Debian's
package has that from Linux 7.2 on, but neither iptables-legacy nor nf_tables of IP, and it needs a newer libc than
Debian 12 has. So the lab configures (``uml.config``) and compiles one; until then the packaged one serves. That takes
minutes, so all clones of a user share the result, in ``~/.cache/kubenode-lab``.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from . import host, mirror
from .command import run_contained
from .errors import HostError, LabError
from .lock import locked
from .paths import CACHE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .progress import Progress

SHARED = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kubenode-lab"
DIRECTORY = CACHE / "kernel"  # a link to this clone's kernel in SHARED
PROGRAM = DIRECTORY / "linux"
MODULES = DIRECTORY / "modules"
PACKAGE = "linux-source-7.2"
_SUITES = ("trixie-backports", "sid")
_CONFIG = Path(__file__).with_name("uml.config")
_PATCH, _COMPILER, _HEADERS = (
    Path(__file__).with_name(name) for name in ("kernel.patch", "kernel-cc", "kernel-headers.h")
)
_SAMPLES = "net/core/dst.o net/netfilter/x_tables.o"  # the headers are precompiled with the options of these
_LOG = CACHE / "kernel.log"
_FREE_DISK = 4 * 1024**3  # the source's tree has 2 GiB
_NEEDS = (
    host.Need("cc", "gcc libc6-dev"),
    host.Need("make", "make"),
    host.Need("patch", "patch"),
    host.Need("flex", "flex"),
    host.Need("bison", "bison"),
    host.Need("bc", "bc"),
    host.Need("xz", "xz-utils"),
    host.Need("depmod", "kmod"),
)


def version() -> str | None:
    """Return the version of the built kernel, such as ``7.2.13-lab-0123abcd``; None if there is none."""
    return next((path.name for path in MODULES.glob("*")), None) if PROGRAM.exists() else None


def build(progress: Progress) -> None:
    """Build the kernel, unless it is there.

    Raises:
        HostError: this machine cannot build it, or no archive has the source.
        LabError: a step failed; with the end of the log.
    """
    wanted = SHARED / f"kernel-{_digest()}"
    for directory in (CACHE, SHARED):
        directory.mkdir(parents=True, exist_ok=True)
    with locked(SHARED / ".lock", lambda: progress("kernel: another process is building it, waiting")):
        if not wanted.is_dir():
            _build(wanted, progress)
    link = DIRECTORY.with_name(f".kernel-{os.getpid()}")
    link.symlink_to(wanted)
    link.rename(DIRECTORY)
    progress(f"kernel: {version()} ready")


def _build(wanted: Path, progress: Progress) -> None:
    host.check(_NEEDS, disk=_FREE_DISK)
    sources = _sources()
    _LOG.unlink(missing_ok=True)
    for leftover in SHARED.glob(".building-*"):
        shutil.rmtree(leftover, ignore_errors=True)
    building = Path(tempfile.mkdtemp(prefix=".building-", dir=SHARED))
    try:
        tree = _fetch(sources, building, progress)
        progress(f"kernel: compiling {tree.name} for user-mode Linux; some minutes, once on this machine")
        _compile(tree, f"-lab-{_digest()}", building)
        (building / "result").rename(wanted)
    finally:
        shutil.rmtree(building, ignore_errors=True)


def _digest() -> str:
    text = f"{PACKAGE}\n{_CONFIG.read_text()}{_PATCH.read_text()}"
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _sources() -> list[mirror.Source]:
    """Return the archives and suites that may have the source; raise HostError if no mirror has such a suite."""
    override = os.environ.get(mirror.OVERRIDE)
    archives = [source.uri for source in mirror.host_sources() if source.suite == mirror.host_release()]
    candidates = [mirror.Source(uri, suite) for suite in _SUITES for uri in ([override] if override else []) + archives]
    usable = [source for source in dict.fromkeys(candidates) if mirror.has_suite(source)]
    if not usable:
        raise HostError(f"no package mirror of this machine has Debian {' or '.join(_SUITES)}, which has {PACKAGE}")
    return usable


def _fetch(sources: list[mirror.Source], building: Path, progress: Progress) -> Path:
    """Return the unpacked source of the first archive that has it; raise HostError if none has."""
    for source in sources:
        progress(f"kernel: fetching {PACKAGE} of {source.suite}")
        with suppress(LabError):
            return _unpack(source, building)
    raise HostError(f"Debian {' and '.join(_SUITES)} of this machine's mirrors have no {PACKAGE} (log: {_LOG})")


def _unpack(source: mirror.Source, building: Path) -> Path:
    """Fetch the package with an apt of its own, and unpack the kernel's source; return its directory."""
    apt = Path(tempfile.mkdtemp(prefix="apt-", dir=building))
    for name in ("lists/partial", "archives/partial"):
        (apt / name).mkdir(parents=True)
    (apt / "sources.list").write_text(mirror.source_line(source) + "\n")
    settings = {"Dir::Etc::sourcelist": apt / "sources.list", "Dir::Etc::sourceparts": "/dev/null"}
    settings.update({"Dir::State::lists": apt / "lists", "Dir::Cache::archives": apt / "archives"})
    settings.update({"Dir::Cache::pkgcache": "", "Dir::Cache::srcpkgcache": "", "APT::Sandbox::User": "root"})
    lines = [*(f'{name} "{value}";' for name, value in settings.items()), *mirror.apt_options()]
    (apt / "apt.conf").write_text("\n".join(lines) + "\n")
    steps = (
        f"export APT_CONFIG='{apt}/apt.conf'",
        "apt-get -q update",
        f"apt-get -q download {PACKAGE}",
        f"dpkg-deb --fsys-tarfile {PACKAGE}_*.deb | tar -x -O --wildcards './usr/src/*.tar.xz' | xz -d -T0"
        " | tar -x --exclude='*/Documentation/[a-z]*/*'",
    )
    _shell("fetch the source", steps, building)
    return building / PACKAGE


def _compile(tree: Path, suffix: str, building: Path) -> None:
    """Patch, configure and compile the kernel and its modules; put both into ``building / "result"``."""
    for tool in (_COMPILER, _HEADERS):  # the kernel's make takes no compiler whose path has a space
        shutil.copy(tool, building)
    make = (
        f"make -C {tree.name} ARCH=um O=../objects CC={building / _COMPILER.name} LOCALVERSION={suffix}"
        f" -j{len(os.sched_getaffinity(0))}"
    )
    patch = f"patch -N -d {tree.name} -p1 <'{_PATCH.resolve()}'"
    # A later release of the source may have another text there; then nodes are slower, and sleep too long at times.
    _shell("patch", (f"if {patch} --dry-run; then {patch}; else echo '{_PATCH.name} does not apply'; fi",), building)
    _shell("configure", ("mkdir objects", f"KCONFIG_ALLCONFIG='{_CONFIG.resolve()}' {make} allnoconfig"), building)
    configured = set((building / "objects/.config").read_text().splitlines())
    wanted = [line for line in _CONFIG.read_text().splitlines() if line.startswith("CONFIG_")]
    refused = [line for line in wanted if line not in configured]
    if refused:
        raise LabError(f"{_CONFIG.name}: {tree.name} does not take {', '.join(refused)}")
    headers = f"LAB_HEADERS=../{_HEADERS.name} {make} {_SAMPLES}"
    _shell("compile", (f"{make} prepare", headers, f"{make} vmlinux modules"), building)
    steps = (
        f"{make} INSTALL_MOD_PATH=../installed INSTALL_MOD_STRIP=1 modules_install",
        "rm -f installed/lib/modules/*/build installed/lib/modules/*/source",
        "mkdir result",
        "mv installed/lib/modules result/modules",
        "strip -o result/linux objects/vmlinux",
    )
    _shell("install", steps, building)


def _shell(what: str, steps: Iterable[str], directory: Path) -> None:
    script = "\n".join(("set -e -o pipefail", f"cd '{directory}'", *steps))
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8"}
    run_contained(["bash", "-c", script], _LOG, what=f"kernel: {what}", env=environment)
