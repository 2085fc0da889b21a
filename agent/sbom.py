# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Software bills of materials (CycloneDX 1.6, JSON): the agent's bundle, its images, the collection's artifact.

The same content gives the same bytes: they hold no time, and the serial number is computed from the rest.
"""

from __future__ import annotations

import hashlib
import json
import re
from email.parser import BytesHeaderParser
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

LICENCE = "GPL-3.0-or-later"
_VERSION = Path(__file__).parent / "src/kubenode/_version.py"


def of_bundle(files: Mapping[str, bytes], wheels: Iterable[Path]) -> bytes:
    """Return the SBOM of a bundle.

    Args:
        files: the bundle's content, name to bytes; each ``lib/*.dist-info/METADATA`` describes a package.
        wheels: wheels of the packages. A package's hash is that of its wheel.
    """
    digests = {_plain(path.name.partition("-")[0]): hashlib.sha256(path.read_bytes()).hexdigest() for path in wheels}
    packages = [_package(data, digests) for name, data in sorted(files.items()) if name.endswith(".dist-info/METADATA")]
    return _text(_ours("kubenode-agent", version(), ComponentType.APPLICATION), packages)


def of_artifact(name: str, release: str, bundle: bytes, bundle_sbom: bytes) -> bytes:
    """Return the SBOM of the collection's artifact: its bundle, and the bundle's content.

    Args:
        name: the collection's full name.
        release: the collection's version.
        bundle: the bundle.
        bundle_sbom: the bundle's own SBOM.
    """
    agent = _ours("kubenode-agent", version(), ComponentType.APPLICATION, hashlib.sha256(bundle).hexdigest())
    packages = [Component.from_json(data=component) for component in json.loads(bundle_sbom).get("components", [])]
    return _text(_ours(name, release, ComponentType.LIBRARY), [], {agent: packages})


class DebianPackage(Protocol):
    """A Debian package of an image; ``digest`` is the SHA-256 of its file."""

    @property
    def name(self) -> str:
        """Return its name."""

    @property
    def version(self) -> str:
        """Return its version."""

    @property
    def digest(self) -> str:
        """Return its SHA-256."""


def of_image(architecture: str, bundle_sbom: bytes, packages: Iterable[DebianPackage], release: str) -> bytes:
    """Return the SBOM of a container image: the bundle's content, and Debian packages.

    Args:
        architecture: Debian's name of it.
        bundle_sbom: the bundle's own SBOM.
        packages: the Debian packages.
        release: the number of the Debian release.
    """
    components = [Component.from_json(data=component) for component in json.loads(bundle_sbom).get("components", [])]
    for package in packages:
        qualifiers = {"arch": architecture, "distro": f"debian-{release}"}
        components.append(
            Component(
                name=package.name,
                version=package.version,
                type=ComponentType.LIBRARY,
                purl=PackageURL("deb", "debian", package.name, package.version, qualifiers),
                bom_ref=f"{package.name}@{package.version}",
                hashes=[HashType(alg=HashAlgorithm.SHA_256, content=package.digest)],
            )
        )
    return _text(_ours("kubenode-agent", version(), ComponentType.CONTAINER), components)


def version() -> str:
    """Return the agent's version."""
    match = re.search(r'^VERSION = "(.+)"$', _VERSION.read_text(encoding="utf-8"), re.MULTILINE)
    if match is None:
        raise ValueError(f"{_VERSION} has no line 'VERSION = \"…\"'")
    return match[1]


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name.lower())


def _ours(name: str, release: str, kind: ComponentType, digest: str = "") -> Component:
    return Component(
        name=name,
        version=release,
        type=kind,
        purl=PackageURL("generic", None, name, release),
        bom_ref=f"{name}@{release}",
        licenses=[LicenseFactory().make_from_string(LICENCE)],
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest)] if digest else [],
    )


def _package(metadata: bytes, digests: Mapping[str, str]) -> Component:
    head = BytesHeaderParser().parsebytes(metadata)
    name, release = str(head["Name"]), str(head["Version"])
    licence = head["License-Expression"] or head["License"]
    return Component(
        name=name,
        version=release,
        type=ComponentType.LIBRARY,
        purl=PackageURL("pypi", None, _plain(name), release),
        bom_ref=f"{name}@{release}",
        licenses=[LicenseFactory().make_from_string(str(licence))] if licence else [],
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digests[_plain(name)])],
    )


def _text(
    subject: Component, packages: list[Component], nested: Mapping[Component, list[Component]] | None = None
) -> bytes:
    bom = Bom(components=[*packages, *(nested or {}), *(one for several in (nested or {}).values() for one in several)])
    bom.metadata.component = subject
    bom.metadata.timestamp = None
    bom.register_dependency(subject, [*packages, *(nested or {})])
    for parent, children in (nested or {}).items():
        bom.register_dependency(parent, children)
    bom.serial_number = UUID(int=0, version=4)
    digest = hashlib.sha256(JsonV1Dot6(bom).output_as_string().encode()).digest()
    bom.serial_number = UUID(bytes=digest[:16], version=4)
    return (JsonV1Dot6(bom).output_as_string(indent=2) + "\n").encode()
