# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers of HTTP handlers."""

from __future__ import annotations

from typing import Callable, NamedTuple

JSON = "application/json"
PLAIN = "text/plain; charset=utf-8"


class Response(NamedTuple):
    """An answer; ``headers`` go between Content-Type and Date."""

    status: int
    body: str
    content_type: str = JSON
    headers: tuple[tuple[str, str], ...] = ()


Handler = Callable[[str, str], Response]  # method, path without its query
NOT_FOUND = Response(404, "404 page not found\n", PLAIN, (("X-Content-Type-Options", "nosniff"),))
