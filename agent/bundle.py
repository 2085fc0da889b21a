#!/usr/bin/env python3
# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make the agent's bundle: one file with everything that a node needs beside Python 3.9.

The same content always gives the same digest.

    python agent/bundle.py [FILE]
    python agent/bundle.py --pin

``lib/`` holds the package ``kubenode``, with the engine's files in place of the link to them, and its dependencies from
PyPI, pure Python only. Beside it are ``bin/kubenode``, the licences, the SBOM ``sbom.cdx.json`` and the manifest
``SHA256SUMS``, which a node verifies before it uses a release. pip fetches each wheel once, into ``.cache/bundle``. A
wheel must have the SHA-256 that ``agent/bundle.txt`` gives. ``--pin`` fetches the versions in ``agent/bundle.txt`` and
writes their digests there.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
AGENT = ROOT / "agent"
BUNDLE = ROOT / "roles/agent/files/kubenode-agent.tar.gz"
CACHE = ROOT / ".cache/bundle"
PINS = AGENT / "bundle.txt"
MANIFEST = "SHA256SUMS"
SBOM = "sbom.cdx.json"
# A package's description and licences. Its other metadata describe the installation, or differ by platform.
KEPT_METADATA = re.compile(r"\.dist-info/(METADATA|LICENSE.*|licenses/.*)$")
EPOCH = 315532800  # 1980-01-01: the oldest time that every archive format can hold
# Every machine fetches the same file of a package, whatever its own processor and Python are. Only pure Python of it is
# used.
PLATFORM = ("--platform=manylinux2014_x86_64", "--python-version=311", "--implementation=cp", "--abi=cp311")
FETCH = (
    "-m",
    "pip",
    "download",
    "--quiet",
    "--disable-pip-version-check",
    "--no-deps",
    "--only-binary=:all:",
    *PLATFORM,
)


class BundleError(Exception):
    """The bundle cannot be made; the message says which pin or file is wrong."""


class Pin(NamedTuple):
    """A line of ``agent/bundle.txt``: one version of a package, and the SHA-256 of its wheel ("" before ``--pin``)."""

    name: str
    version: str
    digest: str


def main() -> int:
    """Write the bundle and print its path and digest, or pin its packages."""
    words = sys.argv[1:]
    try:
        if words == ["--pin"]:
            PINS.write_text(pinned(PINS.read_text(encoding="utf-8")), encoding="utf-8")
            return 0
        target = Path(words[0]) if words else BUNDLE
        data = archive(with_manifest(contents()))
    except BundleError as error:
        print(f"bundle: {error}", file=sys.stderr)
        return 1
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(target.name + ".new")
    temporary.write_bytes(data)
    temporary.replace(target)
    print(f"{target}: {len(data) // 1024} KiB, sha256 {hashlib.sha256(data).hexdigest()}")
    return 0


def contents() -> dict[str, bytes]:
    """Return every file of the bundle but its manifest: name to content."""
    import sbom

    files = {"bin/kubenode": (AGENT / "kubenode").read_bytes(), "COPYING": (ROOT / "COPYING").read_bytes()}
    source = AGENT / "src"
    # Packages that the collection has, too, are links here; rglob does not enter those.
    links = sorted(path for path in (source / "kubenode").iterdir() if path.is_symlink())
    for path in [file for root in (source, *links) for file in sorted(root.rglob("*.py"))]:
        files[f"lib/{path.relative_to(source)}"] = path.read_bytes()
    packages = wheels()
    for wheel in packages:
        with zipfile.ZipFile(wheel) as package:
            for name in package.namelist():
                if name.endswith(".py") or (KEPT_METADATA.search(name) and not name.endswith("/")):
                    files[f"lib/{name}"] = package.read(name)
    files[SBOM] = sbom.of_bundle(files, packages)
    return files


def with_manifest(files: dict[str, bytes]) -> dict[str, bytes]:
    """Return the files with their manifest, in the format of the command ``sha256sum``."""
    lines = [f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in sorted(files.items())]
    return {**files, MANIFEST: "".join(lines).encode()}


def pins() -> list[Pin]:
    """Return the pins in ``agent/bundle.txt``.

    Raises:
        BundleError: a line is not as ``--pin`` writes it.
    """
    found = []
    for line in PINS.read_text(encoding="utf-8").splitlines():
        if text := line.partition("#")[0].strip():
            match = re.fullmatch(r"([\w.-]+)==(\S+) --hash=sha256:([0-9a-f]{64})", text)
            if match is None:
                raise BundleError(
                    f"{PINS}: {text!r} has no version with SHA-256, expected 'NAME==VERSION --hash=sha256:DIGEST'; "
                    "python agent/bundle.py --pin writes it"
                )
            found.append(Pin(*match.groups()))
    return found


def pinned(text: str) -> str:
    """Return the text of ``agent/bundle.txt`` with the SHA-256 of the wheel that each pinned version has today."""
    lines = []
    for line in text.splitlines():
        match = re.match(r"([\w.-]+==\S+)", line)
        if match is None:
            lines += [line]
            continue
        with tempfile.TemporaryDirectory() as scratch:
            subprocess.run([sys.executable, *FETCH, "--dest", scratch, match[1]], check=True)
            (wheel,) = Path(scratch).iterdir()
            lines += [f"{match[1]} --hash=sha256:{sha256(wheel)}"]
    return "\n".join(lines) + "\n"


def wheels() -> list[Path]:
    """Return the wheels of the pinned packages, fetched by pip if they are not there yet.

    Raises:
        BundleError: a wheel's digest differs from its pin, or pip gets no wheel with the pinned digest.
    """
    CACHE.mkdir(parents=True, exist_ok=True)
    paths = []
    for pin in pins():
        wheel = _cached(pin)
        if wheel is None:
            with tempfile.TemporaryDirectory() as scratch:
                requirement = Path(scratch, "requirement.txt")
                requirement.write_text(f"{pin.name}=={pin.version} --hash=sha256:{pin.digest}\n", encoding="utf-8")
                command = [
                    sys.executable,
                    *FETCH,
                    "--require-hashes",
                    "--dest",
                    str(CACHE),
                    "--requirement",
                    str(requirement),
                ]
                if subprocess.run(command, check=False).returncode:
                    raise BundleError(
                        f"pip could not fetch {pin.name} {pin.version} with SHA-256 {pin.digest} ({PINS})"
                    )
            wheel = _cached(pin)
        if wheel is None:
            raise BundleError(f"pip has fetched no wheel of {pin.name} {pin.version} into {CACHE}")
        if (digest := sha256(wheel)) != pin.digest:
            raise BundleError(
                f"{wheel}: SHA-256 is {digest}, expected {pin.digest} ({PINS}); remove the file to fetch it again"
            )
        paths.append(wheel)
    return paths


def _cached(pin: Pin) -> Path | None:
    """Return the cached wheel of a pin; of several wheels, as in older clones, the one with the pinned digest."""
    pattern = f"{re.sub(r'[-_.]+', '_', pin.name.lower())}-{pin.version}-*.whl"
    present = sorted(path for path in CACHE.iterdir() if Path(path.name.lower()).match(pattern))
    return next((path for path in present if sha256(path) == pin.digest), present[0] if present else None)


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def archive(files: dict[str, bytes]) -> bytes:
    """Return a compressed tar archive whose bytes depend on ``files`` only: no time, path or user is in it."""
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
