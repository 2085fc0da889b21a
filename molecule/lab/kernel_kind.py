# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kind of kernel that a node boots: what it asks of the machine and of the image, and the command that boots it."""

from __future__ import annotations

import abc
import inspect
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from .host import Need
    from .state import Node


class KernelKind(abc.ABC):
    """Kind of kernel: user-mode Linux, or a release's own in an emulated machine."""

    name: ClassVar[str]  # as in --kernel
    architecture: ClassVar[str] = "amd64"  # Debian's name of it
    to_run: ClassVar[tuple[Need, ...]]  # programs that boot a node
    to_build: ClassVar[tuple[Need, ...]]  # programs that put the kernel into an image
    files: ClassVar[tuple[tuple[str, str], ...]]  # files that the image's packages must see: path and text
    alternatives: ClassVar[tuple[tuple[str, str], ...]]  # update-alternatives: name and path
    patience: ClassVar[int]  # seconds without an answer after which ssh gives a connection up
    boot_timeout: ClassVar[float]  # seconds until ssh answers, on a machine that has other work, too
    maps_each_page: ClassVar[bool] = False  # processes of a node are processes of this machine, see host.py

    @property
    def source(self) -> str:
        """Text of the files that describe this kind: a part of what names an image."""
        kinds = [kind for kind in type(self).__mro__ if issubclass(kind, KernelKind) and kind is not KernelKind]
        return "".join(Path(inspect.getfile(kind)).read_text() for kind in kinds)

    @property
    def packages(self) -> tuple[str, ...]:
        """Debian packages of an image, besides those of all images."""
        return ()

    def build_problems(self) -> list[str]:
        """Return what else this machine lacks to build an image, each with its remedy."""
        return []

    @abc.abstractmethod
    def version(self) -> str:
        """Return the version of the kernel, or its package; empty if the release's archive decides it.

        Raises:
            HostError: this machine must have the kernel, and has it not.
        """

    @abc.abstractmethod
    def summary(self) -> str:
        """Return in a few words which kernel runs, and by what means."""

    @abc.abstractmethod
    def install(self, root: Path, image: Path) -> None:
        """Put the kernel's modules into the tree of an image, and what boots it into the image's directory.

        Raises:
            LabError: the tree has no such kernel.
        """

    @abc.abstractmethod
    def make_disk(self, image: Path, directory: Path) -> None:
        """Make a node's disk from its image, unless it is there.

        Args:
            image: directory of the node's image.
            directory: directory of the node's files.
        """

    @abc.abstractmethod
    def command(self, node: Node, memory: str, memory_directory: Path) -> list[str]:
        """Return the command that boots a node; its working directory is the node's, its standard output the console.

        Args:
            node: node to boot.
            memory: its size, such as ``512M``.
            memory_directory: directory for the unnamed file that holds it.
        """
