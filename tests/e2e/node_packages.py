# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Debian packages of the nodes: a container runtime and its tools, downloaded once and served on the lab's bridge."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from lab import mirror, naming
from lab.command import run
from lab.paths import DISK
from lab.repository import write_index

from .settings import CACHE, RELEASE

if TYPE_CHECKING:
    from lab.state import Lab

PACKAGES = ("containerd", "runc", "containernetworking-plugins", "socat", "conntrack", "ebtables", "iptables")
DIRECTORY = "e2e"  # below the lab's package repository
SOURCE = f"deb [trusted=yes] http://{naming.bridge_addresses().ipv4}:{naming.REPOSITORY_PORT}/{DIRECTORY} ./\n"
_TIMEOUT = 600.0  # of a download


def provide(lab: Lab) -> Path:
    """Serve the packages on the lab's bridge, and return the served directory; other files may be added to it."""
    image = Path(lab.nodes[0].image)
    served = lab.directory / "packages" / DIRECTORY
    shutil.copytree(_downloaded(image), served)
    return served


def _downloaded(image: Path) -> Path:
    """Return the directory with all packages that the image lacks, and their index."""
    recipe = "\0".join([image.name, *PACKAGES])
    directory = CACHE / "packages" / hashlib.sha256(recipe.encode()).hexdigest()[:12]
    if directory.is_dir():
        return directory
    building = CACHE / "packages/building"
    shutil.rmtree(building.parent, ignore_errors=True)
    for name in ("state/lists/partial", "archives/partial", "parts"):
        (building / name).mkdir(parents=True)
    # apt on this machine resolves for the node: it reads which packages the image has.
    run(["debugfs", "-R", f"dump /var/lib/dpkg/status {building / 'status'}", str(image / DISK)])
    sources = mirror.sources_for(RELEASE, mirror.host_sources(), mirror.host_release())
    (building / "sources.list").write_text("".join(f"{mirror.source_line(source)}\n" for source in sources))
    options = [
        f"Dir::State={building / 'state'}",
        f"Dir::State::Status={building / 'status'}",
        f"Dir::Cache={building}",
        f"Dir::Cache::Archives={building / 'archives'}",
        f"Dir::Etc::SourceList={building / 'sources.list'}",
        f"Dir::Etc::SourceParts={building / 'parts'}",
        "APT::Architecture=amd64",
        "APT::Install-Recommends=false",
        "APT::Sandbox::User=root",
    ]
    apt = ["apt-get", "-q", "-y", *(word for option in options for word in ("-o", option))]
    run([*apt, "update"], what="package lists of the nodes", timeout=_TIMEOUT)
    run([*apt, "install", "--download-only", *PACKAGES], what="packages of the nodes", timeout=_TIMEOUT)
    shutil.rmtree(building / "archives/partial")
    (building / "archives/lock").unlink(missing_ok=True)
    write_index(building / "archives", "amd64")
    (building / "archives").rename(directory)
    shutil.rmtree(building)
    return directory
