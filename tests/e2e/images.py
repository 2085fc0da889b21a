# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Images of the tests as OCI archives: programs alone, and agnhost on a small Debian root with its tests' tools."""

from __future__ import annotations

import hashlib
import re
import shutil
import sys
from functools import partial
from pathlib import Path
from typing import NamedTuple

from lab import mirror
from lab.command import run_contained
from lab.paths import ROOT

from .errors import E2eError
from .settings import CACHE, RELEASE

sys.path.insert(0, str(ROOT / "agent/image"))
import oci

# Tools that tests run in agnhost's image; the images busybox and distroless-iptables are the same archive.
PACKAGES = (
    "bind9-dnsutils",
    "ca-certificates",
    "conntrack",
    "curl",
    "ipset",
    "iptables",
    "iproute2",
    "ipvsadm",
    "netcat-openbsd",
    "procps",
    "wget",
)
AGNHOST, PAUSE = "agnhost", "pause"
BOOM_SERVER = "regression-issue-74839"  # the test calls it so: it sends packets outside of the TCP window
# Images that the tests use: the name's last part before the tag, and the archive that serves for it.
SERVED_BY = {
    "agnhost": AGNHOST,
    "busybox": AGNHOST,
    "distroless-iptables": AGNHOST,
    "pause": PAUSE,
    BOOM_SERVER: BOOM_SERVER,
}
_REGISTRY = "registry.k8s.io/"
_ENVIRONMENT = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Archive(NamedTuple):
    """Archive of an image, with all names that it gets on a node."""

    path: Path
    names: list[str]


def archives(programs: Path, names: list[str]) -> list[Archive]:
    """Return the archives with their names; build those that the caller does not bring.

    Args:
        programs: the caller's directory.
        names: images that the tests use.

    Raises:
        E2eError: the tests use none of an archive's images.
        LabError: the Debian root cannot be built.
    """
    wanted = named(names)
    built = []
    for archive, served in wanted.items():
        given = programs / f"{archive}.tar"
        built.append(Archive(given if given.is_file() else _build(archive, programs / archive, served[0]), served))
    return built


def named(names: list[str]) -> dict[str, list[str]]:
    """Return for each archive the names that it gets: of all images whose last part is in SERVED_BY.

    Raises:
        E2eError: no image needs an archive.
    """
    wanted: dict[str, list[str]] = {archive: [] for archive in SERVED_BY.values()}
    for name in names:
        short = name.rpartition(":")[0].rpartition("/")[2]
        if short in SERVED_BY:
            wanted[SERVED_BY[short]].append(name)
    for archive, served in wanted.items():
        # The name in the archive comes first: the newest version of its image, from the project's registry.
        served.sort(key=partial(_preference, archive), reverse=True)
        if not served:
            raise E2eError(f"e2e.test --list-images has no image {archive}: its version is not supported")
    return wanted


def _preference(archive: str, name: str) -> tuple[bool, list[int], str]:
    return _REGISTRY in name and f"/{archive}:" in name, _version(name), name


def _version(name: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", name.rpartition(":")[2])]


def _build(archive: str, program: Path, name: str) -> Path:
    content = program.read_bytes()
    recipe = "\0".join([name, RELEASE, *PACKAGES, hashlib.sha256(content).hexdigest()])
    path = CACHE / "images" / f"{archive}-{hashlib.sha256(recipe.encode()).hexdigest()[:12]}.tar"
    if path.is_file():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    layers = [(f"the program {archive}", oci.layer({archive: oci.File(content, 0o755)}))]
    config: dict[str, object] = {"Entrypoint": [f"/{archive}"], "Env": [_ENVIRONMENT], "WorkingDir": "/"}
    if archive == AGNHOST:
        # GNU wget tries 20 times where busybox's, which the tests expect, tries once.
        settings = oci.layer({"etc/wgetrc": oci.File(b"tries = 1\n"), "uploads": oci.File(mode=0o40755)})
        layers = [(f"Debian {RELEASE}", _debian()), ("settings", settings), *layers]
        config["Cmd"] = ["pause"]
    for older in path.parent.glob(f"{archive}-*.tar"):
        older.unlink()
    temporary = path.with_suffix(".new")
    temporary.write_bytes(oci.image(layers, "amd64", name, config).archive)
    temporary.rename(path)
    return path


def _debian() -> bytes:
    """Return the tar archive of a small Debian with the tools; it is kept for other versions of the program."""
    recipe = "\0".join([RELEASE, *PACKAGES])
    path = CACHE / "images" / f"debian-{hashlib.sha256(recipe.encode()).hexdigest()[:12]}.tar"
    if path.is_file():
        return path.read_bytes()
    building = CACHE / "building"
    shutil.rmtree(building, ignore_errors=True)
    building.mkdir(parents=True)
    sources = mirror.sources_for(RELEASE, mirror.host_sources(), mirror.host_release())
    command = [
        "mmdebstrap",
        "--mode=root",
        "--format=tar",
        "--variant=minbase",
        f"--include={','.join(PACKAGES)}",
        *(f"--aptopt={option}" for option in mirror.apt_options()),
        "--aptopt=APT::Install-Recommends false",
        *(f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in ("man", "doc", "locale", "info")),
        '--customize-hook=rm -rf "$1"/var/cache/apt/* "$1"/var/lib/apt/lists/* "$1"/var/log/*',
        RELEASE,
        str(building / "root.tar"),
        *(mirror.source_line(source) for source in sources),
    ]
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "TMPDIR": str(building)}
    environment["HOME"] = str(building)
    try:
        run_contained(command, CACHE / "mmdebstrap.log", what="root of agnhost's image", env=environment)
        for older in path.parent.glob("debian-*.tar"):
            older.unlink()
        (building / "root.tar").rename(path)
    finally:
        shutil.rmtree(building, ignore_errors=True)
    return path.read_bytes()
