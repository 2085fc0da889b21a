# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make a release of this commit: every file that is published, with digests and signatures (`make release`).

    python tests/tools/release.py VERSION [--gpg KEY] [--minisign FILE] [--check | --dry-run]

Nothing is published and no tag is set: the last lines of the output have these commands. A release is refused, with all
reasons at once, if this commit is not ready for it (``refusals``). ``--check`` prints only these reasons, for which
nothing has to be built. ``--dry-run`` prints them and goes on.

``--gpg`` signs the collection's manifest with this key of GnuPG, as ``ansible-galaxy collection verify`` expects it.
``--minisign`` signs the digests of all files with this secret key. SECURITY.md has the commands that verify both.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import json
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
BUNDLE = "roles/agent/files/kubenode-agent.tar.gz"
TESTED = ".cache/results/tested.json"  # tests/tools/whole.py writes it
DIST = ".cache/dist"
SUMS = "SHA256SUMS"
ARCHITECTURES = ("amd64", "arm64")  # of the image
SEMANTIC = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?")


class ReleaseError(Exception):
    """The release cannot be made; the message says why."""


def main() -> int:
    """Check, build, sign; print what was made and what to do next."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("version", help="the version, for example 0.1.0")
    parser.add_argument("--gpg", metavar="KEY", help="the key of GnuPG that signs the collection's manifest")
    parser.add_argument("--minisign", metavar="FILE", help="the secret key of minisign that signs the digests")
    parser.add_argument("--check", action="store_true", help="print reasons against the release, and end")
    parser.add_argument("--dry-run", action="store_true", help="print reasons against the release, and go on")
    given = parser.parse_args()
    reasons = refusals(given.version)
    for reason in reasons:
        print(f"release: {reason}", file=sys.stderr)
    if reasons and not given.dry_run:
        print("release: nothing is made", file=sys.stderr)
        return 1
    if given.check:
        return 0
    target = ROOT / ".cache/release" / given.version
    try:
        made = make(target, given.version)
        sign(target, given.version, given.gpg, given.minisign)
    except (ReleaseError, OSError) as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    for name, size in made.items():
        print(f"{size // 1024:7} KiB  {name}")
    print(f"release: {target.relative_to(ROOT)} has {given.version}{' (a dry run)' if given.dry_run else ''}; next:")
    print(f"  git tag --sign v{given.version} && git push origin v{given.version}")
    print(f"  ansible-galaxy collection publish {target.relative_to(ROOT)}/kubenode-ipvs-{given.version}.tar.gz")
    return 0


def refusals(version: str) -> list[str]:
    """Return the reasons against a release of this version from this commit, in the order of the work."""
    if not SEMANTIC.fullmatch(version):
        return [f"VERSION is {version!r}, expected a semantic version such as 0.1.0"]
    reasons = [
        f"{name} has version {stated}, expected {version}"
        for name, stated in (
            ("galaxy.yml", yaml.safe_load((ROOT / "galaxy.yml").read_text(encoding="utf-8"))["version"]),
            ("agent/src/kubenode/_version.py", _agent_version()),
        )
        if stated != version
    ]
    changes = yaml.safe_load((ROOT / "changelogs/changelog.yaml").read_text(encoding="utf-8"))
    if version not in (changes.get("releases") or {}):
        reasons.append(f"changelogs/changelog.yaml has no release {version}; antsibull-changelog release writes it")
    waiting = sorted(path.name for path in (ROOT / "changelogs/fragments").glob("*.y*ml"))
    if waiting:
        reasons.append(
            f"changelogs/fragments has {', '.join(waiting)}, which no release has; antsibull-changelog release"
        )
    if changed := _git("status", "--porcelain").splitlines():
        reasons.append(f"{len(changed)} files are not committed, {changed[0].split()[-1]} first; commit them")
    if _git("tag", "--list", f"v{version}"):
        reasons.append(f"the tag v{version} exists: this version is released; choose a later one")
    commit = _git("rev-parse", "HEAD")
    tested = ROOT / TESTED
    recorded = json.loads(tested.read_text(encoding="utf-8")) if tested.exists() else {}
    if recorded.get("commit") != commit:
        reasons.append(f"no successful `make test` of commit {commit[:12]} is recorded in {TESTED}; run it")
    return reasons


def make(target: Path, version: str) -> dict[str, int]:
    """Collect all files of a release from what make has built; return name to size in bytes.

    Raises:
        ReleaseError: a file is missing.
    """
    artifact = ROOT / DIST / f"kubenode-ipvs-{version}.tar.gz"
    agent = f"kubenode-agent-{version}"
    sources = {
        artifact.name: artifact,
        f"{agent}.tar.gz": ROOT / BUNDLE,
        f"kubenode-agent_{version}_all.deb": ROOT / DIST / f"kubenode-agent_{version}_all.deb",
        f"{agent}.noarch.rpm": ROOT / DIST / f"{agent}.noarch.rpm",
        **{f"{agent}-{name}.oci.tar": ROOT / DIST / f"{agent}-{name}.oci.tar" for name in ARCHITECTURES},
    }
    for source in sources.values():
        if not source.exists():
            raise ReleaseError(f"{source.relative_to(ROOT)} is missing; make artifact packages image builds it")
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for name, source in sources.items():
        shutil.copyfile(source, target / name)
    (target / f"kubenode-ipvs-{version}.cdx.json").write_bytes(_member(artifact, "sbom.cdx.json"))
    (target / f"{agent}.cdx.json").write_bytes(_member(ROOT / BUNDLE, "sbom.cdx.json"))
    shutil.copyfile(ROOT / "CHANGELOG.md", target / "CHANGELOG.md")
    site = ROOT / ".cache/docs/html"
    if not (site / "index.html").exists():
        raise ReleaseError(f"{site.relative_to(ROOT)} is missing; make docs builds it")
    (target / f"kubenode-ipvs-docs-{version}.tar.gz").write_bytes(_packed(site, f"kubenode-ipvs-docs-{version}"))
    return {path.name: path.stat().st_size for path in sorted(target.iterdir())}


def sign(target: Path, version: str, gpg: str | None, minisign: str | None) -> None:
    """Write the digests of all files, and the signatures for which there is a key.

    Raises:
        ReleaseError: ``gpg`` or ``minisign`` failed.
    """
    if gpg:
        manifest = target / f"kubenode-ipvs-{version}.MANIFEST.json"
        manifest.write_bytes(_member(target / f"kubenode-ipvs-{version}.tar.gz", "MANIFEST.json"))
        _run(["gpg", "--batch", "--yes", "--local-user", gpg, "--armor", "--detach-sign", str(manifest)])
        manifest.unlink()
    sums = target / SUMS
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(target.iterdir())]
    sums.write_text("".join(lines), encoding="utf-8")
    if minisign:
        _run(["minisign", "-S", "-s", minisign, "-t", f"kubenode.ipvs {version}", "-m", str(sums)])


def _agent_version() -> str:
    text = (ROOT / "agent/src/kubenode/_version.py").read_text(encoding="utf-8")
    match = re.search(r'^VERSION = "([^"]+)"', text, re.MULTILINE)
    return match[1] if match else ""


def _member(archive: Path, name: str) -> bytes:
    with tarfile.open(archive) as tar:
        file = tar.extractfile(name)
        return file.read() if file else b""


def _packed(directory: Path, top: str) -> bytes:
    """Return a directory as an archive in which nothing but the files' names and content counts."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for path in sorted(path for path in directory.rglob("*") if path.is_file()):
            member = tarfile.TarInfo(f"{top}/{path.relative_to(directory)}")
            member.size, member.mtime, member.mode = path.stat().st_size, 315532800, 0o644
            with path.open("rb") as file:
                tar.addfile(member, file)
    return gzip.compress(packed.getvalue(), mtime=0)


def _git(*words: str) -> str:
    return _run(["git", "-C", str(ROOT), *words])


def _run(command: list[str]) -> str:
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise ReleaseError(f"{command[0]} is missing; requirements/debian.txt names its package") from error
    if done.returncode:
        raise ReleaseError(f"{' '.join(command[:4])} failed: {(done.stderr or done.stdout).strip()}")
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
