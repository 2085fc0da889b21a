# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a kubeconfig (kubernetes: client-go/tools/clientcmd). Only its current context is used."""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping
from typing import Any

from ...manifests.documents import DocumentError, documents
from .access import Access, Identity, Plugin, check_url, read_file, signature
from .errors import AccessError, UnusableError

# Ways to authenticate that Kubernetes has removed, or that make no sense for a node.
_UNSUPPORTED = ("auth-provider", "username", "password", "as", "as-uid", "as-groups", "as-user-extra")
# Fields of the cluster that a plugin gets, beside the cluster's extension for plugins (client-go: ExecCredential's
# spec.cluster).
_CLUSTER_INFO = ("server", "tls-server-name", "insecure-skip-tls-verify", "certificate-authority-data", "proxy-url")
_AUTHORITY_EXPECTED = "expected the cluster's authority in PEM (without the field, the system's authorities count)"
_FOR_PLUGINS = "client.authentication.k8s.io/exec"


class Kubeconfig:
    """A kubeconfig, read again when its file has changed; ``server`` replaces the kubeconfig's."""

    def __init__(self, path: str, server: str = "") -> None:
        self.path = path
        self._server = server
        self._signature: tuple[int, int, int] | None = None
        self._access: Access | None = None
        self._authority_file = ""

    @property
    def name(self) -> str:
        """Return the kubeconfig's name in messages."""
        return f"kubeconfig {self.path}"

    def access(self) -> Access:
        """Return the access in the file as it is now, with the authority's present certificates.

        Raises:
            UnusableError: the file's content cannot be used.
            AccessError: the file, or a file named in it, cannot be read.
        """
        current = signature(self.path)
        if self._access is None or current is None or current != self._signature:
            data = read_file(self.path, "kubeconfig")
            try:
                self._access, self._authority_file = self._parse(data)
            except AccessError as error:
                raise UnusableError(str(error)) from None
            self._signature = current
        if not self._authority_file:
            return self._access
        authority = _text(read_file(self._authority_file, "certificate authority"))
        if not authority.strip() and _is_verified(self._access):
            raise UnusableError(
                f"{self.name}: certificate-authority {self._authority_file} is empty, {_AUTHORITY_EXPECTED}"
            )
        return self._access._replace(authority=authority)

    def _parse(self, data: bytes) -> tuple[Access, str]:
        try:
            parsed = documents(data.decode())
        except UnicodeDecodeError:
            raise AccessError(f"{self.name}: not text in UTF-8") from None
        except DocumentError as error:
            raise AccessError(f"{self.path}:{error.line}: {error.what}") from None
        _line, config = parsed[0] if len(parsed) == 1 else (0, None)
        if not isinstance(config, Mapping) or config.get("kind", "Config") != "Config":
            raise AccessError(f"{self.name}: expected one document of kind Config")
        context_name = self._field(config, "current-context", "")
        if not context_name:
            raise AccessError(f"{self.name}: current-context is not set")
        context = self._named(config, "contexts", "context", context_name)
        cluster = self._named(
            config, "clusters", "cluster", self._field(context, "cluster", f"context {context_name}: ")
        )
        user_name = self._field(context, "user", f"context {context_name}: ")
        user = self._named(config, "users", "user", user_name) if user_name else {}
        return self._cluster(cluster, self._identity(user, user_name, cluster))

    def _cluster(self, cluster: Mapping[str, Any], identity: Identity) -> tuple[Access, str]:
        insecure = cluster.get("insecure-skip-tls-verify") or False
        if not isinstance(insecure, bool):
            raise AccessError(f"{self.name}: insecure-skip-tls-verify is {insecure!r}, expected true or false")
        authority = _text(self._data(cluster, "certificate-authority-data"))
        file = "" if authority else self._path(self._field(cluster, "certificate-authority", ""))
        proxy = self._field(cluster, "proxy-url", "")
        access = Access(
            server=check_url(
                self._server or self._field(cluster, "server", ""), f"{self.name}: server", ("https", "http")
            ),
            authority=authority,
            identity=identity,
            insecure=insecure,
            server_name=self._field(cluster, "tls-server-name", ""),
            proxy=check_url(proxy, f"{self.name}: proxy-url", ("http",)) if proxy else "",
        )
        if cluster.get("certificate-authority-data") == "" and not file and _is_verified(access):
            # client-go would trust the system's authorities, none of which signs certificates for the cluster's own
            # authority
            raise AccessError(f"{self.name}: certificate-authority-data is empty, {_AUTHORITY_EXPECTED}")
        return access, file

    def _identity(self, user: Mapping[str, Any], name: str, cluster: Mapping[str, Any]) -> Identity:
        for field in _UNSUPPORTED:
            if user.get(field):
                expected = "a token, a tokenFile, a client certificate or an exec plugin"
                raise AccessError(f"{self.name}: user {name}: {field} is not supported, expected {expected}")
        certificate, key = self._data(user, "client-certificate-data"), self._data(user, "client-key-data")
        files = [
            "" if data else self._path(self._field(user, field, ""))
            for data, field in ((certificate, "client-certificate"), (key, "client-key"))
        ]
        if bool(certificate or files[0]) != bool(key or files[1]):
            raise AccessError(
                f"{self.name}: user {name}: expected a client certificate with its client key, found only one of them"
            )
        # as in client-go, tokenFile, which can be read again, takes precedence over token
        token_file = self._path(self._field(user, "tokenFile", ""))
        plugin = self._plugin(user.get("exec"), name, cluster)
        return Identity(
            token="" if token_file else self._field(user, "token", ""),
            token_file=token_file,
            certificate_file=files[0],
            certificate=certificate,
            key_file=files[1],
            key=key,
            plugin=plugin,
        )

    def _plugin(self, given: Any, name: str, cluster: Mapping[str, Any]) -> Plugin | None:
        if not given:
            return None
        where = f"{self.name}: user {name}: exec"
        if not isinstance(given, Mapping):
            raise AccessError(f"{where}: expected a mapping")
        command = self._field(given, "command", "")
        if not command:
            raise AccessError(f"{where}: command is missing")
        arguments, variables = given.get("args") or [], given.get("env") or []
        if not isinstance(arguments, list) or not all(isinstance(word, str) for word in arguments):
            raise AccessError(f"{where}: args: expected a list of texts")
        try:
            environment = {str(item["name"]): str(item["value"]) for item in variables}
        except (TypeError, KeyError):
            raise AccessError(f"{where}: env: expected a list of name and value") from None
        return Plugin(
            command=self._path(command) if "/" in command else command,
            arguments=tuple(arguments),
            environment=environment,
            version=self._field(given, "apiVersion", ""),
            hint=self._field(given, "installHint", ""),
            cluster=self._cluster_info(cluster) if given.get("provideClusterInfo") else None,
            where=where,
        )

    def _cluster_info(self, cluster: Mapping[str, Any]) -> dict[str, Any]:
        """Return the cluster's fields for a plugin.

        ``server`` is the address in use. The authority is given as text, also where the kubeconfig names a file.
        """
        info = {field: cluster[field] for field in _CLUSTER_INFO if field in cluster}
        if self._server:
            info["server"] = self._server
        authority = self._path(self._field(cluster, "certificate-authority", ""))
        if authority and not info.get("certificate-authority-data"):
            info["certificate-authority-data"] = base64.b64encode(
                read_file(authority, "certificate authority")
            ).decode()
        extensions = cluster.get("extensions")
        for item in extensions if isinstance(extensions, list) else ():
            if isinstance(item, Mapping) and item.get("name") == _FOR_PLUGINS:
                info["config"] = item.get("extension")
        return info

    def _named(self, config: Mapping[str, Any], section: str, inner: str, name: str) -> Mapping[str, Any]:
        items = config.get(section)
        for item in items if isinstance(items, list) else ():
            if isinstance(item, Mapping) and item.get("name") == name and isinstance(item.get(inner), Mapping):
                fields: Mapping[str, Any] = item[inner]
                return fields
        raise AccessError(f"{self.name}: {section} has no {inner} {name!r}")

    def _field(self, mapping: Mapping[str, Any], field: str, where: str) -> str:
        value = mapping.get(field)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise AccessError(f"{self.name}: {where}{field}: expected text")  # without the value, which may be a secret
        return value

    def _data(self, mapping: Mapping[str, Any], field: str) -> bytes:
        try:
            return base64.b64decode("".join(self._field(mapping, field, "").split()), validate=True)
        except (binascii.Error, ValueError):
            raise AccessError(f"{self.name}: {field}: expected base64") from None

    def _path(self, path: str) -> str:
        """Return the absolute form of a path, which may be relative to the kubeconfig's directory; "" stays."""
        return os.path.join(os.path.dirname(os.path.abspath(self.path)), path) if path else ""


def _is_verified(access: Access) -> bool:
    """Tell whether the API server needs a certificate signed by an authority."""
    return access.server.startswith("https://") and not access.insecure


def _text(data: bytes) -> str:
    return data.decode("ascii", "replace")
