#!/usr/bin/env python3
# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make the agent's bundle: everything that a node needs beside Python 3.9, in one file, with the same digest for the same content.

    python agent/bundle.py [FILE]

It holds ``lib/`` (the package ``kubenode``, with the engine's files in place of the link to them, and what it needs from PyPI, pure
Python only), ``bin/kubenode``, and the licences. What comes from PyPI is fetched once by pip and kept in ``.cache/bundle``.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
AGENT = ROOT / "agent"
BUNDLE = ROOT / "roles/agent/files/kubenode-agent.tar.gz"
CACHE = ROOT / ".cache/bundle"
PINS = AGENT / "bundle.txt"
# Of a package's metadata, what says whose it is; the rest is about how it was installed, or differs by platform.
KEPT_METADATA = re.compile(r"\.dist-info/(METADATA|LICENSE.*|licenses/.*)$")
EPOCH = 315532800  # 1980-01-01: the oldest time that every archive format can hold


def main() -> int:
    """Write the bundle; print its path and digest."""
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else BUNDLE
    data = archive(contents())
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(target.name + ".new")
    temporary.write_bytes(data)
    temporary.replace(target)
    print(f"{target}: {len(data) // 1024} KiB, sha256 {hashlib.sha256(data).hexdigest()}")
    return 0


def contents() -> dict[str, bytes]:
    """Return every file of the bundle: name to content."""
    files = {"bin/kubenode": (AGENT / "kubenode").read_bytes(), "COPYING": (ROOT / "COPYING").read_bytes()}
    source = AGENT / "src"
    for path in sorted(source.rglob("*.py")) + sorted((source / "kubenode/engine/").rglob("*.py")):
        files[f"lib/{path.relative_to(source)}"] = path.read_bytes()
    for wheel in wheels():
        with zipfile.ZipFile(wheel) as package:
            for name in package.namelist():
                if name.endswith(".py") or (KEPT_METADATA.search(name) and not name.endswith("/")):
                    files[f"lib/{name}"] = package.read(name)
    return files


def wheels() -> list[Path]:
    """Return the wheels of the pinned packages, fetched by pip if they are not there yet."""
    found = []
    for pin in PINS.read_text(encoding="utf-8").split("\n"):
        name, _equals, version = pin.partition("#")[0].strip().partition("==")
        if not name:
            continue
        CACHE.mkdir(parents=True, exist_ok=True)
        pattern = f"{name.lower().replace('-', '_')}-{version}-*.whl"
        present = [path for path in CACHE.iterdir() if Path(path.name.lower()).match(pattern)]
        if not present:
            command = [
                "pip",
                "download",
                "--quiet",
                "--no-deps",
                "--only-binary=:all:",
                "--dest",
                str(CACHE),
                f"{name}=={version}",
            ]
            subprocess.run([sys.executable, "-m", *command], check=True)
            present = [path for path in CACHE.iterdir() if Path(path.name.lower()).match(pattern)]
        found.append(sorted(present)[0])
    return found


def archive(files: dict[str, bytes]) -> bytes:
    """Return a compressed tar archive in which nothing depends on when, where and by whom it was made."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, data in sorted(files.items()):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            member.mtime = EPOCH
            member.mode = 0o755 if name.startswith("bin/") else 0o644
            tar.addfile(member, io.BytesIO(data))
    packed = io.BytesIO()
    with gzip.GzipFile(filename="", fileobj=packed, mode="wb", mtime=EPOCH) as stream:
        stream.write(raw.getvalue())
    return packed.getvalue()


if __name__ == "__main__":
    sys.exit(main())
