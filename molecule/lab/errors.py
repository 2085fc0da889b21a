# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors of the lab."""

from __future__ import annotations


class LabError(Exception):
    """The lab cannot do this; the text says what, why and, where known, what to do. Exit status 1."""


class HostError(LabError):
    """This machine lacks something that the lab needs. Exit status 2."""


class UsageError(LabError):
    """The command line asks for something that makes no sense. Exit status 2."""
