# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors of the lab."""

from __future__ import annotations


class LabError(Exception):
    """An operation of the lab failed; the text says why and, where known, how to fix it. Exit status 1."""


class HostError(LabError):
    """This machine lacks a prerequisite of the lab. Exit status 2."""


class UsageError(LabError):
    """The command line is wrong. Exit status 2."""
