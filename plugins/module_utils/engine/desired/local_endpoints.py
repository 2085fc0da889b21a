# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Endpoints on this node: health check node ports, and Services with a policy Local but no endpoint here.

Results are computed on demand and cached until an input changes, since most events touch neither.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from .service_vips import Contribution, Name
from .vip_allocator import Age


class HealthCheck(NamedTuple):
    """Health check node port of a Service, with the number of its ready endpoints on this node by family."""

    namespace: str
    name: str
    port: int
    local_endpoints: dict[int, int]


class LocalEndpoints:
    """Health check node ports and missing local endpoints of all Services.

    Args:
        contributions: the present contribution of each Service.
        ages: the age of each Service.
    """

    def __init__(self, contributions: Mapping[Name, Contribution], ages: Mapping[Name, Age]) -> None:
        self._contributions = contributions
        self._ages = ages
        self._with_health_check: set[Name] = set()
        self._without_local: set[Name] = set()
        self._checks: dict[int, HealthCheck] | None = None
        self._counts: dict[tuple[int, str], int] | None = None

    def follow(self, name: Name, old: Contribution, new: Contribution) -> None:
        """Note that a Service's contribution has changed."""
        wanted, ready = (old.health_check_port, new.health_check_port), (old.local_ready, new.local_ready)
        if any(wanted) and (wanted[0] != wanted[1] or ready[0] != ready[1]):
            (self._with_health_check.add if new.health_check_port else self._with_health_check.discard)(name)
            self._checks = None
        if old.no_local != new.no_local:
            (self._without_local.add if new.no_local else self._without_local.discard)(name)
            self._counts = None

    def checks(self) -> Mapping[int, HealthCheck]:
        """Return the health check node ports by number; the oldest Service wins a number that several have.

        It is the same mapping as long as none changes.
        """
        if self._checks is None:
            self._checks = {}
            for name in sorted(self._with_health_check, key=self._ages.__getitem__):
                part = self._contributions[name]
                self._checks.setdefault(
                    part.health_check_port, HealthCheck(*name, part.health_check_port, part.local_ready)
                )
        return self._checks

    def no_local_endpoints(self) -> Mapping[tuple[int, str], int]:
        """Count the Services with endpoints, but none on this node under a policy Local.

        The keys are (family, "internal" or "external").
        """
        if self._counts is None:
            self._counts = {(fam, policy): 0 for fam in (4, 6) for policy in ("internal", "external")}
            for name in self._without_local:
                for key in self._contributions[name].no_local:
                    self._counts[key] += 1
        return self._counts
