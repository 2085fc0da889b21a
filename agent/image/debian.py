# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Debian packages of the image: pinned by version and SHA-256, fetched by apt, unpacked without root.

``debian.txt`` has one line for each package and architecture. apt resolves dependencies only for ``--pin``.
"""

from __future__ import annotations

import hashlib
import io
import lzma
import os
import platform
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from lab import mirror
from lab.errors import LabError

# Environment: another file of pins, for mirrors that no longer have the packages of debian.txt.
PINS = Path(os.environ.get("IMAGE_PINS") or Path(__file__).with_name("debian.txt"))
CACHE = Path(__file__).resolve().parents[2] / ".cache/image"
RELEASE, RELEASE_NUMBER = "trixie", "13"
# Environment: the time of a state of Debian's archives, for pins that its mirrors no longer have (20261124T000000Z).
SNAPSHOT = "IMAGE_SNAPSHOT"
_SNAPSHOTS = "http://snapshot.debian.org/archive"
ARCHITECTURES = ("amd64", "arm64")
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
_AR_MAGIC, _AR_HEADER = b"!<arch>\n", 60
_HEAD = f"""\
# Debian {RELEASE} packages of the container image: architecture, name, version, SHA-256.
# Written by `python agent/image --pin`; why they are in the image: docs/explanation/dependencies.md
"""


class PackageError(Exception):
    """A package cannot be used; the message names it."""


class Pin(NamedTuple):
    """One package of the image. ``digest`` is the SHA-256 of its file."""

    architecture: str
    name: str
    version: str
    digest: str


class Package(NamedTuple):
    """An unpacked package: its control paragraph, and its files as tar members with their content."""

    pin: Pin
    control: str
    members: list[tuple[tarfile.TarInfo, bytes]]


def native() -> str:
    """Return the architecture whose programs this machine runs.

    Raises:
        PackageError: no image has it.
    """
    machine = platform.machine()
    if machine not in _MACHINES:
        raise PackageError(f"this machine is {machine}, expected {' or '.join(_MACHINES)}: it runs the image's Python")
    return _MACHINES[machine]


def pins() -> list[Pin]:
    """Return the lines of ``debian.txt``.

    Raises:
        PackageError: a line is not as ``--pin`` writes it.
    """
    listed = []
    for line in PINS.read_text(encoding="utf-8").splitlines():
        if text := line.partition("#")[0].strip():
            match = re.fullmatch(r"(\S+) (\S+) (\S+) ([0-9a-f]{64})", text)
            if match is None:
                raise PackageError(
                    f"{PINS}: {text!r}, expected 'ARCHITECTURE NAME VERSION SHA-256';"
                    " python agent/image --pin writes it"
                )
            listed.append(Pin(*match.groups()))
    return listed


def pin(names: Iterable[str], left_out: Collection[str]) -> None:
    """Write the present versions of packages, with all that they depend on but ``left_out``, to ``debian.txt``.

    Raises:
        PackageError: apt fails.
    """
    lines = []
    for architecture in ARCHITECTURES:
        with tempfile.TemporaryDirectory() as scratch:
            apt = _Apt(Path(scratch), architecture)
            planned = apt.run("apt-get", "-q", "--print-uris", "-y", "install", *names)
            files = re.findall(r"^'\S+' ([^_\s]+)_(\S+?)_\w+\.deb ", planned, re.MULTILINE)
            chosen = sorted({name for name, _version in files} - set(left_out))
            for paragraph in apt.run("apt-cache", "show", "--no-all-versions", *chosen).split("\n\n"):
                fields = dict(re.findall(r"^(Package|Version|SHA256): (\S+)$", paragraph, re.MULTILINE))
                if fields:
                    lines += [f"{architecture} {fields['Package']} {fields['Version']} {fields['SHA256']}"]
    PINS.write_text(_HEAD + "\n".join(lines) + "\n", encoding="utf-8")


def fetched(pinned: Collection[Pin], architecture: str) -> list[Package]:
    """Return the packages of an architecture, fetched by apt if they are not in the cache.

    Raises:
        PackageError: no mirror has a package, or its SHA-256 differs from the pin.
    """
    CACHE.mkdir(parents=True, exist_ok=True)
    mine = [item for item in pinned if item.architecture == architecture]
    missing = [item for item in mine if not _cached(item).is_file()]
    if missing:
        _download(missing, architecture)
    return [_unpacked(item) for item in mine]


def _cached(item: Pin) -> Path:
    return CACHE / f"{item.digest}.deb"


def _download(missing: Collection[Pin], architecture: str) -> None:
    with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
        apt = _Apt(Path(scratch), architecture)
        apt.run("apt-get", "-q", "download", *(f"{item.name}={item.version}" for item in missing))
        files = {hashlib.sha256(path.read_bytes()).hexdigest(): path for path in Path(scratch).glob("*.deb")}
        for item in missing:
            if item.digest not in files:
                raise PackageError(
                    f"apt has fetched {item.name} {item.version} {architecture} with another SHA-256 than {item.digest}"
                    f" ({PINS})"
                )
            shutil.move(files[item.digest], _cached(item))


def _unpacked(item: Pin) -> Package:
    data = _cached(item).read_bytes()
    if hashlib.sha256(data).hexdigest() != item.digest:
        raise PackageError(f"{_cached(item)}: SHA-256 differs from its name; remove the file to fetch it again")
    control, members = "", []
    for name, content in _ar_members(data, item.name):
        if name.startswith("control.tar"):
            control = next(text.decode() for info, text in _tar_members(content, name) if info.name == "./control")
        elif name.startswith("data.tar"):
            members = _tar_members(content, name)
    return Package(item, control.strip() + "\n", members)


def _ar_members(data: bytes, name: str) -> Iterable[tuple[str, bytes]]:
    if not data.startswith(_AR_MAGIC):
        raise PackageError(f"{name}: not a Debian package")
    at = len(_AR_MAGIC)
    while at + _AR_HEADER <= len(data):
        member = data[at : at + 16].decode("ascii").rstrip(" /")
        size = int(data[at + 48 : at + 58])
        at += _AR_HEADER
        yield member, data[at : at + size]
        at += size + size % 2


def _tar_members(content: bytes, name: str) -> list[tuple[tarfile.TarInfo, bytes]]:
    try:
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            members = []
            for info in archive.getmembers():
                file = archive.extractfile(info) if info.isreg() or info.islnk() else None
                members.append((info, file.read() if file else b""))
            return members
    except (tarfile.TarError, lzma.LZMAError) as error:
        raise PackageError(f"{name}: {error}") from error


def sources() -> list[mirror.Source]:
    """Return the archives and suites of the release: those of this machine's apt, or a snapshot of Debian's.

    Raises:
        PackageError: no mirror has the release.
    """
    if moment := os.environ.get(SNAPSHOT):
        archives = {"": "debian", "-updates": "debian", "-security": "debian-security"}
        return [mirror.Source(f"{_SNAPSHOTS}/{name}/{moment}", RELEASE + suite) for suite, name in archives.items()]
    try:
        return mirror.sources_for(RELEASE, mirror.host_sources(), mirror.host_release())
    except LabError as error:
        raise PackageError(str(error)) from error


class _Apt:
    """apt with its own state in a directory, for one architecture of the image's release."""

    def __init__(self, directory: Path, architecture: str) -> None:
        self._directory = directory
        for name in ("lists/partial", "archives/partial"):
            (directory / name).mkdir(parents=True)
        (directory / "sources.list").write_text("".join(f"{mirror.source_line(source)}\n" for source in sources()))
        (directory / "status").touch()
        settings = {
            "Dir::Etc::sourcelist": directory / "sources.list",
            "Dir::Etc::sourceparts": "/dev/null",
            "Dir::State::lists": directory / "lists",
            "Dir::State::status": directory / "status",
            "Dir::Cache::archives": directory / "archives",
            "Dir::Cache::pkgcache": "",
            "Dir::Cache::srcpkgcache": "",
            "APT::Sandbox::User": "root",
            "APT::Architecture": architecture,
            "APT::Install-Recommends": "false",
        }
        lines = [f'{name} "{value}";' for name, value in settings.items()]
        lines += [f'APT::Architectures {{ "{architecture}"; }};', *mirror.apt_options()]
        lines += ['Acquire::Check-Valid-Until "false";'] if os.environ.get(SNAPSHOT) else []
        (directory / "apt.conf").write_text("\n".join(lines) + "\n")
        self.run("apt-get", "-q", "update")

    def run(self, *words: str) -> str:
        """Run apt in the directory; return its output."""
        with suppress(FileNotFoundError):
            done = subprocess.run(
                words,
                cwd=self._directory,
                env={"PATH": "/usr/sbin:/usr/bin", "LC_ALL": "C.UTF-8", "APT_CONFIG": f"{self._directory}/apt.conf"},
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode == 0:
                return done.stdout
            lines = [line for line in done.stderr.splitlines() if line.startswith("E:")] or [done.stderr.strip()]
            raise PackageError(
                f"{' '.join(words[:4])}: {'; '.join(lines)}; if Debian has replaced a pinned version, set {SNAPSHOT} to"
                " the time of the pins (20261124T000000Z) or run python agent/image --pin"
            )
        raise PackageError(f"{words[0]} is missing; it fetches the image's packages on Debian and its derivatives")
