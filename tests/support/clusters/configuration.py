# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Configuration documents of the tests, and the problems that the parser reports for them."""

from __future__ import annotations

from typing import Any

import pytest

from kubenode.engine.desired.settings import AGENT, KUBE_PROXY, ConfigError, parse


def kube_proxy(**fields: Any) -> dict[str, Any]:
    return {"apiVersion": KUBE_PROXY[0], "kind": KUBE_PROXY[1], "mode": "ipvs", **fields}


def agent(**fields: Any) -> dict[str, Any]:
    return {"apiVersion": AGENT[0], "kind": AGENT[1], **fields}


def problems(*documents: Any) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        parse(documents)
    assert str(caught.value) == "; ".join(caught.value.problems)
    return caught.value.problems


def nested(path: str, value: Any) -> dict[str, Any]:
    first, _dot, rest = path.partition(".")
    return {first: nested(rest, value) if rest else value}
