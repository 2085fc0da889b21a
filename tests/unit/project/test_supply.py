# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Artifact and bundle: reproducible, described by SBOMs, verifiable by the commands of SECURITY.md."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import time
from email.parser import BytesHeaderParser
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from support.source_copy import ROOT, build, copy_source

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

import matrix

SBOM = "sbom.cdx.json"
BUNDLE = "roles/agent/files/kubenode-agent.tar.gz"


class Built(NamedTuple):
    """A copy of the source, with the bundle and the artifact that the test built in it."""

    source: Path
    bundle: bytes
    artifact: bytes


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    source = copy_source(tmp_path_factory.mktemp("one"))
    return Built(source, *build(source))


def files(archive: bytes) -> dict[str, bytes]:
    """Return the plain files of an archive."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        return {
            member.name: (tar.extractfile(member) or io.BytesIO()).read()
            for member in tar.getmembers()
            if member.isfile()
        }


def test_artifact_bytes_depend_on_the_source_only(built: Built, tmp_path: Path) -> None:
    """The second build differs in directory, time, file order, owner, umask, locale, time zone and hash seed."""
    source = copy_source(tmp_path / "another directory", backwards=True)
    long_ago = time.time() - 4e8
    for path in source.rglob("*"):
        if not path.is_symlink():
            os.utime(path, (long_ago, long_ago))
            os.chown(path, *((65534, 65534) if os.getuid() == 0 else (-1, -1)))
    other = build(
        source, umask=0o077, LC_ALL="C.UTF-8", TZ="Asia/Tokyo", PYTHONHASHSEED="7", USER="somebody", HOME=str(tmp_path)
    )
    assert hashlib.sha256(other[0]).hexdigest() == hashlib.sha256(built.bundle).hexdigest()
    assert hashlib.sha256(other[1]).hexdigest() == hashlib.sha256(built.artifact).hexdigest()


def test_artifact_has_no_time_owner_or_mode_of_the_builder(built: Built) -> None:
    for archive in (built.artifact, built.bundle):
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            members = tar.getmembers()
        assert {(member.mtime, member.uid, member.gid, member.uname, member.gname) for member in members} == {
            (315532800, 0, 0, "", "")
        }
        assert {member.mode for member in members} <= {0o644, 0o755}
        assert {member.type for member in members} <= {tarfile.REGTYPE, tarfile.DIRTYPE}


def test_bundle_manifest_lists_exactly_its_files(built: Built) -> None:
    content = files(built.bundle)
    lines = content.pop("SHA256SUMS").decode().splitlines()
    assert lines == [f"{hashlib.sha256(data).hexdigest()}  {name}" for name, data in sorted(content.items())]


def test_sboms_are_valid_cyclonedx(built: Built) -> None:
    for archive in (built.artifact, built.bundle):
        text = files(archive)[SBOM].decode()
        assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
        assert "timestamp" not in text


def test_bundle_sbom_names_exactly_what_is_in_it(built: Built) -> None:
    content = files(built.bundle)
    listed: dict[str, Any] = {component["name"]: component for component in json.loads(content[SBOM])["components"]}
    metadata = [
        BytesHeaderParser().parsebytes(data) for name, data in content.items() if name.endswith(".dist-info/METADATA")
    ]
    assert {name: component["version"] for name, component in listed.items()} == {
        head["Name"]: head["Version"] for head in metadata
    }
    pins = dict(
        re.findall(
            r"^([\w.-]+)==\S+ --hash=sha256:([0-9a-f]{64})$", (ROOT / "agent/bundle.txt").read_text(), re.MULTILINE
        )
    )
    assert {name: component["hashes"][0]["content"] for name, component in listed.items()} == pins
    assert all(component["licenses"] for component in listed.values())
    # Each directory and file below lib is the agent's own, or belongs to a package in the SBOM.
    wheels = {name.split("/")[1].split("-")[0].lower() for name in content if ".dist-info/" in name}
    assert wheels == {name.lower().replace("-", "_") for name in listed}


def test_artifact_sbom_names_the_bundle_that_is_in_it(built: Built) -> None:
    content = files(built.artifact)
    assert content[BUNDLE] == built.bundle
    described = json.loads(content[SBOM])
    listed = {component["name"]: component for component in described["components"]}
    inner = json.loads(files(built.bundle)[SBOM])
    assert set(listed) == {"kubenode-agent"} | {component["name"] for component in inner["components"]}
    assert listed["kubenode-agent"]["hashes"] == [
        {"alg": "SHA-256", "content": hashlib.sha256(built.bundle).hexdigest()}
    ]
    assert (
        described["metadata"]["component"]["version"]
        == json.loads(content["MANIFEST.json"])["collection_info"]["version"]
    )


@pytest.fixture(scope="module")
def installed(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a collections path with the artifact installed."""
    directory = tmp_path_factory.mktemp("installed")
    artifact = directory / "kubenode-ipvs.tar.gz"
    artifact.write_bytes(built.artifact)
    galaxy = Path(sys.executable).with_name("ansible-galaxy")
    words = [galaxy, "collection", "install", "--offline", "--collections-path", directory, artifact]
    # make exports this clone's ansible.cfg, whose path has the collection: Ansible would install nothing.
    variables = {name: value for name, value in os.environ.items() if name != "ANSIBLE_CONFIG"} | {
        "ANSIBLE_HOME": str(directory)
    }
    done = subprocess.run(words, cwd=directory, check=False, capture_output=True, text=True, env=variables)
    assert done.returncode == 0, done.stdout + done.stderr
    return directory


