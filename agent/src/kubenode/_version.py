# Copyright (c) The kubenode.ipvs maintainers
# SPDX-License-Identifier: GPL-3.0-or-later
"""The version of the agent; tests/unit/project holds it equal to the collection's in galaxy.yml."""

from __future__ import annotations

VERSION = "0.1.0"
