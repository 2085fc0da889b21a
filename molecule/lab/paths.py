# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Paths of the lab's files: all in this clone, under ``.cache/lab/``."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
CACHE = ROOT / ".cache" / "lab"
IMAGES = CACHE / "images"
RUNS = CACHE / "run"

DISK = "disk.ext4"  # in an image's directory: the file system that a node's disk begins with
