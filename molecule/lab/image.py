# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cache of node images: each is built once, and named by the digest of its recipe.

An image is removed when its digest is no longer current.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from . import build, host
from .lock import locked
from .paths import DISK, IMAGES
from .recipe import RELEASES, recipe

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from .kernel_kind import KernelKind
    from .progress import Progress


class Image(NamedTuple):
    """A finished image; the directory is never changed again."""

    directory: Path

    @property
    def disk(self) -> Path:
        """ext4 file system that a node's disk begins with."""
        return self.directory / DISK

    @property
    def packages(self) -> Path:
        """Package repository for nodes of this release."""
        return self.directory / build.PACKAGES_DIRECTORY


def find_or_build(release: str, kind: KernelKind, progress: Progress, *, rebuild: bool = False) -> Image:
    """Return the image of a release with a kind of kernel; build it if it is missing.

    Of two builders at once, the second waits for the first and takes its image.

    Raises:
        HostError: this machine cannot build it.
        LabError: building failed; the error has the end of the log.
        UsageError: unknown release.
    """
    wanted = recipe(release, kind)
    image = Image(IMAGES / wanted.name)
    if image.directory.is_dir() and not rebuild:
        return image
    host.check(host.TO_BUILD + kind.to_build, disk=host.MIN_FREE_DISK, further=kind.build_problems())
    with _locked(release, progress):
        _remove_unfinished(release)
        if image.directory.is_dir() and not rebuild:
            return image
        building = Path(tempfile.mkdtemp(prefix=f".{release}-building-", dir=IMAGES))
        try:
            build.build(wanted, building, progress)
            if image.directory.is_dir():
                image.directory.rename(building / "replaced")
            (building / "image").rename(image.directory)
        finally:
            _remove_tree(building)
    return image


def _locked(release: str, progress: Progress) -> AbstractContextManager[None]:
    return locked(
        IMAGES / f".{release}.lock", lambda: progress(f"{release}: another process is building the image, waiting")
    )


def remove_unfinished(progress: Progress) -> None:
    """Remove the unfinished images of killed builders."""
    for release in RELEASES:
        if any(IMAGES.glob(f".{release}-building-*")):
            with _locked(release, progress):
                _remove_unfinished(release)


def _remove_unfinished(release: str) -> None:
    """Remove the unfinished images of killed builders; the caller holds the lock, so no builder runs."""
    for leftover in IMAGES.glob(f".{release}-building-*"):
        _remove_tree(leftover)


def _remove_tree(directory: Path) -> None:
    # Processes of an interrupted builder are still ending, and may write further files.
    for _ in range(20):
        shutil.rmtree(directory, ignore_errors=True)
        if not directory.exists():
            return
        time.sleep(0.1)
    shutil.rmtree(directory)


def prune(kind: KernelKind, keep: set[str]) -> list[str]:
    """Remove outdated images with this kind of kernel, except the directories in ``keep``; return their names.

    Images of another kind stay: this machine may lack the programs that tell whether they are current.
    """
    current = {recipe(release, kind).name for release in RELEASES}
    images = IMAGES.glob(f"[a-z]*-{kind.name}-*")
    removed = [path for path in images if path.name not in current and str(path) not in keep]
    for path in removed:
        shutil.rmtree(path)
    return sorted(path.name for path in removed)
