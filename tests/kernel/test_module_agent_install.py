# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Releases of the agent: unpacked aside, checked before use, then proven or rolled back, whatever interrupts a run."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kernel.modules import ModuleError
from support.agent.bundles import Member, manifest, packed
from support.agent.releases import GOOD, UNFIT, Node


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def proven(node: Node, *arguments: str) -> None:
    node.install(*arguments)
    node.run(state="proven")


def test_changes_need_reload_or_restart_of_the_agent(node: Node) -> None:
    first = node.install("a", "one")
    assert (first["needs"], first["former"], first["changed"]) == ("restart", "", True)
    assert node.install("a", "one")["needs"] == "restart", "nobody has said yet that it works"
    assert node.run(state="proven")["changed"]
    again = node.install("a", "one")
    assert (again["needs"], again["changed"], again["lines"]) == ("nothing", False, [])
    assert node.install("a", "two")["needs"] == "reload"
    assert node.install("a", "two")["needs"] == "restart", "an earlier run may have ended before it reloaded"
    node.run(state="proven")
    assert node.install("a", "two", "another unit")["needs"] == "restart"
    assert node.install("b", "two", "another unit", check=True)["lines"][:2] == [
        "unpack release b",
        "switch to release b",
    ]
    assert node.state() == ("a", "two", "another unit")


def test_unfit_release_or_configuration_changes_nothing(node: Node) -> None:
    proven(node, "a", "one")
    with pytest.raises(ModuleError, match=rf"^the agent cannot work here: FAIL  no such thing: {node.config}$"):
        node.install("b", "two", "another unit", UNFIT)
    assert node.state() == ("a", "one", "unit")
    assert node.install("a", "one")["changed"] is False


def test_check_beside_kube_proxy_accepts_its_process(node: Node) -> None:
    program = "import sys\nif '--beside-kube-proxy' not in sys.argv:\n    sys.exit('FAIL  kube-proxy is running')\n"
    with pytest.raises(ModuleError, match="the agent cannot work here: FAIL  kube-proxy is running"):
        node.install("a", "one", program=program)
    assert node.install("a", "one", program=program, beside_kube_proxy=True)["needs"] == "restart"


def test_role_refuses_a_node_with_the_package(node: Node, tmp_path: Path) -> None:
    package = tmp_path / "kubenode-agent"
    package.mkdir()
    refusal = rf"^{package} exists: the package kubenode-agent is installed on this node\. .*; nothing was changed$"
    for check in (True, False):
        with pytest.raises(ModuleError, match=refusal):
            node.install("a", "one", package=str(package), check=check)
    assert not node.directory.exists()
    package.rmdir()
    assert node.install("a", "one", package=str(package))["changed"]


def test_rollback_after_many_attempts_restores_last_proven(node: Node) -> None:
    proven(node, "a", "one", "unit")
    node.install("b", "two", "unit")
    assert node.install("c", "two", "another unit")["former"] == "a"
    foreseen = node.run(state="former", check=True)
    assert node.state() == ("c", "two", "another unit")
    back = node.run(state="former")
    assert {key: back[key] for key in ("changed", "lines", "diff")} == {
        key: foreseen[key] for key in ("changed", "lines", "diff")
    }
    assert (back["release"], back["needs"]) == ("a", "restart")
    assert node.state() == ("a", "one", "unit")
    assert node.run(state="former")["changed"] is False


def test_rollback_does_not_check_the_former_release(node: Node) -> None:
    proven(node, "a", "one")
    node.install("b", "one")
    (node.directory / "releases/a/bin/kubenode").write_text(UNFIT)
    node.run(state="former")
    assert node.state()[0] == "a"


def test_rollback_without_a_former_release_is_refused(node: Node) -> None:
    node.install("a", "one")
    with pytest.raises(ModuleError, match=r"^there is no release to go back to: .* names ''; nothing was changed$"):
        node.run(state="former")
    assert node.state() == ("a", "one", "unit")


def test_old_releases_are_removed_when_the_new_is_proven(node: Node) -> None:
    for digest in "abcd":
        node.install(digest, "one")
        assert digest == "a" or len(node.releases()) > 1
        node.run(state="proven")
        assert node.install(digest, "one")["changed"] is False
    assert node.releases() == {"c", "d"}


def test_read_only_disk_changes_nothing(node: Node) -> None:
    proven(node, "a", "one")
    units = node.unit.parent
    subprocess.run(["mount", "--bind", units, units], check=True)
    subprocess.run(["mount", "-o", "remount,ro,bind", units], check=True)
    try:
        with pytest.raises(ModuleError, match=r"Read-only file system.*; files and release are as they were$"):
            node.install("b", "two", "another unit")
    finally:
        subprocess.run(["umount", units], check=True)
    assert node.state() == ("a", "one", "unit")
    assert node.install("a", "one")["changed"] is False


