# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All kinds of kernels by name; the first is the one of a lab that names none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .errors import UsageError
from .qemu import StockKernel
from .qemu_arm64 import Arm64Kernel
from .uml import UserModeLinux

if TYPE_CHECKING:
    from .kernel_kind import KernelKind

KERNELS: dict[str, KernelKind] = {kind.name: kind for kind in (UserModeLinux(), StockKernel(), Arm64Kernel())}
DEFAULT = next(iter(KERNELS))


def kernel_kind(name: str) -> KernelKind:
    """Return the kind of this name.

    Raises:
        UsageError: there is none.
    """
    if name not in KERNELS:
        raise UsageError(f"kernel {name!r}: expected one of {', '.join(KERNELS)}")
    return KERNELS[name]
