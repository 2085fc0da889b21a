# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Source of objects from the Kubernetes API: the standard library's HTTP and TLS, and kubenode's own list and watch.

``source`` is the agent's interface. ``reflector`` keeps one resource up to date in its own thread, through ``api`` and
``connection``. ``event_stream`` cuts a watch into events, which ``protobuf_objects`` and ``protobuf`` decode.
``kubeconfig``, ``service_account`` and ``credentials`` provide the API's address and the agent's identity. ``store``
holds the objects, ``snapshot`` keeps them on disk, and ``event_recorder`` sends Kubernetes Events about objects that
cannot be served.
"""
