# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A second clone of the lab, so that the tests never touch the labs of this clone."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "molecule"), str(ROOT / "tests")]

from lab import naming, netns  # noqa: E402
from support.waiting import eventually  # noqa: E402


class Clone(NamedTuple):
    """A clone's lab, and its files and processes on this machine."""

    root: Path

    @property
    def command(self) -> Path:
        return self.root / "molecule/lab/lab"

    @property
    def run_directory(self) -> Path:
        return self.root / ".cache/lab/run"

    def lab(self, *arguments: str, status: int = 0) -> str:
        """Run the command line; return its output, both streams."""
        done = subprocess.run(
            [self.command, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == status, done.stdout
        return done.stdout

    @contextlib.contextmanager
    def started(self, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        """Start the command line; kill it at the end of the block if it still runs."""
        with subprocess.Popen(
            [self.command, *arguments], stderr=subprocess.PIPE, text=True, preexec_fn=_listen_to_signals
        ) as process:
            yield process
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGKILL)

    def namespaces(self) -> list[str]:
        prefix = naming.clone_prefix(self.root)
        return [name for name in netns.names() if name.startswith(prefix)]

    def processes(self) -> list[str]:
        """Return the command lines of processes that use files of this clone: kernels, servers, ssh, builders."""
        numbers = []
        for directory in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                command = (directory / "cmdline").read_bytes()
                directory_of = os.readlink(directory / "cwd")
                if int(directory.name) != os.getpid() and (
                    bytes(self.root) in command or directory_of.startswith(str(self.root))
                ):
                    numbers.append(command.replace(b"\0", b" ").decode(errors="replace"))
        return numbers

    def wait_for(self, what: Callable[[], object]) -> None:
        """Wait until ``what()`` is true, so that an interruption has work to interrupt."""
        eventually(what, pause=0.05)

    def building(self) -> bool:
        """Tell whether an image is being built."""
        return any("mmdebstrap" in line for line in self.processes())

    def mounts(self) -> list[str]:
        return [line for line in Path("/proc/mounts").read_text().splitlines() if str(self.root) in line]

    def left(self) -> list[str]:
        """Return everything that is left of the clone's labs; after their removal the list must be empty."""
        files = [str(path) for path in self.run_directory.rglob("*")] if self.run_directory.exists() else []
        building = [str(path) for path in (self.root / ".cache/lab/images").glob(".*")]
        return self.namespaces() + self.processes() + self.mounts() + files + building


def _listen_to_signals() -> None:
    """Restore signals that nohup, or a shell's background job, makes a whole test run ignore."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def _remove_stale() -> None:
    """Remove the clones of test runs that were killed; ``make clean`` does so too."""
    for root in ROOT.glob(".cache/lab-test-*"):
        if not Path("/proc", root.name.rpartition("-")[2]).exists():
            Clone(root).lab("clean", "--all")
            shutil.rmtree(root)


@pytest.fixture(scope="session")
def clone_with_image() -> Iterator[Clone]:
    """Make the clone with this clone's images, built if need be; remove all of it at the end."""
    if os.geteuid() != 0:
        pytest.fail("the lab needs root: it makes network namespaces and taps")
    for kernel in ("uml", "stock"):
        subprocess.run([ROOT / "molecule/lab/lab", "image", "bookworm", "--kernel", kernel], check=True)
    (ROOT / ".cache").mkdir(exist_ok=True)
    _remove_stale()
    root = ROOT / f".cache/lab-test-{os.getpid()}"
    root.mkdir()
    clone = Clone(root)
    try:
        shutil.copytree(ROOT / "molecule/lab", root / "molecule/lab", ignore=shutil.ignore_patterns("__pycache__"))
        kernel = ROOT / ".cache/lab/kernel"
        (root / ".cache/lab").mkdir(parents=True)
        if kernel.exists():
            (root / ".cache/lab/kernel").symlink_to(kernel.resolve())
        images = ROOT / ".cache/lab/images"
        shutil.copytree(
            images,
            root / ".cache/lab/images",
            copy_function=os.link,
            ignore=shutil.ignore_patterns(".*", "bullseye-*", "trixie-*", "sid-*"),
        )
        yield clone
        clone.lab("clean", "--all")
        assert clone.left() == []
    finally:
        shutil.rmtree(root)


@pytest.fixture
def clone(clone_with_image: Clone) -> Iterator[Clone]:
    """Return the clone without any lab; remove what a test leaves."""
    assert clone_with_image.left() == []
    yield clone_with_image
    clone_with_image.lab("clean")
