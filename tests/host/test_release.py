# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`make release` in a clone of its own: what it refuses, what it makes, and what SECURITY.md's commands say of that.

The keys are thrown away.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
from support.containers import images
from support.source_copy import ROOT, build, copy_source

BIN = Path(sys.executable).parent
VERSION = "0.1.0"


class Release(NamedTuple):
    """A release: the clone, the directory of its files, and the variables with which its programs run."""

    clone: Path
    files: Path
    variables: Mapping[str, str]

    def run(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            words, cwd=self.clone, env=self.variables, check=False, capture_output=True, text=True, umask=0o022
        )

    def make(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.run(sys.executable, "tests/tools/release.py", *words)

    def done(self, *words: str | Path) -> str:
        ended = self.run(*words)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    """Return a clone in which the version is prepared, everything is built, and the tests are recorded."""
    directory = tmp_path_factory.mktemp("release")
    clone = copy_source(directory / "clone")
    home = directory / "home"
    (home / ".gnupg").mkdir(parents=True, mode=0o700)
    made = Release(
        clone,
        clone / f".cache/release/{VERSION}",
        {
            **os.environ,
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "HOME": str(home),
            "GNUPGHOME": str(home / ".gnupg"),
            "ANSIBLE_CONFIG": str(clone / "ansible.cfg"),
            "ANSIBLE_HOME": str(clone / ".cache/ansible"),
        },
    )
    made.done("git", "init", "--quiet", "--initial-branch", "main")
    for name, value in (("user.name", "Somebody"), ("user.email", "somebody@example.com")):
        made.done("git", "config", name, value)
    made.done("antsibull-changelog", "release", "--version", VERSION, "--date", "2026-11-24")
    commit(made)
    build(clone)
    made.done(sys.executable, "agent/packages.py", ".cache/dist")
    (clone / ".cache/image").symlink_to(ROOT / ".cache/image")
    (ROOT / ".cache/image").mkdir(exist_ok=True)
    built = images.build(clone, ".cache/dist")
    assert built.returncode == 0, built.stderr
    made.done("tests/tools/site", f".cache/dist/kubenode-ipvs-{VERSION}.tar.gz", ".cache/docs")
    record(made)
    made.done("gpg", "--batch", "--passphrase", "", "--quick-generate-key", "thrown@example.com", "ed25519", "sign")
    made.done("minisign", "-G", "-W", "-p", home / "kubenode.pub", "-s", home / "kubenode.key")
    made.done("gpg", "--output", home / "kubenode.gpg", "--export", "thrown@example.com")
    ended = made.make(VERSION, "--gpg", "thrown@example.com", "--minisign", str(home / "kubenode.key"))
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return made


def commit(made: Release) -> None:
    made.done("git", "add", "--all")
    made.done("git", "commit", "--quiet", "--message", "all")


def change(made: Release) -> None:
    """Change a file that is committed."""
    with (made.clone / "README.md").open("a") as page:
        page.write("\n")


def record(made: Release) -> None:
    """Record the tests as successful, as tests/tools/whole.py does after them."""
    (made.clone / ".cache/results").mkdir(parents=True, exist_ok=True)
    program = "import sys; sys.path[:0] = ['tests/tools']; import whole; whole.record([])"
    made.done(sys.executable, "-c", program)


def verify(made: Release) -> subprocess.CompletedProcess[str]:
    """Run SECURITY.md's commands for a release: those of the blocks that name its directory."""
    page = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    blocks = [block for block in re.findall(r"(?:^    .+\n)+", page, flags=re.MULTILINE) if "$release" in block]
    assert len(blocks) == 2
    home = made.variables["HOME"]
    setting = f"set -euo pipefail\nrelease={made.files} keys={home} collections={home}/collections version={VERSION}\n"
    return made.run("bash", "-c", setting + re.sub("(?m)^    ", "", "".join(blocks)))


def test_release_has_every_file_and_its_digest(release: Release) -> None:
    names = {path.name for path in release.files.iterdir()}
    assert names == {
        "CHANGELOG.md",
        "SHA256SUMS",
        "SHA256SUMS.minisig",
        f"kubenode-agent-{VERSION}-amd64.oci.tar",
        f"kubenode-agent-{VERSION}-arm64.oci.tar",
        f"kubenode-agent-{VERSION}.cdx.json",
        f"kubenode-agent-{VERSION}.noarch.rpm",
        f"kubenode-agent-{VERSION}.tar.gz",
        f"kubenode-agent_{VERSION}_all.deb",
        f"kubenode-ipvs-{VERSION}.MANIFEST.json.asc",
        f"kubenode-ipvs-{VERSION}.cdx.json",
        f"kubenode-ipvs-{VERSION}.tar.gz",
        f"kubenode-ipvs-docs-{VERSION}.tar.gz",
    }
    listed = {line.split("  ")[1] for line in (release.files / "SHA256SUMS").read_text().splitlines()}
    assert listed == names - {"SHA256SUMS", "SHA256SUMS.minisig"}
    assert f'id="v{VERSION.replace(".", "-")}"' in (release.files / "CHANGELOG.md").read_text()


def test_second_release_of_the_commit_has_the_same_bytes(release: Release) -> None:
    before = (release.files / "SHA256SUMS").read_text()
    signed = f"kubenode-ipvs-{VERSION}.MANIFEST.json.asc"
    again = release.make(VERSION)
    assert again.returncode == 0, again.stderr
    after = (release.files / "SHA256SUMS").read_text()
    assert after.splitlines() == [line for line in before.splitlines() if not line.endswith(signed)]
    home = Path(release.variables["HOME"])
    release.done(
        sys.executable,
        "tests/tools/release.py",
        VERSION,
        "--gpg",
        "thrown@example.com",
        "--minisign",
        str(home / "kubenode.key"),
    )


def test_security_page_commands_confirm_the_release(release: Release) -> None:
    done = verify(release)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Signature and comment signature verified" in done.stdout
    assert "Successfully verified that checksums for 'kubenode.ipvs:0.1.0' are" in done.stdout


@pytest.mark.parametrize("name", [f"kubenode-agent-{VERSION}.tar.gz", "SHA256SUMS", f"kubenode-ipvs-{VERSION}.tar.gz"])
def test_security_page_commands_show_a_changed_file(release: Release, name: str) -> None:
    path = release.files / name
    before = path.read_bytes()
    try:
        path.write_bytes(before + b"\n")
        assert verify(release).returncode != 0
    finally:
        path.write_bytes(before)


def test_release_is_refused_with_all_reasons_at_once(release: Release) -> None:
    change(release)
    release.done("git", "tag", "v0.2.0")
    try:
        refused = release.make("0.2.0")
    finally:
        release.done("git", "checkout", "--quiet", "README.md")
        release.done("git", "tag", "--delete", "v0.2.0")
    assert refused.returncode == 1
    assert [line.removeprefix("release: ") for line in refused.stderr.splitlines()] == [
        "galaxy.yml has version 0.1.0, expected 0.2.0",
        "agent/src/kubenode/_version.py has version 0.1.0, expected 0.2.0",
        "changelogs/changelog.yaml has no release 0.2.0; antsibull-changelog release writes it",
        "1 files are not committed, README.md first; commit them",
        "the tag v0.2.0 exists: this version is released; choose a later one",
        "nothing is made",
    ]


def test_check_ends_after_the_reasons(release: Release) -> None:
    before = (release.files / "SHA256SUMS").stat().st_mtime_ns
    assert release.make(VERSION, "--check").returncode == 0
    assert release.make("0.2.0", "--check").returncode == 1
    assert (release.files / "SHA256SUMS").stat().st_mtime_ns == before


def test_release_of_an_untested_commit_is_refused(release: Release) -> None:
    tested = release.clone / ".cache/results/tested.json"
    before = tested.read_text()
    tested.write_text(json.dumps({"commit": "0" * 40}))
    try:
        refused = release.make(VERSION)
    finally:
        tested.write_text(before)
    assert re.search(
        r"no successful `make test` of commit \w{12} is recorded in \.cache/results/tested.json", refused.stderr
    )
    assert refused.returncode == 1


def test_changed_files_record_no_tested_commit(release: Release) -> None:
    tested = release.clone / ".cache/results/tested.json"
    before = tested.read_text()
    tested.unlink()
    change(release)
    try:
        record(release)
        assert not tested.exists()
    finally:
        release.done("git", "checkout", "--quiet", "README.md")
        tested.write_text(before)


def test_dry_run_prints_the_reasons_and_goes_on(release: Release) -> None:
    tested = release.clone / ".cache/results/tested.json"
    before = tested.read_text()
    tested.unlink()
    try:
        done = release.make(VERSION, "--dry-run")
    finally:
        tested.write_text(before)
    assert done.returncode == 0
    assert "no successful `make test`" in done.stderr
    assert f".cache/release/{VERSION} has {VERSION} (a dry run); next:" in done.stdout


@pytest.mark.parametrize("version", ["", "1", "1.2", "v1.2.3", "1.2.3+b", "01.2.3"])
def test_version_must_be_semantic(release: Release, version: str) -> None:
    refused = release.make(version)
    assert refused.stderr.startswith(f"release: VERSION is '{version}', expected a semantic version such as 0.1.0")
    assert refused.returncode == 1