def page_commands() -> list[str]:
    """Return the command blocks of SECURITY.md."""
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    blocks = re.findall(r"(?:^    .+\n)+", text, flags=re.MULTILINE)
    mine = [block for block in blocks if "$release" not in block]  # those are for tests/host/test_release.py
    return ["\n".join(line[4:] for line in block.splitlines()) for block in mine]


def run_page(built: Built, installed: Path, directory: Path, given: bytes) -> subprocess.CompletedProcess[str]:
    """Run all commands of SECURITY.md in a clone, with ``given`` as the artifact that a user downloaded."""
    release = directory / "release"
    release.mkdir()
    subprocess.run(["tar", "-xz", "-C", release], input=built.bundle, check=True)
    (directory / "given.tar.gz").write_bytes(given)
    (directory / "clone/.cache").mkdir(parents=True)
    (directory / "clone/.cache/dist").symlink_to(built.source / ".cache/dist")
    # The fixture built the artifact, with the command that make runs.
    prologue = f"set -euo pipefail\nmake() {{ test \"$*\" = 'DEPS= artifact'; }}\ngiven={directory}/given.tar.gz\n"
    script = prologue + "\n".join(page_commands()).replace("/opt/kubenode/current", str(release))
    variables = {
        **os.environ,
        "ANSIBLE_COLLECTIONS_PATH": str(installed),
        "ANSIBLE_HOME": str(directory),
        "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
    }
    variables["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-c", script], cwd=directory / "clone", env=variables, check=False, capture_output=True, text=True
    )


def test_security_page_commands_confirm_a_good_artifact(built: Built, installed: Path, tmp_path: Path) -> None:
    done = run_page(built, installed, tmp_path, built.artifact)
    assert done.returncode == 0, done.stdout + done.stderr
    digests = re.findall(r"^[0-9a-f]{64}", done.stdout, flags=re.MULTILINE)
    assert len(digests) == 4
    assert (digests[0], digests[2]) == (digests[1], digests[3])
    assert '"bomFormat": "CycloneDX"' in done.stdout


