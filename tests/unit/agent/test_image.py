# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The container images: reproducible, complete for each architecture, small, described by an SBOM."""

from __future__ import annotations

import importlib
import io
import json
import os
import re
import struct
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from support.containers import images
from support.containers.images import Archive
from support.source_copy import ROOT, copy_source

from kubenode import container

ARCHITECTURES = ("amd64", "arm64")
MOST_BYTES = 60 << 20
# Libraries that each ELF file names are in the image, or are the kernel's.
MACHINES = {"amd64": 62, "arm64": 183}
Files = dict[str, tuple[tarfile.TarInfo, bytes]]


def build(source: Path, *architecture: str, umask: int = 0o022, **environment: str) -> dict[str, Path]:
    """Build images in a copy of the source; return the archives by architecture."""
    cache = ROOT / ".cache/image"
    cache.mkdir(parents=True, exist_ok=True)
    (source / ".cache").mkdir(exist_ok=True)
    (source / ".cache/image").symlink_to(cache)
    done = images.build(source, "images", *architecture, umask=umask, **environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return {path.name.split("-")[-1].split(".")[0]: path for path in (source / "images").iterdir()}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return build(copy_source(tmp_path_factory.mktemp("one")))


@pytest.fixture(scope="module", params=ARCHITECTURES)
def archive(built: dict[str, Path], request: pytest.FixtureRequest) -> Archive:
    return Archive(built[request.param])


def files(archive: Archive) -> Files:
    """Return the entries of all layers by path."""
    entries: Files = {}
    for layer in archive.layers:
        with tarfile.open(fileobj=io.BytesIO(layer)) as tar:
            for info in tar.getmembers():
                entries[info.name] = info, (tar.extractfile(info) or io.BytesIO()).read() if info.isfile() else b""
    return entries


def test_image_bytes_depend_on_the_source_only(built: dict[str, Path], tmp_path: Path) -> None:
    """The second build differs in directory, time, file order, umask, locale, time zone and hash seed."""
    source = copy_source(tmp_path / "another directory", backwards=True)
    long_ago = time.time() - 4e8
    for path in source.rglob("*"):
        if not path.is_symlink():
            os.utime(path, (long_ago, long_ago))
    other = build(
        source, "amd64", umask=0o077, LC_ALL="C", TZ="Asia/Tokyo", PYTHONHASHSEED="7", USER="x", HOME=str(tmp_path)
    )
    assert other["amd64"].read_bytes() == built["amd64"].read_bytes()


def test_image_has_no_time_or_owner_of_the_builder(archive: Archive) -> None:
    entries = [info for info, _data in files(archive).values()]
    assert {(info.mtime, info.uid, info.gid, info.uname, info.gname) for info in entries} == {(315532800, 0, 0, "", "")}
    assert archive.config["created"] == "1980-01-01T00:00:00Z"


def test_image_is_small_and_runs_as_its_own_user(built: dict[str, Path], archive: Archive) -> None:
    assert max(path.stat().st_size for path in built.values()) <= MOST_BYTES
    assert archive.config["config"]["User"] == f"{container.USER}:{container.USER}"
    entries = files(archive)
    writable = [name for name, (info, _data) in entries.items() if info.mode & 0o022 and not info.issym()]
    assert writable == ["tmp"]
    assert not [name for name, (info, _data) in entries.items() if info.mode & 0o6000]


def test_agent_has_the_environment_of_the_unit(archive: Archive) -> None:
    unit = (ROOT / "roles/agent/templates/kubenode-agent.service.j2").read_text()
    settings = set(re.findall(r"^Environment=(?!HOME=)(\S+)$", unit, re.MULTILINE))
    assert settings
    assert settings <= set(archive.config["config"]["Env"])


def test_only_python_permits_two_capabilities(archive: Archive) -> None:
    capable = {
        name: info.pax_headers["SCHILY.xattr.security.capability"].encode()
        for name, (info, _data) in files(archive).items()
        if "SCHILY.xattr.security.capability" in info.pax_headers
    }
    ((name, value),) = capable.items()
    assert name == "usr/bin/python3.13"
    # revision 2, not effective: a container without the capabilities can start it, too
    assert struct.unpack("<5I", value) == (0x02000000, 1 << 12 | 1 << 13, 0, 0, 0)


def test_image_has_every_library_that_its_programs_name(archive: Archive) -> None:
    entries = files(archive)
    names = {name.rpartition("/")[2] for name in entries}
    checked = 0
    for name, (_info, data) in entries.items():
        if data.startswith(b"\x7fELF"):
            assert struct.unpack("<H", data[18:20])[0] == MACHINES[archive.config["architecture"]], name
            assert set(libraries(data)) <= names, name
            checked += 1
    assert checked > 100


def libraries(data: bytes) -> Iterator[str]:
    """Yield the libraries that a 64-bit ELF file names (DT_NEEDED)."""
    (headers,) = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    segments = [struct.unpack_from("<IIQQQQ", data, headers + size * number) for number in range(count)]
    for kind, _flags, offset, _address, _physical, length in segments:
        if kind == 2:
            rows = list(struct.iter_unpack("<qQ", data[offset : offset + length - length % 16]))
            table = next(value for tag, value in rows if tag == 5)
            base = next(item for item in segments if item[0] == 1 and item[3] <= table < item[3] + item[5])
            strings = table - base[3] + base[2]
            for tag, value in rows:
                if tag == 1:
                    yield data[strings + value : data.index(b"\0", strings + value)].decode()


def test_links_lead_to_files_of_the_image(archive: Archive) -> None:
    entries = files(archive)
    broken = []
    for name, (info, _data) in entries.items():
        if info.issym():
            target = os.path.normpath(os.path.join("/", os.path.dirname(name), info.linkname)).lstrip("/")
            first, _slash, rest = target.partition("/")
            target = f"usr/{first}/{rest}" if first in ("bin", "sbin", "lib", "lib64") and rest else target
            broken += [] if target in entries else [f"{name} -> {info.linkname}"]
    assert broken == []


def test_image_has_the_bundle_and_an_sbom_of_all(archive: Archive) -> None:
    entries = files(archive)
    listed = entries["opt/kubenode/SHA256SUMS"][1].decode().splitlines()
    assert {f"opt/kubenode/{line.split('  ')[1]}" for line in listed} <= set(entries)
    text = entries["opt/kubenode/image.cdx.json"][1].decode()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    described = {item["name"]: item for item in json.loads(text)["components"]}
    packages = {name.rpartition("/")[2] for name in entries if name.startswith("var/lib/dpkg/status.d/")}
    packages.discard("status.d")
    pins = re.findall(
        rf"^{archive.config['architecture']} (\S+) \S+ ([0-9a-f]{{64}})$",
        images.pins(),
        re.MULTILINE,
    )
    assert packages == {name for name, _digest in pins}
    digests = {name: item["hashes"][0]["content"] for name, item in described.items() if name in packages}
    assert digests == dict(pins)
    assert {"h11", "PyYAML"} <= set(described)
    assert all(f"usr/share/doc/{name}/copyright" in entries or f"usr/share/doc/{name}" in entries for name in packages)


def test_every_module_of_the_agent_can_be_imported(built: dict[str, Path], tmp_path: Path) -> None:
    """The image's Python has what the agent imports anywhere, also inside of functions."""
    entries = files(Archive(built["amd64"]))
    for name, (info, data) in sorted(entries.items()):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if info.issym():
            path.symlink_to(info.linkname)
        elif info.isfile():
            path.write_bytes(data)
            path.chmod(0o755)
    sources = [data.decode() for name, (_info, data) in entries.items() if re.match(r"opt/kubenode/lib/.*\.py$", name)]
    words = {word for text in sources for word in re.findall(r"^ *(?:import|from) ([a-z_][\w.]*)", text, re.MULTILINE)}
    known = sorted(word for word in words if word.partition(".")[0] in sys.stdlib_module_names)
    script = "import importlib, sys\nfor name in sys.argv[1:]: importlib.import_module(name)"
    library = tmp_path / "usr/lib/x86_64-linux-gnu"
    loader = [library / "ld-linux-x86-64.so.2", "--library-path", library, tmp_path / "usr/bin/python3.13", "-IS", "-c"]
    done = subprocess.run(
        [*loader, script, *known],
        env={"PYTHONHOME": str(tmp_path / "usr")},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert {"sqlite3", "ssl", "json", "ctypes", "subprocess"} <= set(known)


def test_both_architectures_have_the_same_agent(built: dict[str, Path]) -> None:
    one, other = ({name: data for name, (_info, data) in files(Archive(built[name])).items()} for name in ARCHITECTURES)
    differing = {name for name in one if name.startswith("opt/") and one[name] != other.get(name)}
    assert differing == {"opt/kubenode/image.cdx.json"}
    compiled = {name for name in one if name.endswith(".pyc")}
    assert compiled == {name for name in other if name.endswith(".pyc")}
    assert len(compiled) > 300


def test_archive_is_an_oci_layout_that_docker_reads(archive: Archive) -> None:
    assert json.loads(archive.files["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    (older,) = json.loads(archive.files["manifest.json"])
    assert older["RepoTags"] == [archive.name]
    assert json.loads(archive.files[older["Config"]]) == archive.config
    assert len(older["Layers"]) == len(archive.config["rootfs"]["diff_ids"]) == 2
    assert archive.descriptor["platform"] == {"architecture": archive.config["architecture"], "os": "linux"}


def test_snapshot_replaces_all_archives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "agent/image"))
    debian: Any = importlib.import_module("debian")
    monkeypatch.setenv(debian.SNAPSHOT, "20261124T000000Z")
    assert [(source.uri.split("/archive/")[1], source.suite) for source in debian.sources()] == [
        ("debian/20261124T000000Z", "trixie"),
        ("debian/20261124T000000Z", "trixie-updates"),
        ("debian-security/20261124T000000Z", "trixie-security"),
    ]


def test_pin_without_a_digest_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "agent/image"))
    debian: Any = importlib.import_module("debian")
    monkeypatch.setattr(debian, "PINS", tmp_path / "debian.txt")
    (tmp_path / "debian.txt").write_text("amd64 libc6 2.41\n")
    with pytest.raises(debian.PackageError, match=re.escape("'amd64 libc6 2.41', expected 'ARCHITECTURE NAME VERSION")):
        debian.pins()
