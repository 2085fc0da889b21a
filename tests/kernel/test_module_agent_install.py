# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Releases of the agent: unpacked aside, asked before they are used, proven or taken back, whatever interrupts a run."""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kernel.modules import ModuleError, run

GOOD = "import sys\n"
UNFIT = "import sys\nprint('ok    here')\nprint('FAIL  no such thing: ' + sys.argv[-1])\nsys.exit(1)\n"


class Node:
    """A place for releases with one configuration and one unit."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory / "opt"
        self.config = directory / "etc/config.yaml"
        self.unit = directory / "units/agent.service"
        self.bundles = directory

    def install(
        self, digest: str, config: str, unit: str = "unit", program: str = GOOD, cut: int | None = None, **options: Any
    ) -> dict[str, Any]:
        """Install a release whose command is ``program``; of its bundle, the first ``cut`` bytes are there."""
        bundle = self.bundles / f"{digest}.tar.gz"
        with tarfile.open(bundle, "w:gz") as archive:
            for name, text in (("bin/kubenode", program), ("lib/kubenode/__init__.py", "")):
                member = tarfile.TarInfo(name)
                member.size = len(text)
                archive.addfile(member, io.BytesIO(text.encode()))
        bundle.write_bytes(bundle.read_bytes()[:cut])
        files = {str(self.config): config, str(self.unit): unit}
        return self.run(state="present", digest=digest, bundle=str(bundle), files=files, **options)

    def run(self, **arguments: Any) -> dict[str, Any]:
        places = {"directory": str(self.directory), "command": str(self.directory.parent / "bin/kubenode")}
        return run("agent_install", **places, python=sys.executable, config=str(self.config), **arguments)

    def state(self) -> tuple[str, str, str]:
        """The current release and both files."""
        return os.readlink(self.directory / "current").rpartition("/")[2], self.config.read_text(), self.unit.read_text()

    def releases(self) -> set[str]:
        return set(os.listdir(self.directory / "releases"))


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def proven(node: Node, *arguments: str) -> None:
    node.install(*arguments)
    node.run(state="proven")


def test_what_a_running_agent_needs(node: Node) -> None:
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
    assert node.install("b", "two", "another unit", check=True)["lines"][:2] == ["unpack release b", "switch to release b"]
    assert node.state() == ("a", "two", "another unit")


def test_a_release_or_a_configuration_that_is_unfit_changes_nothing(node: Node) -> None:
    proven(node, "a", "one")
    with pytest.raises(ModuleError, match=rf"^the agent cannot work here: FAIL  no such thing: {node.config}$"):
        node.install("b", "two", "another unit", UNFIT)
    assert node.state() == ("a", "one", "unit")
    assert node.install("a", "one")["changed"] is False


def test_beside_kube_proxy_the_release_is_asked_so(node: Node) -> None:
    program = "import sys\nif '--beside-kube-proxy' not in sys.argv:\n    sys.exit('FAIL  kube-proxy is running')\n"
    with pytest.raises(ModuleError, match="the agent cannot work here: FAIL  kube-proxy is running"):
        node.install("a", "one", program=program)
    assert node.install("a", "one", program=program, beside_kube_proxy=True)["needs"] == "restart"


def test_back_to_what_worked_last_however_many_attempts_there_were(node: Node) -> None:
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


def test_going_back_does_not_ask_the_former_release(node: Node) -> None:
    proven(node, "a", "one")
    node.install("b", "one")
    (node.directory / "releases/a/bin/kubenode").write_text(UNFIT)
    node.run(state="former")
    assert node.state()[0] == "a"


def test_without_a_former_release_going_back_is_refused(node: Node) -> None:
    node.install("a", "one")
    with pytest.raises(ModuleError, match=r"^there is no release to go back to: .* names ''; nothing was changed$"):
        node.run(state="former")
    assert node.state() == ("a", "one", "unit")


def test_old_releases_go_when_the_new_one_works(node: Node) -> None:
    for digest in "abcd":
        node.install(digest, "one")
        assert digest == "a" or len(node.releases()) > 1
        node.run(state="proven")
        assert node.install(digest, "one")["changed"] is False
    assert node.releases() == {"c", "d"}


def test_a_disk_that_cannot_be_written_changes_nothing(node: Node) -> None:
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
def sealed(place: Path) -> Iterator[None]:
    """Have a directory, or a file, read-only, and not to be replaced."""
    subprocess.run(["mount", "--bind", place, place], check=True)
    subprocess.run(["mount", "-o", "remount,ro,bind", place], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", place], check=True)


def all_of(node: Node) -> dict[str, str | bytes]:
    """Every file and link of the node, with what is in it."""
    found = [path for part in ("opt", "etc", "units", "bin") for path in (node.directory.parent / part).rglob("*")]
    return {str(path): os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else "" for path in found}


PLACES = ("opt/releases", "opt", "etc", "units", "bin")


@pytest.mark.parametrize(
    ("state", "places"), [("present", PLACES), ("former", PLACES[1:4]), ("absent", PLACES[1:]), ("proven", ("opt",))]
)
def test_what_cannot_be_written_leaves_everything_as_it_was(node: Node, state: str, places: tuple[str, ...]) -> None:
    """Each place in turn, and check mode says so; afterwards the same task succeeds."""
    proven(node, "a", "one")
    if state in ("former", "proven"):
        node.install("b", "two", "another unit")
    command = node.directory.parent / "bin/kubenode"
    before = all_of(node)
    for place in places:
        if place == "bin" and state == "present":
            command.unlink()
            before = all_of(node)
        for check in (True, False):
            with sealed(node.directory.parent / place), pytest.raises(ModuleError) as error:
                turn(node, state, check=check)
            assert re.search(r"Read-only file system: '\S+'.* as (they|it) (were|was)$", str(error.value)), place
        assert all_of(node) == before, place
    assert turn(node, state)["changed"]


def turn(node: Node, state: str, *, check: bool = False) -> dict[str, Any]:
    if state == "present":
        return node.install("c", "three", "a third unit", check=check)
    return node.run(state=state, files={str(node.config): None, str(node.unit): None} if state == "absent" else {}, check=check)


@pytest.mark.parametrize("manifests", [[], ["theirs.yaml"]])
def test_absent_leaves_nothing_but_what_others_put_there(node: Node, manifests: list[str]) -> None:
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


def test_a_record_that_is_not_ours_is_named(node: Node) -> None:
    proven(node, "a", "one")
    (node.directory / "unproven.json").write_text("{}")
    with pytest.raises(ModuleError, match=r"unproven\.json is not as this module wrote it, expected release and files"):
        node.install("b", "one")
    assert node.state()[0] == "a"


def test_files_may_have_any_bytes_and_ends_of_lines(node: Node) -> None:
    proven(node, "a", "one\r\ntwo\r\n")
    assert node.install("a", "one\r\ntwo\r\n")["changed"] is False
    node.unit.write_bytes(b"caf\xe9\n")
    node.install("b", "one")
    node.run(state="former")
    assert (node.config.read_bytes(), node.unit.read_bytes()) == (b"one\r\ntwo\r\n", b"caf\xe9\n")


def test_a_release_that_cannot_be_removed_is_named(node: Node) -> None:
    proven(node, "a", "one")
    proven(node, "b", "one")
    node.install("c", "one")
    with sealed(node.directory / "releases/a"):
        for _attempt in range(2):
            with pytest.raises(ModuleError, match=r"^release a cannot be removed: .*; release c is proven and goes on$"):
                node.run(state="proven")
    assert node.run(state="proven")["lines"] == ["remove release a"]


@pytest.mark.parametrize("kept", [5, 60], ids=["its head", "its middle"])
def test_a_bundle_that_was_cut_off_changes_nothing(node: Node, kept: int) -> None:
    proven(node, "a", "one")
    with pytest.raises(ModuleError, match=r"^bundle cannot be unpacked in .*; the current release goes on$"):
        node.install("b", "two", cut=kept)
    assert (node.state()[:2], node.releases()) == (("a", "one"), {"a"})
