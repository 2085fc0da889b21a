# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Kubernetes API as a source of objects: the standard library's HTTP and TLS, and a list and watch of our own.

``source`` is what the agent sees. Behind it ``reflector`` keeps one resource up to date in a thread of its own, through ``api`` and
``connection``, with what ``kubeconfig``, ``service_account`` and ``credentials`` say about where the API is and who we are; ``store`` holds
what is known, ``snapshot`` keeps it on disk, ``events`` tells the cluster what cannot be served.
"""
