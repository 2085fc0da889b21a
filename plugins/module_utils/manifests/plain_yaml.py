# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""YAML as the Kubernetes API reads it: a timestamp stays text, since JSON has no such type."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .bounded_json import LONGEST_NUMBER, integer

_MOST_VALUES = 1_000_000  # of a document with aliases; a cluster with ten thousand Services has half of that


def load_all(text: str) -> Iterator[tuple[int, Any]]:
    """Yield each document with the line on which it begins.

    Raises:
        ImportError: PyYAML is not installed.
        yaml.YAMLError: the text is not YAML.
    """
    import yaml

    class Loader(yaml.SafeLoader):
        """PyYAML's safe loader without implicit dates and times, and without numbers that are too long to read."""

        yaml_implicit_resolvers = {  # noqa: RUF012 - PyYAML's class attribute
            first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
            for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }

    def number(loader: Loader, node: yaml.ScalarNode) -> Any:
        return integer(node.value) if len(node.value) > LONGEST_NUMBER else loader.construct_yaml_int(node)

    Loader.add_constructor("tag:yaml.org,2002:int", number)
    loader = Loader(text)
    try:
        while loader.check_node():
            node: Any = loader.get_node()
            if "*" in text:
                _check_aliases(node)
            try:
                document = loader.construct_document(node)
            except (
                ArithmeticError,
                AttributeError,
                LookupError,
            ) as error:  # from PyYAML for `!!bool maybe`, `!!int ""`
                what = f"a value does not fit its tag ({type(error).__name__})"
                raise yaml.constructor.ConstructorError(None, None, what, node.start_mark) from None
            yield node.start_mark.line + 1, document
    finally:
        loader.dispose()


def _check_aliases(document: Any) -> None:
    """Refuse a document whose values multiply when its aliases are expanded.

    The API server does the same. Ten lines can mean 10**9 values.

    Raises:
        yaml.YAMLError: the document is too large, or a collection contains itself.
    """
    from yaml import CollectionNode
    from yaml.composer import ComposerError

    sizes: dict[int, int] = {}  # values in a node, nested ones included; 0 during the count

    def size(node: Any) -> int:
        known = sizes.get(id(node))
        if known == 0:
            raise ComposerError(None, None, "a collection contains itself by an alias", node.start_mark)
        if known is None:
            sizes[id(node)] = 0
            parts = node.value if isinstance(node, CollectionNode) else ()
            known = 1 + sum(sum(map(size, part)) if isinstance(part, tuple) else size(part) for part in parts)
            if known > _MOST_VALUES:
                what = f"more than {_MOST_VALUES} values, most of them by aliases"
                raise ComposerError(None, None, what, node.start_mark)
            sizes[id(node)] = known
        return known

    size(document)
