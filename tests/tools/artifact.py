# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the collection's artifact: the same content gives the same bytes, and an SBOM is in it (`make artifact`).

python tests/tools/artifact.py DIRECTORY

``ansible-galaxy collection build`` chooses the files of the artifact. It takes the order of files from the file system,
and times from files and from the clock. This tool replaces both, and writes ``FILES.json`` and ``MANIFEST.json`` anew
in the form that ``ansible-galaxy collection verify`` expects.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[2] / "agent"))

import bundle
import sbom

ROOT = Path(__file__).parents[2]
BUNDLE = "roles/agent/files/kubenode-agent.tar.gz"


class Entry(NamedTuple):
    """Entry of the artifact: a file (its bytes) or a directory (None)."""

    data: bytes | None
    executable: bool


def main() -> int:
    """Write the artifact; print its path and digest."""
    target = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as scratch:
        galaxy = Path(sys.executable).with_name("ansible-galaxy")
        command = [galaxy, "collection", "build", "--output-path", scratch]
        done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
        if done.returncode:
            print(f"artifact: ansible-galaxy collection build failed: {done.stderr or done.stdout}", file=sys.stderr)
            return 1
        (built,) = Path(scratch).glob("*.tar.gz")
        try:
            data = normalised(built)
        except FileNotFoundError as error:
            print(f"artifact: {error}", file=sys.stderr)
            return 1
    target.mkdir(parents=True, exist_ok=True)
    temporary = target / f"{built.name}.new"
    temporary.write_bytes(data)
    temporary.replace(target / built.name)
    print(f"{target / built.name}: {len(data) // 1024} KiB, sha256 {hashlib.sha256(data).hexdigest()}")
    return 0


def normalised(built: Path) -> bytes:
    """Return an artifact of ``ansible-galaxy`` with an SBOM, sorted, without times and owners.

    Raises:
        FileNotFoundError: the artifact lacks the agent's bundle.
    """
    with tarfile.open(built) as tar:
        entries = {member.name: Entry(_content(tar, member), bool(member.mode & 0o100)) for member in tar.getmembers()}
    files = _json(entries["FILES.json"])
    manifest = _json(entries["MANIFEST.json"])
    agent = entries.get(BUNDLE, Entry(None, executable=False)).data
    if agent is None:
        raise FileNotFoundError(f"{BUNDLE} is missing; make bundle builds it")
    collection = manifest["collection_info"]
    name = f"{collection['namespace']}.{collection['name']}"
    text = sbom.of_artifact(name, collection["version"], agent, _member(agent, bundle.SBOM))
    entries[bundle.SBOM] = Entry(text, executable=False)
    digest = hashlib.sha256(text).hexdigest()
    files["files"] += [
        {
            "name": bundle.SBOM,
            "ftype": "file",
            "chksum_type": "sha256",
            "chksum_sha256": digest,
            "format": files["format"],
        }
    ]
    files["files"].sort(key=lambda file: file["name"])
    entries["FILES.json"] = Entry(_bytes(files), executable=False)
    manifest["file_manifest_file"]["chksum_sha256"] = hashlib.sha256(entries["FILES.json"].data or b"").hexdigest()
    entries["MANIFEST.json"] = Entry(_bytes(manifest), executable=False)
    return packed(entries)


def packed(entries: dict[str, Entry]) -> bytes:
    """Return the compressed archive. The two manifests come first: Ansible finds them without reading all of it."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, entry in sorted(
            entries.items(), key=lambda item: (item[0] not in ("MANIFEST.json", "FILES.json"), item[0])
        ):
            member = tarfile.TarInfo(name)
            member.mtime = bundle.EPOCH
            member.mode = 0o755 if entry.executable or entry.data is None else 0o644
            member.type = tarfile.DIRTYPE if entry.data is None else tarfile.REGTYPE
            member.size = len(entry.data or b"")
            tar.addfile(member, io.BytesIO(entry.data or b""))
    return gzip.compress(raw.getvalue(), mtime=bundle.EPOCH)


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes | None:
    if member.isdir():
        return None
    file = tar.extractfile(member) if member.isfile() else None
    if file is None:
        raise ValueError(f"{member.name} is neither a plain file nor a directory")
    return file.read()


def _member(archive: bytes, name: str) -> bytes:
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        return _content(tar, tar.getmember(name)) or b""


def _json(entry: Entry) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(entry.data or b"")
    return value


def _bytes(value: dict[str, Any]) -> bytes:
    return json.dumps(value, indent=True).encode()


if __name__ == "__main__":
    sys.exit(main())
