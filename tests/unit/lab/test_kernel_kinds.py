# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kinds of kernels: their names, the commands that boot them, when KVM is used, and what an image must have."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from lab import qemu, qemu_arm64
from lab.errors import LabError, UsageError
from lab.host import SHARED_MEMORY
from lab.kernel_kinds import DEFAULT, KERNELS, kernel_kind
from lab.recipe import recipe
from lab.state import Node

STOCK, ARM64 = KERNELS["stock"], KERNELS["arm64"]
NODE = Node("node1", 0, "bookworm", "stock", "/images/x", "test")


def test_names_of_kernel_kinds_are_parsed() -> None:
    assert DEFAULT == "uml"
    assert kernel_kind("stock") is STOCK
    with pytest.raises(UsageError, match="kernel 'xen': expected one of uml, stock, arm64"):
        kernel_kind("xen")


@pytest.mark.parametrize(
    ("flags", "usable", "accelerators", "summary"),
    [
        ("fpu vmx", True, ["kvm", "tcg"], "by KVM"),
        ("svm fpu", True, ["kvm", "tcg"], "by KVM"),
        ("fpu", True, ["tcg"], "emulated in software: /dev/kvm is there, but the processor has neither vmx nor svm"),
        ("fpu vmx", False, ["tcg"], "emulated in software: /dev/kvm is not there or not writable"),
    ],
)
def test_kvm_is_used_where_it_works(
    flags: str, usable: bool, accelerators: list[str], summary: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.access", lambda *_: usable)
    monkeypatch.setattr(qemu, "open", lambda _: io.StringIO(f"processor: 0\nflags\t\t: {flags}\n"), raising=False)
    command = STOCK.command(NODE, "512M", Path("/dev/shm"))
    assert [command[index + 1] for index, word in enumerate(command) if word == "-accel"] == accelerators
    assert STOCK.summary() == f"the release's own kernel in QEMU, {summary}"


def test_arm64_is_emulated_beside_kvm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda *_: True)
    command = ARM64.command(NODE, "512M", Path("/dev/shm"))
    assert command[0] == "qemu-system-aarch64"
    assert [command[index + 1] for index, word in enumerate(command) if word in ("-accel", "-cpu")] == [
        "tcg",
        "cortex-a72",
    ]
    assert "console=ttyAMA0" in command[command.index("-append") + 1].split()
    assert ARM64.summary().endswith("emulated in software: this machine has another processor")


def test_an_image_of_arm64_needs_an_interpreter(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(qemu_arm64, "_INTERPRETER", tmp_path / "binfmt_misc/qemu-aarch64")
    assert ARM64.build_problems() == [
        f"{tmp_path}/binfmt_misc/qemu-aarch64: mount -t binfmt_misc none {tmp_path}/binfmt_misc, then "
        "apt-get install --reinstall qemu-user-static binfmt-support"
    ]
    (tmp_path / "binfmt_misc").mkdir()
    (tmp_path / "binfmt_misc/qemu-aarch64").touch()
    assert ARM64.build_problems() == STOCK.build_problems() == []


def test_another_kernel_of_the_archive_can_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert STOCK.packages == ("linux-image-cloud-amd64", "initramfs-tools")
    usual = recipe("bullseye", STOCK)
    monkeypatch.setenv("LAB_KERNEL", "linux-image-5.10.0-46-cloud-amd64")
    assert STOCK.packages == ("linux-image-5.10.0-46-cloud-amd64", "initramfs-tools")
    assert recipe("bullseye", STOCK).name != usual.name
    assert KERNELS["uml"].packages == ()


def test_the_name_of_an_image_depends_on_all_files_of_its_kind() -> None:
    assert ARM64.source == Path(qemu_arm64.__file__).read_text() + STOCK.source
    assert STOCK.source == Path(qemu.__file__).read_text()


def test_the_machine_is_on_the_labs_tap_only() -> None:
    command = STOCK.command(NODE, "512M", Path("/a,b"))
    assert [command[index + 1] for index, word in enumerate(command) if word == "-netdev"] == [
        "tap,id=lab,ifname=tap0,script=no,downscript=no"
    ]
    assert "memory-backend-file,mem-path=/a,,b,share=on,id=ram,size=512M" in command


def test_memory_in_memory_is_no_file() -> None:
    assert "memory-backend-ram,id=ram,size=512M" in STOCK.command(NODE, "512M", SHARED_MEMORY)


def test_the_newest_kernel_of_an_image_is_booted(tmp_path: Path) -> None:
    (tmp_path / "root/boot").mkdir(parents=True)
    (tmp_path / "image").mkdir()
    with pytest.raises(LabError, match=r"/boot/vmlinuz-\*: not in the image; linux-image-cloud-amd64"):
        STOCK.install(tmp_path / "root", tmp_path / "image")
    for version in ("6.1.0-9-cloud-amd64", "6.1.0-56-cloud-amd64"):
        for name in ("vmlinuz", "initrd.img"):
            (tmp_path / f"root/boot/{name}-{version}").write_text(f"{name} {version}")
    STOCK.install(tmp_path / "root", tmp_path / "image")
    for name in ("vmlinuz", "initrd.img"):
        assert (tmp_path / "image" / name).read_text() == f"{name} 6.1.0-56-cloud-amd64"


def test_a_disk_is_made_once(tmp_path: Path) -> None:
    image, directory = tmp_path / "image", tmp_path / "node"
    image.mkdir()
    directory.mkdir()
    for name in ("disk.ext4", "vmlinuz", "initrd.img"):
        (image / name).write_text(name)
    STOCK.make_disk(image, directory)
    (directory / "disk.raw").write_text("changed by the node")
    STOCK.make_disk(image, directory)
    assert (directory / "disk.raw").read_text() == "changed by the node"
    assert (image / "disk.ext4").read_text() == "disk.ext4"
    assert (directory / "vmlinuz").read_text() == "vmlinuz"
