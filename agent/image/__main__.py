#!/usr/bin/env python3
# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make the agent's container images: one OCI archive for each architecture, without a daemon and without root.

The same content always gives the same digests.

    python agent/image [DIRECTORY [ARCHITECTURE]]
    python agent/image --pin

An image has two layers. The first has Python and the tools of iptables and ipset, from Debian packages whose SHA-256
``debian.txt`` gives. The second has the agent's bundle. Nothing is compiled but Python's byte code, which is the same
for each architecture. ``--pin`` writes the present packages of the Debian release to ``debian.txt``.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parents[1] / "molecule")]

import debian
import oci
import sbom
import tree
from bundle import BundleError, contents, with_manifest

DIST = HERE.parents[1] / ".cache/dist"
NAME = "ghcr.io/kubenode/kubenode-agent"
SBOM = "opt/kubenode/image.cdx.json"


def main() -> int:
    """Write the images and print the path, size and digest of each, or pin the packages."""
    words = sys.argv[1:]
    try:
        if words == ["--pin"]:
            debian.pin(tree.PACKAGES, tree.LEFT_OUT)
            return 0
        directory = Path(words[0]) if words else DIST
        directory.mkdir(parents=True, exist_ok=True)
        for architecture, image in build(words[1:] or debian.ARCHITECTURES).items():
            target = directory / f"kubenode-agent-{sbom.version()}-{architecture}.oci.tar"
            temporary = target.with_name(target.name + ".new")
            temporary.write_bytes(image.archive)
            temporary.replace(target)
            print(f"{target}: {len(image.archive) / (1 << 20):.1f} MiB, image ID sha256:{image.identity}")
    except (BundleError, debian.PackageError) as error:
        print(f"image: {error}", file=sys.stderr)
        return 1
    return 0


def build(architectures: Iterable[str]) -> dict[str, oci.Image]:
    """Return the image of each architecture.

    Raises:
        BundleError: the bundle cannot be made.
        PackageError: a package cannot be fetched, or has another SHA-256 than its pin.
    """
    bundle = with_manifest(contents())
    pins = debian.pins()
    bases = {name: tree.base(debian.fetched(pins, name)) for name in {debian.native(), *architectures}}
    compiled = tree.byte_code(bases[debian.native()], tree.agent(bundle))
    images = {}
    for architecture in architectures:
        base = bases[architecture]
        packages = [pin for pin in pins if pin.architecture == architecture]
        bill = sbom.of_image(architecture, bundle["sbom.cdx.json"], packages, debian.RELEASE_NUMBER)
        agent = {**tree.agent(bundle), SBOM: oci.File(bill)}
        layers = [
            ("Debian packages of agent/image/debian.txt", tree.as_byte_code(base, compiled)),
            ("the agent's bundle", tree.with_byte_code(agent, compiled)),
        ]
        images[architecture] = oci.image(
            [(comment, oci.layer(files)) for comment, files in layers],
            architecture,
            name=f"{NAME}:{sbom.version()}",
            config={
                "User": f"{tree.USER}:{tree.USER}",
                "Env": ["PATH=/usr/local/bin:/usr/sbin:/usr/bin", "LC_ALL=C.UTF-8", "MALLOC_ARENA_MAX=1"],
                "Entrypoint": [f"/{tree.ENTRY}"],
                "Cmd": ["run"],
                "WorkingDir": "/",
                "Labels": {
                    "org.opencontainers.image.title": "kubenode-agent",
                    "org.opencontainers.image.version": sbom.version(),
                    "org.opencontainers.image.source": "https://github.com/kubenode/ipvs",
                    "org.opencontainers.image.licenses": sbom.LICENCE,
                    "org.opencontainers.image.base.name": f"debian packages of {debian.RELEASE}",
                    "kubenode.ipvs.bundle": hashlib.sha256(bundle["SHA256SUMS"]).hexdigest(),
                },
            },
        )
    return images


if __name__ == "__main__":
    sys.exit(main())
