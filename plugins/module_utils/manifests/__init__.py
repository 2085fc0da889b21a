# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kubernetes objects in files.

The module ``service_proxy``, the lookup ``objects`` and, through links, the agent's sources read them.

This package is not part of the engine, since YAML needs PyYAML; JSON needs only the standard library.
"""