def test_security_page_commands_show_a_tampered_installation(built: Built, installed: Path, tmp_path: Path) -> None:
    path = installed / "ansible_collections/kubenode/ipvs/plugins/modules/node_check.py"
    before = path.read_bytes()
    try:
        path.write_bytes(before + b"\n")
        done = run_page(built, installed, tmp_path, built.artifact)
    finally:
        path.write_bytes(before)
    assert done.returncode != 0 or "modified" in done.stdout
    assert "plugins/modules/node_check.py" in done.stdout + done.stderr


def pinned(name: str) -> dict[str, list[str]]:
    """Return the pins of a requirements file that pip reads: "NAME==VERSION" to digests."""
    lines = re.sub(r" \\\n *", " ", (ROOT / name).read_text(encoding="utf-8")).splitlines()
    versions = {}
    for line in lines:
        if line and not line.startswith("#"):
            versions[line.split(" ")[0]] = re.findall(r"--hash=sha256:([0-9a-f]{64})(?= |$)", line)
    return versions


INSTALLED = [f"requirements/{name}.txt" for name in ("constraints", "bench", "importer", "pin")] + ["agent/bundle.txt"]
INSTALLED += sorted(str(path.relative_to(ROOT)) for path in (ROOT / "requirements/matrix").glob("*.txt"))


@pytest.mark.parametrize("name", INSTALLED)
def test_every_installed_package_has_version_and_digest(name: str) -> None:
    """`tests/tools/pin python3` writes these files."""
    pins = pinned(name)
    assert pins
    assert [
        pin for pin, digests in pins.items() if not digests or not re.fullmatch(r"[\w.-]+==(\d+!)?[\w.]+", pin)
    ] == []


def test_matrix_has_a_file_for_each_ansible_core() -> None:
    assert {Path(name).stem for name in INSTALLED if "/matrix/" in name} == {core.version for core in matrix.CORES}
    for core in matrix.CORES:
        name = f"requirements/matrix/{core.version}.txt"
        assert f"ansible-core=={core.version}" in pinned(name)
        assert (ROOT / name).read_text().startswith(f"# ansible-core {core.version}, Python 3.{core.oldest} or newer, ")


def test_direct_requirements_are_installed_in_their_version() -> None:
    def plain(pin: str) -> str:
        return re.sub(r"[-_.]+", "-", pin.partition("==")[0].lower()) + pin[pin.index("==") :]

    assert set(map(plain, pinned("requirements/dev.txt"))) <= set(map(plain, pinned("requirements/constraints.txt")))


def test_pip_is_told_to_insist_on_digests() -> None:
    for name in (
        "tests/tools/venv",
        "tests/tools/peers",
        "tests/tools/pin",
        "tests/tools/environments.py",
        "agent/bundle.py",
    ):
        assert "--require-hashes" in (ROOT / name).read_text(encoding="utf-8"), name


def test_cached_wheel_with_another_digest_is_refused(tmp_path: Path) -> None:
    text = (ROOT / "agent/bundle.txt").read_text(encoding="utf-8")
    (tmp_path / "agent").mkdir()
    for name in ("bundle.py", "sbom.py"):
        (tmp_path / "agent" / name).write_bytes((ROOT / "agent" / name).read_bytes())
    (tmp_path / "agent/bundle.txt").write_text(
        re.sub(r"(PyYAML\S+ --hash=sha256:)[0-9a-f]{64}", rf"\g<1>{'0' * 64}", text)
    )
    cache = tmp_path / ".cache/bundle"
    cache.mkdir(parents=True)
    version = re.search(r"^PyYAML==(\S+)", text, re.MULTILINE)
    assert version
    wheel = cache / f"pyyaml-{version[1]}-py3-none-any.whl"
    wheel.write_bytes(b"evil")
    program = "import sys; sys.path.insert(0, 'agent'); import bundle; bundle.wheels()"
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=False, capture_output=True, text=True)
    digest = hashlib.sha256(b"evil").hexdigest()
    assert f"{wheel}: SHA-256 is {digest}, expected {'0' * 64}" in done.stderr
