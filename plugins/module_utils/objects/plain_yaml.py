# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""YAML as the Kubernetes API means it: a time stays text, since JSON knows none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def load_all(text: str) -> Iterator[tuple[int, Any]]:
    """Yield each document with the line on which it begins.

    Raises:
        ImportError: there is no PyYAML.
        yaml.YAMLError: not YAML.
    """
    import yaml

    class Loader(yaml.SafeLoader):
        """PyYAML's safe loader without the implicit type of dates and times."""

        yaml_implicit_resolvers = {  # noqa: RUF012 - PyYAML's class attribute
            first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
            for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }

    loader = Loader(text)
    try:
        while loader.check_node():
            node: Any = loader.get_node()
            yield node.start_mark.line + 1, loader.construct_document(node)
    finally:
        loader.dispose()
