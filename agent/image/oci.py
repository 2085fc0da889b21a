# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""OCI images (image-spec 1.1) as bytes that depend on their content only: layers, configuration, archive.

The archive is an OCI image layout in a tar, with the ``manifest.json`` that older Dockers read. No time, path or user
of the builder is in it.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

EPOCH = 315532800  # 1980-01-01, as in the bundle
CREATED = "1980-01-01T00:00:00Z"
CAPABILITY = "SCHILY.xattr.security.capability"  # the record of a file's capabilities in a tar (pax)
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
_INDEX = "application/vnd.oci.image.index.v1+json"


class File(NamedTuple):
    """A file of a layer: content, or the target of a symbolic link, or (with both empty and mode 0o40755) a directory.

    ``capabilities`` is the value of the attribute security.capability, "" for none.
    """

    data: bytes = b""
    mode: int = 0o644
    link: str = ""
    capabilities: str = ""


class Image(NamedTuple):
    """An archive, and the image's ID: the SHA-256 of its configuration, which no compression affects."""

    archive: bytes
    identity: str


def permitted(*capabilities: int) -> str:
    """Return the attribute that permits capabilities (by number) to the processes of a program.

    It does not make them effective: then the kernel also starts the program where the container lacks them
    (struct vfs_cap_data in linux/capability.h, revision 2).
    """
    mask = sum(1 << number for number in capabilities)
    words = (0x02000000, mask & 0xFFFFFFFF, 0, mask >> 32, 0)
    return b"".join(word.to_bytes(4, "little") for word in words).decode("ascii")


def layer(files: Mapping[str, File]) -> bytes:
    """Return a tar archive of files and their directories."""
    paths = dict(files)
    for name in files:
        parts = name.split("/")
        for depth in range(1, len(parts)):
            paths.setdefault("/".join(parts[:depth]), File(mode=0o40755))
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, file in sorted(paths.items()):
            info = tarfile.TarInfo(name)
            info.mtime = EPOCH
            info.mode = file.mode & 0o7777
            if file.link:
                info.type, info.linkname, info.mode = tarfile.SYMTYPE, file.link, 0o777
            elif file.mode & 0o40000:
                info.type = tarfile.DIRTYPE
            else:
                info.size = len(file.data)
            if file.capabilities:
                info.pax_headers = {CAPABILITY: file.capabilities}
            archive.addfile(info, io.BytesIO(file.data) if info.isreg() else None)
    return packed.getvalue()


def image(layers: Sequence[tuple[str, bytes]], architecture: str, name: str, config: Mapping[str, Any]) -> Image:
    """Return the image of layers (comment, tar archive) under a name with a tag."""
    packed = [gzip.compress(content, 6, mtime=0) for _comment, content in layers]
    described = _json(
        {
            "created": CREATED,
            "architecture": architecture,
            "os": "linux",
            "config": config,
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{_sha256(content)}" for _comment, content in layers]},
            "history": [{"created": CREATED, "created_by": comment} for comment, _content in layers],
        }
    )
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": _MANIFEST,
            "config": _descriptor(_CONFIG, described),
            "layers": [_descriptor(_LAYER, content) for content in packed],
        }
    )
    platform = {"architecture": architecture, "os": "linux"}
    names = {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name.rpartition(":")[2]}
    index = {**_descriptor(_MANIFEST, manifest), "platform": platform, "annotations": names}
    blobs = {f"blobs/sha256/{_sha256(content)}": content for content in (described, manifest, *packed)}
    older = {
        "Config": f"blobs/sha256/{_sha256(described)}",
        "RepoTags": [name],
        "Layers": [f"blobs/sha256/{_sha256(content)}" for content in packed],
    }
    files = {
        **blobs,
        "index.json": _json({"schemaVersion": 2, "mediaType": _INDEX, "manifests": [index]}),
        "manifest.json": _json([older]),
        "oci-layout": _json({"imageLayoutVersion": "1.0.0"}),
    }
    return Image(layer({path: File(content) for path, content in files.items()}), _sha256(described))


def _descriptor(media_type: str, content: bytes) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": f"sha256:{_sha256(content)}", "size": len(content)}


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _json(document: Any) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()
