# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module swap on the kernel: a zram device and a file on a loop device, each a swap area."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kernel.modules import ModuleError, run

from ansible_collections.kubenode.ipvs.plugins.module_utils._host import swap as _swap

FOREIGN = "# /dev/zram1 none swap\nUUID=1 / ext4 defaults 0 1\n"


def areas() -> list[str]:
    return _swap.active()


class SwapFiles:
    """A file in place of fstab, and a directory in place of /etc/systemd/system."""

    def __init__(self, directory: Path) -> None:
        self.fstab = directory / "fstab"
        self.units = directory / "units"
        self.fstab.write_text(f"{FOREIGN}/dev/zram0 none swap sw 0 0\n")
        (self.units / "swap.target.wants").mkdir(parents=True)
        for name in ("swap.target.wants/dev-zram1.swap", "dev-zram1.swap"):
            (self.units / name).write_text("[Swap]\nWhat=/dev/zram1\n")

    def files(self) -> dict[str, str]:
        texts = {str(path): path.read_text() for path in self.units.rglob("*") if path.is_file()}
        return {**texts, str(self.fstab): self.fstab.read_text()}

    def swap(self, state: str, **arguments: Any) -> dict[str, Any]:
        return run("swap", state=state, fstab=str(self.fstab), **arguments)


@pytest.fixture
def swap_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SwapFiles]:
    subprocess.run(["modprobe", "zram", "num_devices=2"], check=True)
    for index in range(2):
        Path(f"/sys/block/zram{index}/disksize").write_text("4M")
        subprocess.run(["mkswap", f"/dev/zram{index}"], check=True, capture_output=True)
        subprocess.run(["swapon", f"/dev/zram{index}"], check=True)
    files = SwapFiles(tmp_path)
    monkeypatch.setattr(_swap, "UNIT_DIRECTORIES", (str(files.units),))
    yield files
    for area in areas():
        subprocess.run(["/sbin/swapoff", area], check=True)
    subprocess.run(["rmmod", "zram"], check=True)


def test_swap_is_turned_off_once_and_restored(swap_files: SwapFiles) -> None:
    before = swap_files.files()
    foreseen = swap_files.swap("off", check=True)
    assert (swap_files.files(), areas()) == (before, ["/dev/zram0", "/dev/zram1"])
    result = swap_files.swap("off")
    assert result["lines"] == foreseen["lines"]
    assert result["diff"] == foreseen["diff"]
    header = {"before_header": "/proc/swaps", "after_header": "/proc/swaps"}
    assert result["diff"][-1] == {"before": "/dev/zram0\n/dev/zram1\n", "after": "", **header}
    assert result["lines"] == [
        f"comment out /dev/zram0 in {swap_files.fstab}",
        "keep dev-zram1.swap from starting",
        "keep dev-zram0.swap from starting",
        "turn off /dev/zram0",
        "turn off /dev/zram1",
    ]
    assert areas() == []
    assert swap_files.fstab.read_text() == f"{FOREIGN}# kubenode: /dev/zram0 none swap sw 0 0\n"
    assert swap_files.swap("off")["lines"] == []
    back = swap_files.swap("restored")
    assert back["lines"] == [
        "let dev-zram0.swap start",
        "let dev-zram1.swap start",
        f"uncomment swap in {swap_files.fstab}",
    ]
    assert swap_files.files() == before
    assert not list(swap_files.units.glob("*.d"))
    assert areas() == ["/dev/zram0"]  # systemd, which is missing here, would start the other area
    assert swap_files.swap("restored")["lines"] == []


def test_swap_that_cannot_be_turned_off_changes_nothing(swap_files: SwapFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    tools = swap_files.fstab.parent / "bin"
    tools.mkdir()
    # The kernel fails so when memory is short: one area is off already, the other stays on.
    (tools / "swapoff").write_text(
        "#!/bin/sh\n/sbin/swapoff /dev/zram0\necho swapoff: /dev/zram1: Cannot allocate memory >&2\nexit 4\n"
    )
    (tools / "swapoff").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:/usr/sbin:/usr/bin:/sbin:/bin")
    before = swap_files.files()
    with pytest.raises(ModuleError) as error:
        swap_files.swap("off")
    assert (
        str(error.value)
        == "swapoff -a failed: swapoff: /dev/zram1: Cannot allocate memory; what was turned off is on again, no file"
        " was changed"
    )
    assert swap_files.files() == before
    assert sorted(areas()) == ["/dev/zram0", "/dev/zram1"]


@contextlib.contextmanager
def sealed(path: Path) -> Iterator[None]:
    subprocess.run(["mount", "--bind", path, path], check=True)
    subprocess.run(["mount", "-o", "remount,ro,bind", path], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", path], check=True)


@contextlib.contextmanager
def full(swap_files: SwapFiles) -> Iterator[None]:
    """Mount a full file system on the directory of units."""
    before = swap_files.files()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32k", "tmpfs", swap_files.units], check=True)
    try:
        for path, text in before.items():
            Path(path).parent.mkdir(exist_ok=True)
            Path(path).write_text(text)
        with contextlib.suppress(OSError), (swap_files.units / "filler").open("wb", buffering=0) as filler:
            while True:
                filler.write(b"x" * 1024)
        yield
    finally:
        subprocess.run(["umount", swap_files.units], check=True)


def names_in(directory: Path) -> set[str]:
    return {str(path) for path in directory.rglob("*")}


@pytest.mark.parametrize(
    ("state", "what", "why"),
    [
        ("off", "", "Read-only file system"),
        ("off", "fstab", "Device or resource busy"),
        ("off", "units", "No space left on device"),
        ("restored", "", "Read-only file system"),
        ("restored", "fstab", "Device or resource busy"),
    ],
)
def test_unwritable_files_restore_swap(swap_files: SwapFiles, state: str, what: str, why: str) -> None:
    """Only the last file cannot be replaced, or no file can be written."""
    if state == "restored":
        swap_files.swap("off")
    path = swap_files.fstab.parent / what
    with full(swap_files) if what == "units" else sealed(path):
        before, names, on = swap_files.files(), names_in(swap_files.fstab.parent), sorted(areas())
        with pytest.raises(ModuleError, match=rf"^file \S+ cannot be written: {why}; files and swap are as they were$"):
            swap_files.swap(state)
        assert swap_files.files() == before
        assert names_in(swap_files.fstab.parent) == names
        assert sorted(areas()) == on
    assert swap_files.swap(state)["changed"]


def test_unreadable_fstab_is_named(swap_files: SwapFiles) -> None:
    for check in (True, False):
        with pytest.raises(ModuleError) as error:
            run("swap", fstab=str(swap_files.units), check=check)
        assert str(error.value) == f"file {swap_files.units} cannot be read: Is a directory; nothing was changed"
    assert sorted(areas()) == ["/dev/zram0", "/dev/zram1"]
