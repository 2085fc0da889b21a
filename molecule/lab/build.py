# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build of an image: a tree by mmdebstrap, its settings, a file system; and the package repository beside it."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from . import mirror
from .command import run_contained
from .paths import DISK, IMAGES
from .recipe import (
    DISK_SIZE,
    ENABLED,
    FILES,
    KEPT_GENERATORS,
    MASKED,
    PACKAGES,
    REMOVED,
    SERVED,
    UNWANTED,
    Recipe,
)
from .repository import write_index

if TYPE_CHECKING:
    from .progress import Progress

PACKAGES_DIRECTORY = "packages"  # package repository for nodes of this release


def build(wanted: Recipe, building: Path, progress: Progress) -> None:
    """Build an image into ``building / "image"``.

    Args:
        wanted: what to build.
        building: empty directory to work in.
        progress: tells what is done.

    Raises:
        HostError: no mirror has the release.
        LabError: a step failed; with the end of the log.
    """
    release = wanted.release
    sources = mirror.sources_for(release, mirror.host_sources(), mirror.host_release())
    suites = ", ".join(source.suite for source in sources)
    progress(f"{release}: installing {len(PACKAGES + wanted.kernel.packages)} packages from {suites}")
    root, packages, disk = building / "root", building / "image" / PACKAGES_DIRECTORY, building / "image" / DISK
    packages.mkdir(parents=True)
    log = IMAGES / f"{release}.log"
    log.unlink(missing_ok=True)
    environment = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": "/root",
        "LC_ALL": "C.UTF-8",
        "TMPDIR": str(building),
    }
    run_contained(
        _mmdebstrap(wanted, root, packages, sources), log, what=f"image {release}: mmdebstrap", env=environment
    )

    progress(f"{release}: kernel and settings")
    wanted.kernel.install(root, building / "image")
    _write_settings(root)

    count = write_index(packages, wanted.kernel.architecture)
    progress(f"{release}: disk image; {count} packages to serve")
    environment["E2FSPROGS_LIBMAGIC_SUPPRESS"] = "1"
    features = ["-F", "-q", "-O", "^has_journal,^metadata_csum", "-E", "lazy_itable_init=1", "-m", "0"]
    run_contained(
        ["mkfs.ext4", *features, "-L", "lab", "-d", str(root), str(disk), DISK_SIZE],
        log,
        what=f"image {release}: mkfs.ext4",
        env=environment,
    )
    progress(f"{release}: image ready ({disk.stat().st_blocks * 512 >> 20} MiB)")


def _mmdebstrap(wanted: Recipe, root: Path, packages: Path, sources: list[mirror.Source]) -> list[str]:
    """Return the command that makes the tree, and downloads what it has not but will be served.

    The download happens while apt still knows the archive, so that versions fit what is installed.
    """
    served = shlex.join(SERVED)
    apt = 'APT_CONFIG="$MMDEBSTRAP_APT_CONFIG" apt-get -y -q -o Dir::Cache::Archives='
    hooks = [
        f"{apt}{shlex.quote(str(packages))} install --download-only --reinstall {served}",
        f"rm -rf {shlex.quote(str(packages))}/partial {shlex.quote(str(packages))}/lock",
        'rm -f "$1/etc/apt/apt.conf.d/99mmdebstrap"',
        *(f'chroot "$1" update-alternatives --set {name} {path}' for name, path in wanted.kernel.alternatives),
        f'chroot "$1" systemctl --quiet enable {shlex.join(ENABLED)}',
        f'chroot "$1" systemctl --quiet mask {shlex.join(MASKED)}',
        f'chroot "$1" rm -f {shlex.join(REMOVED)}',
    ]
    return [
        "mmdebstrap",
        "--mode=root",
        "--format=directory",
        "--variant=minbase",
        f"--architectures={wanted.kernel.architecture}",
        "--hook-dir=/usr/share/mmdebstrap/hooks/maybe-merged-usr",
        f"--include={','.join(PACKAGES + wanted.kernel.packages)}",
        *(f"--aptopt={option}" for option in mirror.apt_options()),
        "--dpkgopt=path-exclude=/usr/share/man/*",
        "--dpkgopt=path-exclude=/usr/share/doc/*",
        "--dpkgopt=path-exclude=/usr/share/locale/*",
        *(f"--essential-hook={_write(path, text)}" for path, text in wanted.kernel.files),
        *(f"--customize-hook={hook}" for hook in hooks),
        wanted.release,
        str(root),
        *(mirror.source_line(source) for source in sources),
    ]


def _write(path: str, text: str) -> str:
    """Return the shell command that writes a file of the tree."""
    return f'mkdir -p "$1"{Path(path).parent} && printf %s {shlex.quote(text)} > "$1"{path}'


def _write_settings(root: Path) -> None:
    generators = [path.name for path in (root / "lib/systemd/system-generators").iterdir()]
    masked = [f"system-generators/{name}" for name in generators if name not in KEPT_GENERATORS]
    for name in masked + [f"system/multi-user.target.wants/{unit}" for unit in UNWANTED]:
        path = root / "etc/systemd" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.symlink_to("/dev/null")
    (root / "etc/apt/sources.list").unlink(missing_ok=True)
    for name, (mode, text) in FILES.items():
        path = root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.write_text(text)
        os.chmod(path, mode)
