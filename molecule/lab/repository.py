# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A package repository from a directory of ``.deb`` files: the index, and a server for the nodes.

``dpkg-scanpackages`` would do the first, but belongs to a large package; a ``.deb`` is an ``ar`` archive whose
member ``control.tar`` holds the paragraph that the index wants (deb(5)).
"""

from __future__ import annotations

import email.utils
import functools
import gzip
import hashlib
import http.server
import io
import socket
import socketserver
import tarfile
from pathlib import Path

from .errors import LabError

_AR_MAGIC = b"!<arch>\n"
_AR_HEADER = 60


def control_paragraph(package: bytes, name: str) -> str:
    """Return the control paragraph of a binary package.

    Args:
        package: the content of a ``.deb`` file.
        name: its file name, for the error.

    Raises:
        LabError: not a Debian package, or compressed with something that Python cannot read.
    """
    if not package.startswith(_AR_MAGIC):
        raise LabError(f"{name}: not a Debian package")
    at = len(_AR_MAGIC)
    while at + _AR_HEADER <= len(package):
        member = package[at : at + 16].decode("ascii").rstrip(" /")
        size = int(package[at + 48 : at + 58])
        at += _AR_HEADER
        if at + size > len(package):
            raise LabError(f"{name}: {member} is cut off")
        if member.startswith("control.tar"):
            try:
                with tarfile.open(fileobj=io.BytesIO(package[at : at + size])) as archive:
                    control = archive.extractfile("./control")
                    if control is not None:
                        return control.read().decode().strip("\n")
            except (KeyError, tarfile.TarError) as error:
                raise LabError(f"{name}: {member}: {error}") from error
        at += size + size % 2
    raise LabError(f"{name}: no control file in it")


def write_index(directory: Path, architecture: str) -> int:
    """Write ``Packages``, ``Packages.gz`` and ``Release`` for the packages in a directory and return their number.

    The repository is flat (``deb [trusted=yes] ADDRESS ./``).
    """
    paragraphs = []
    for path in sorted(directory.glob("*.deb")):
        package = path.read_bytes()
        paragraphs.append(
            f"{control_paragraph(package, path.name)}\nFilename: ./{path.name}\nSize: {len(package)}\n"
            f"SHA256: {hashlib.sha256(package).hexdigest()}\n"
        )
    text = "\n".join(paragraphs).encode()
    indexes = {"Packages": text, "Packages.gz": gzip.compress(text, mtime=0)}
    date = email.utils.formatdate(usegmt=True).replace("GMT", "UTC")
    release = [
        "Origin: lab",
        "Label: lab",
        "Suite: lab",
        "Codename: lab",
        f"Architectures: {architecture}",
        f"Date: {date}",
        "SHA256:",
    ]
    for name, content in indexes.items():
        (directory / name).write_bytes(content)
        release.append(f" {hashlib.sha256(content).hexdigest()} {len(content)} {name}")
    (directory / "Release").write_text("\n".join(release) + "\n")
    return len(paragraphs)


class _Handler(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # apt asks for many files on one connection


class _Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    address_family = socket.AF_INET6
    allow_reuse_address = True
    daemon_threads = True


def serve(directory: Path, port: int) -> None:
    """Serve a directory by HTTP on every address of this network namespace, of both families; never returns."""
    with _Server(("::", port), functools.partial(_Handler, directory=str(directory))) as server:
        server.serve_forever()
