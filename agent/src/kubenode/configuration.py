# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the configuration: KubeProxyConfiguration, AgentConfiguration, or a ConfigMap that holds them.

kubeadm writes such a ConfigMap. A pod has the two documents in two files: kube-proxy's ConfigMap has the first.
"""

from __future__ import annotations

import os
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

    ``path`` may be several files, joined by ``:``.

    Raises:
        ConfigurationError: with every problem of the files.
    """
    from .engine.desired.settings import ConfigError

    if not required and _is_missing(path):
        return parse([])[0], [f"{path} does not exist: everything is as kube-proxy's defaults are"]
    unwrapped = [document for file in files(path) for document in _read(file)]
    try:
        return parse(unwrapped)
    except ConfigError as error:
        raise ConfigurationError([f"{path}: {problem}" for problem in error.problems]) from None


def _is_missing(path: str) -> bool:
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False  # opening it names the error
    return False


def files(path: str) -> list[str]:
    """Return the files of a configuration: one, whose name may have a colon, or several joined by ``:``."""
    return [path] if os.path.exists(path) else [file for file in path.split(os.pathsep) if file]


def _read(path: str) -> list[Any]:
    """Return the documents of a file."""
    from .manifests.documents import DocumentError, documents

    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except FileNotFoundError:
        raise ConfigurationError([f"{path}: there is no such file"]) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError([f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}"]) from None
    try:
        return [inner for _line, document in documents(text) for inner in _unwrapped(document)]
    except DocumentError as error:
        raise ConfigurationError(
            [f"{path}:{error.line}: {error.what}" if error.line else f"{path}: {error.what}"]
        ) from None


def _unwrapped(document: Any) -> list[Any]:
    """Return the documents inside of a ConfigMap, or the document itself."""
    if not isinstance(document, dict) or document.get("kind") != "ConfigMap":
        return [document]
    from .manifests.documents import documents

    data = document.get("data")
    texts = [data[key] for key in _CONFIG_MAP_KEYS if isinstance(data, dict) and isinstance(data.get(key), str)]
    return [inner for text in texts for _line, inner in documents(text)]
