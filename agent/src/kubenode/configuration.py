# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the configuration file: KubeProxyConfiguration, AgentConfiguration, or a ConfigMap that holds them.

kubeadm writes such a ConfigMap.
"""

from __future__ import annotations

from typing import Any

from .engine.desired.settings import Config, parse
from .engine.errors import EngineError

_CONFIG_MAP_KEYS = ("config.conf", "config.yaml", "config")


class ConfigurationError(EngineError):
    """The file cannot be used. ``problems`` has every problem, each with the file's name."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


def load(path: str, *, required: bool) -> tuple[Config, list[str]]:
    """Return the configuration and warnings; without a file that is not ``required``, all values are defaults.

    Raises:
        ConfigurationError: with every problem of the file.
    """
    from .engine.desired.settings import ConfigError
    from .manifests.documents import DocumentError, documents

    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except FileNotFoundError:
        if required:
            raise ConfigurationError([f"{path}: there is no such file"]) from None
        return parse([])[0], [f"{path} does not exist: everything is as kube-proxy's defaults are"]
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError([f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}"]) from None
    try:
        unwrapped: list[Any] = []
        for _line, document in documents(text):
            unwrapped.extend(_unwrapped(document))
    except DocumentError as error:
        raise ConfigurationError(
            [f"{path}:{error.line}: {error.what}" if error.line else f"{path}: {error.what}"]
        ) from None
    try:
        return parse(unwrapped)
    except ConfigError as error:
        raise ConfigurationError([f"{path}: {problem}" for problem in error.problems]) from None


def _unwrapped(document: Any) -> list[Any]:
    """Return the documents inside of a ConfigMap, or the document itself."""
    if not isinstance(document, dict) or document.get("kind") != "ConfigMap":
        return [document]
    from .manifests.documents import documents

    data = document.get("data")
    texts = [data[key] for key in _CONFIG_MAP_KEYS if isinstance(data, dict) and isinstance(data.get(key), str)]
    return [inner for text in texts for _line, inner in documents(text)]
