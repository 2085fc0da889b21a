# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Container images for tests: the agent's, a later release of it, and one whose processes are root.

    PYTHONPATH=tests:molecule python -m support.containers.images

makes them below .cache/containers, with containerd and runc, for a kernel without a network.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
CACHE = ROOT / ".cache/containers"
NAME = "ghcr.io/kubenode/kubenode-agent"
PRESENT = ROOT / ".cache/image/present.txt"  # pins of the present packages, if those of the project are gone
NEXT_VERSION = "9.9.9"
RUNTIME = CACHE / "runtime"  # containerd and runc, unpacked
_VERSION = "opt/kubenode/lib/kubenode/_version.py"


def make() -> None:
    """Build the images, and unpack containerd and runc of this machine's Debian."""
    CACHE.mkdir(parents=True, exist_ok=True)
    done = build(ROOT, str(CACHE))
    assert done.returncode == 0, done.stdout + done.stderr
    if not RUNTIME.is_dir():
        building = CACHE / "building"
        building.mkdir(exist_ok=True)
        subprocess.run(
            ["apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", "containerd", "runc"],
            cwd=building,
            check=True,
        )
        for package in building.glob("*.deb"):
            subprocess.run(["dpkg-deb", "--extract", package, building / "root"], check=True)
        (building / "root").rename(RUNTIME)


def build(source: Path, *words: str, umask: int = 0o022, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run ``agent/image`` of a copy of the source with packages that the mirror has.

    Debian's mirrors drop a package when they get its next version. Then the tests pin the present packages in a file of
    their own, so that they fail for the project's changes only.
    """
    command = [sys.executable, "agent/image", *words]
    given = {**os.environ, **environment, **({"IMAGE_PINS": str(PRESENT)} if PRESENT.exists() else {})}
    done = subprocess.run(command, cwd=source, env=given, umask=umask, check=False, capture_output=True, text=True)
    if done.returncode and "apt-get" in done.stderr and not PRESENT.exists():
        PRESENT.parent.mkdir(parents=True, exist_ok=True)
        fresh = {**given, "IMAGE_PINS": str(PRESENT)}
        subprocess.run([sys.executable, "agent/image", "--pin"], cwd=ROOT, env=fresh, check=True)
        return build(source, *words, umask=umask, **environment)
    return done


def pins() -> str:
    """Return the text of the pins that the images were built with."""
    return (PRESENT if PRESENT.exists() else ROOT / "agent/image/debian.txt").read_text(encoding="utf-8")


def built() -> Path:
    """Return the archive of this machine's architecture.

    Raises:
        AssertionError: it is missing.
    """
    archives = sorted(CACHE.glob("*-amd64.oci.tar"))
    words = "on the machine: PYTHONPATH=tests:molecule python -m support.containers.images"
    assert archives, f"{CACHE} has no image; {words}"
    assert RUNTIME.is_dir(), f"{RUNTIME} is not there; {words}"
    return archives[-1]


class Archive:
    """An image's archive, read: ``config``, the layers as tar archives, and its name."""

    def __init__(self, path: Path) -> None:
        with tarfile.open(path) as tar:
            self.files = {
                member.name: (tar.extractfile(member) or io.BytesIO()).read()
                for member in tar.getmembers()
                if member.isfile()
            }
        (self.descriptor,) = json.loads(self.files["index.json"])["manifests"]
        self.name: str = self.descriptor["annotations"]["io.containerd.image.name"]
        self.manifest: dict[str, Any] = self._blob(self.descriptor)
        self.config: dict[str, Any] = self._blob(self.manifest["config"])
        self.layers = [gzip.decompress(self.files[_path(layer)]) for layer in self.manifest["layers"]]

    def _blob(self, descriptor: dict[str, Any]) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.files[_path(descriptor)])
        return document


def _path(descriptor: dict[str, Any]) -> str:
    return "blobs/sha256/" + descriptor["digest"].partition(":")[2]


def variants(archive: Archive) -> list[bytes]:
    """Return archives of further images: with the tag ``next``, a later release; with ``root``, one that runs as root.

    kubelet runs an init container as another user than the image's; ctr cannot. Layers of the first image are left out:
    containerd has them.
    """
    sys.path.insert(0, str(ROOT / "agent/image"))
    import oci

    plain, config = archive.layers, archive.config["config"]
    comments = [entry["created_by"] for entry in archive.config["history"]]

    def image(tag: str, layers: list[bytes], user: str) -> bytes:
        named = archive.name.rpartition(":")[0] + ":" + tag
        described = list(zip(comments, layers, strict=True))
        return _without(oci.image(described, "amd64", named, {**config, "User": user}).archive, set(archive.files))

    later = [plain[0], _with_version(plain[1], NEXT_VERSION)]
    return [image("next", later, config["User"]), image("root", plain, "0:0")]


def _without(archive: bytes, known: set[str]) -> bytes:
    """Return an archive without the blobs of another."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=io.BytesIO(archive)) as old, tarfile.open(fileobj=packed, mode="w") as new:
        for member in old.getmembers():
            if member.isfile() and not (member.name.startswith("blobs/") and member.name in known):
                new.addfile(member, old.extractfile(member))
    return packed.getvalue()


def _with_version(layer: bytes, version: str) -> bytes:
    """Return the agent's layer with another version in it. Its byte code would hide that, and is left out."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=io.BytesIO(layer)) as old, tarfile.open(fileobj=packed, mode="w") as new:
        for member in old.getmembers():
            content = (old.extractfile(member) or io.BytesIO()).read() if member.isfile() else b""
            if member.name == _VERSION:
                content = b'VERSION = "%s"\n' % version.encode()
            if "/_version.cpython" not in member.name:
                member.size = len(content)
                new.addfile(member, io.BytesIO(content) if member.isfile() else None)
    return packed.getvalue()


if __name__ == "__main__":
    make()
