"""Make bundles of the agent that have something wrong with them, or nothing, from the good one.

python broken.py GOOD DIRECTORY
"""

from __future__ import annotations

import gzip
import hashlib
import io
import sys
import tarfile
from pathlib import Path

# What is put before the agent's command.
BEGINNINGS = {
    "next": b"# The next release.\n",
    "unfit": b"import sys\nif 'check' in sys.argv:\n    sys.exit('FAIL  this release wants another kernel')\n",
    "hanging": b"import sys, time\nif 'run' in sys.argv:\n    print('hanging', flush=True)\n    time.sleep(600)\n",
}


def with_manifest(files: dict[str, bytes]) -> dict[str, bytes]:
    """Return the files with a manifest that fits them."""
    others = {path: data for path, data in files.items() if path != "SHA256SUMS"}
    lines = [f"{hashlib.sha256(data).hexdigest()}  {path}\n" for path, data in others.items()]
    return {**others, "SHA256SUMS": "".join(lines).encode()}


def main() -> None:
    """Write one bundle for each beginning."""
    with tarfile.open(sys.argv[1]) as good:
        files = {member.name: good.extractfile(member).read() for member in good.getmembers()}
    for name, beginning in BEGINNINGS.items():
        shebang, _newline, rest = files["bin/kubenode"].partition(b"\n")
        raw = io.BytesIO()
        with tarfile.open(fileobj=raw, mode="w") as bundle:
            for path, data in with_manifest({**files, "bin/kubenode": shebang + b"\n" + beginning + rest}).items():
                member = tarfile.TarInfo(path)
                member.size = len(data)
                member.mode = 0o755 if path.startswith("bin/") else 0o644
                bundle.addfile(member, io.BytesIO(data))
        Path(sys.argv[2], f"{name}.tar.gz").write_bytes(gzip.compress(raw.getvalue(), compresslevel=1, mtime=0))


if __name__ == "__main__":
    main()