@contextlib.contextmanager
def sealed(path: Path) -> Iterator[None]:
    """Make a directory, or a file, read-only and not replaceable."""
    subprocess.run(["mount", "--bind", path, path], check=True)
    subprocess.run(["mount", "-o", "remount,ro,bind", path], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", path], check=True)


def all_of(node: Node) -> dict[str, str | bytes]:
    """Return every file and link of the node with its content."""
    paths = [path for part in ("opt", "etc", "units", "bin") for path in (node.directory.parent / part).rglob("*")]
    return {
        str(path): os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else ""
        for path in paths
    }


PLACES = ("opt/releases", "opt", "etc", "units", "bin")


@pytest.mark.parametrize(
    ("state", "places"), [("present", PLACES), ("former", PLACES[1:4]), ("absent", PLACES[1:]), ("proven", ("opt",))]
)
def test_failed_write_restores_all_files(node: Node, state: str, places: tuple[str, ...]) -> None:
    """Each path in turn is not writable, which check mode reports; afterwards the same task succeeds."""
    proven(node, "a", "one")
    if state in ("former", "proven"):
        node.install("b", "two", "another unit")
    command = node.directory.parent / "bin/kubenode"
    before = all_of(node)
    for path in places:
        if path == "bin" and state == "present":
            command.unlink()
            before = all_of(node)
        for check in (True, False):
            with sealed(node.directory.parent / path), pytest.raises(ModuleError) as error:
                turn(node, state, check=check)
            assert re.search(r"Read-only file system: '\S+'.* as (they|it) (were|was)$", str(error.value)), path
        assert all_of(node) == before, path
    assert turn(node, state)["changed"]


def turn(node: Node, state: str, *, check: bool = False) -> dict[str, Any]:
    if state == "present":
        return node.install("c", "three", "a third unit", check=check)
    return node.run(
        state=state, files={str(node.config): None, str(node.unit): None} if state == "absent" else {}, check=check
    )


@pytest.mark.parametrize("manifests", [[], ["theirs.yaml"]])
def test_absent_leaves_only_foreign_files(node: Node, manifests: list[str]) -> None:
    proven(node, "a", "one")
    directory = node.config.parent / "manifests"
    directory.mkdir()
    for name in manifests:
        (directory / name).touch()
    files = {str(node.config): None, str(node.unit): None}
    foreseen = node.run(state="absent", files=files, check=True)
    removed = node.run(state="absent", files=files)
    assert removed["changed"]
    assert removed["lines"] == foreseen["lines"]
    assert not node.directory.exists()
    assert not node.config.exists()
    assert node.config.parent.exists() == bool(manifests)
    assert node.run(state="absent", files=files)["changed"] is False


def test_foreign_record_is_named(node: Node) -> None:
    proven(node, "a", "one")
    (node.directory / "unproven.json").write_text("{}")
    with pytest.raises(ModuleError, match=r"unproven\.json is not as this module wrote it, expected release and files"):
        node.install("b", "one")
    assert node.state()[0] == "a"


def test_files_keep_any_bytes_and_line_ends(node: Node) -> None:
    proven(node, "a", "one\r\ntwo\r\n")
    assert node.install("a", "one\r\ntwo\r\n")["changed"] is False
    node.unit.write_bytes(b"caf\xe9\n")
    node.install("b", "one")
    node.run(state="former")
    assert (node.config.read_bytes(), node.unit.read_bytes()) == (b"one\r\ntwo\r\n", b"caf\xe9\n")


def test_unremovable_release_is_named(node: Node) -> None:
    proven(node, "a", "one")
    proven(node, "b", "one")
    node.install("c", "one")
    with sealed(node.directory / "releases/a"):
        for _attempt in range(2):
            with pytest.raises(
                ModuleError, match=r"^release a cannot be removed: .*; release c is proven and goes on$"
            ):
                node.run(state="proven")
    assert node.run(state="proven")["lines"] == ["remove release a"]


@pytest.mark.parametrize("kept", [5, 60], ids=["its head", "its middle"])
def test_truncated_bundle_changes_nothing(node: Node, kept: int) -> None:
    proven(node, "a", "one")
    with pytest.raises(
        ModuleError, match=r"^bundle for \S+/releases/b: cannot be unpacked: .*, the current release goes on$"
    ):
        node.install("b", "two", cut=kept)
    assert (node.state()[:2], node.releases()) == (("a", "one"), {"a"})


FILES = {"bin/kubenode": GOOD.encode(), "lib/kubenode/__init__.py": b"", "lib/kubenode/a.py": b"A = 1\n"}
EVIL = b"import os\n"
EVIL_DIGEST, A_DIGEST = (hashlib.sha256(data).hexdigest() for data in (EVIL, FILES["lib/kubenode/a.py"]))
PLAIN = [Member(name, data) for name, data in {**FILES, "SHA256SUMS": manifest(FILES)}.items()]
WITHOUT_A = [member for member in PLAIN if member.name != "lib/kubenode/a.py"]
NOT_VERIFIED: dict[str, tuple[list[Member], str]] = {
    "tampered": (
        [*WITHOUT_A, Member("lib/kubenode/a.py", EVIL)],
        rf"lib/kubenode/a\.py has SHA-256 {EVIL_DIGEST}, expected {A_DIGEST} \(SHA256SUMS\)",
    ),
    "missing": (WITHOUT_A, rf"lib/kubenode/a\.py is missing, expected SHA-256 {A_DIGEST} \(SHA256SUMS\)"),
    "additional": (
        [*PLAIN, Member("lib/sitecustomize.py", EVIL)],
        r"lib/sitecustomize\.py has no line in SHA256SUMS, expected only files that have one",
    ),
    "additional, compiled": (
        [*PLAIN, Member("lib/kubenode/__pycache__/a.pyc", EVIL)],
        r"lib/kubenode/__pycache__ is in a bundle, expected no compiled files",
    ),
    "symbolic link": (
        [*WITHOUT_A, Member("lib/kubenode/a.py", link="/etc/passwd")],
        r"lib/kubenode/a\.py is not a plain file or directory",
    ),
    "hard link": (
        [*PLAIN, Member("lib/b.py", link="bin/kubenode", hard=True)],
        r"lib/b\.py is not a plain file or directory",
    ),
    "parent directory": (
        [*PLAIN, Member("lib/../../../evil", EVIL)],
        r"'lib/\.\./\.\./\.\./evil' is not a relative path inside",
    ),
    "leading parent": ([*PLAIN, Member("../evil", EVIL)], r"'\.\./evil' is not a relative path inside of the release"),
    "absolute": ([*PLAIN, Member("/tmp/evil", EVIL)], r"'/tmp/evil' is not a relative path inside of the release"),
    "twice": ([*PLAIN, Member("bin/kubenode", EVIL)], r"bin/kubenode is in it twice"),
    "no manifest": (PLAIN[:-1], r"SHA256SUMS is missing, expected one line 'SHA-256  NAME' for each file"),
    "broken manifest": (
        [*PLAIN[:-1], Member("SHA256SUMS", b"hello\n")],
        r"SHA256SUMS line 1 is 'hello', expected 'SHA-256  NAME'",
    ),
}


@pytest.mark.parametrize("name", NOT_VERIFIED)
def test_bundle_with_a_wrong_digest_is_refused(node: Node, name: str) -> None:
    members, reason = NOT_VERIFIED[name]
    proven(node, "a", "one")
    before = all_of(node)
    with pytest.raises(
        ModuleError, match=rf"^bundle for \S+/releases/b: {reason}.*; nothing was changed, the current release"
    ):
        node.install_bundle("b", packed(members), "two", "another unit")
    assert all_of(node) == before


def test_bundle_changed_in_transfer_is_refused(node: Node) -> None:
    proven(node, "a", "one")
    before, data = all_of(node), packed(PLAIN)
    actual, expected = hashlib.sha256(data + b"x").hexdigest(), hashlib.sha256(data).hexdigest()
    with pytest.raises(
        ModuleError, match=rf"b\.tar\.gz has SHA-256 {actual}, expected {expected}: it was changed or cut on its way"
    ):
        node.install_bundle("b", data + b"x", "two", sha256=expected)
    with pytest.raises(ModuleError, match=r"missing parameter.* 'bundle': sha256"):
        node.run(state="present", digest="b", bundle="/nowhere")
    assert all_of(node) == before


def test_damaged_release_is_unpacked_again(node: Node) -> None:
    data = packed(PLAIN)
    node.install_bundle("a", data, "one")
    node.run(state="proven")
    path = node.directory / "releases/a/lib/kubenode/a.py"
    path.write_bytes(EVIL)
    damaged = f"lib/kubenode/a.py has SHA-256 {EVIL_DIGEST}, expected {A_DIGEST} (SHA256SUMS)"
    foreseen = node.install_bundle("a", data, "one", check=True)
    assert foreseen["lines"][0] == f"unpack release a again: {damaged}"
    assert path.read_bytes() == EVIL
    done = node.install_bundle("a", data, "one")
    assert (done["lines"], done["needs"]) == (foreseen["lines"], "restart")
    assert path.read_bytes() == FILES["lib/kubenode/a.py"]
    node.run(state="proven")
    assert node.install_bundle("a", data, "one")["changed"] is False
    assert node.releases() == {"a"}


def test_release_is_readable_with_any_umask(node: Node) -> None:
    umask = os.umask(0o077)
    try:
        node.install("a", "one")
    finally:
        os.umask(umask)
    release = node.directory / "releases/a"
    assert {oct(path.stat().st_mode & 0o777) for path in [release, *release.rglob("*")] if path.is_dir()} == {"0o755"}
    assert {oct(path.stat().st_mode & 0o777) for path in (release / "lib").rglob("*") if path.is_file()} == {"0o644"}
