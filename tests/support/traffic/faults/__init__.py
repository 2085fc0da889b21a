# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Faults to inject into node1, by group; ``services`` has the Services that they break."""

from __future__ import annotations

from .foreign import FOREIGN
from .injected import Injected
from .kernel import KERNEL
from .objects import OBJECTS
from .services import fill
from .system import PINNED, PROXIES, SYSTEM

__all__ = ["FOREIGN", "INJECTED", "KERNEL", "OBJECTS", "PINNED", "PROXIES", "SYSTEM", "Injected", "fill"]
INJECTED = (*OBJECTS, *KERNEL, *FOREIGN, *SYSTEM, *PROXIES)
