#!/usr/bin/env python3
# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make the agent's packages for Debian's and for RPM's family from the bundle (`make packages`).

    python agent/packages.py DIRECTORY

Both packages have the same files: the bundle's content in /usr/lib/kubenode-agent, the unit of the role agent with the
role's defaults, a configuration that the administrator owns, and the command with its completions. ``dpkg-deb`` and
``rpmbuild`` write the formats. The same content gives the same bytes.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import bundle
import sbom
import yaml
from jinja2 import Environment, StrictUndefined

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME = "kubenode-agent"
PARTS = bundle.AGENT / "packaging"
ROLE = bundle.ROOT / "roles/agent"
LIBRARY = f"usr/lib/{NAME}"
CONFIGURATION = "etc/kubenode/config.yaml"
COMMAND = "usr/bin/kubenode"
SUMMARY = "Kubernetes service proxy in IPVS mode"
DESCRIPTION = """\
kubenode-agent balances the Services of a Kubernetes node by IPVS, as kube-proxy
did in mode ipvs. It reads kube-proxy's configuration and makes the same kernel
state. The command kubenode shows, explains and checks that state."""
COMPLETIONS = {
    "bash": "usr/share/bash-completion/completions/kubenode",
    "zsh": "usr/share/zsh/vendor-completions/_kubenode",
    "fish": "usr/share/fish/vendor_completions.d/kubenode.fish",
}
# Debian's name of a script -> the text of agent/packaging in it, and the line that ends it when it does not apply.
DEB_SCRIPTS = {
    "postinst": ("configure", '[ "$1" = configure ] || exit 0'),
    "prerm": ("remove", '[ "$1" = remove ] || exit 0'),
    "postrm": ("removed", "case $1 in remove) ;; purge) rm -rf /var/lib/kubenode/agent ;; *) exit 0 ;; esac"),
}


class File(NamedTuple):
    """A file of the packages: its bytes or the target of a link, and whether it is a program."""

    data: bytes = b""
    link: str = ""
    executable: bool = False


class PackageError(Exception):
    """A package cannot be made; the message is what the tool printed."""


def main() -> int:
    """Write both packages; print their paths and digests."""
    target = Path(sys.argv[1]).resolve()
    target.mkdir(parents=True, exist_ok=True)
    try:
        files = contents()
        for make in (deb, rpm):
            built = make(files, target)
            print(
                f"{built}: {built.stat().st_size // 1024} KiB, sha256 {hashlib.sha256(built.read_bytes()).hexdigest()}"
            )
    except (bundle.BundleError, PackageError) as error:
        print(f"packages: {error}", file=sys.stderr)
        return 1
    return 0


def contents() -> dict[str, File]:
    """Return every file of the packages: path without the leading slash, to file.

    Raises:
        bundle.BundleError: the bundle cannot be made.
        PackageError: the agent's command failed.
    """
    release = bundle.with_manifest(bundle.contents())
    files = {
        f"{LIBRARY}/{name}": File(data, executable=name.startswith("bin/")) for name, data in sorted(release.items())
    }
    with tempfile.TemporaryDirectory() as scratch:
        for name, data in release.items():
            path = Path(scratch, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        for shell, completion in COMPLETIONS.items():
            command = [sys.executable, "-IS", f"{scratch}/bin/kubenode", "completion", shell]
            files[completion] = File(_run(command).stdout)
    role = variables()
    files |= {
        COMMAND: File(link=f"../lib/{NAME}/bin/kubenode"),
        CONFIGURATION: File((PARTS / "config.yaml").read_bytes()),
        f"usr/lib/systemd/system/{NAME}.service": File(unit(role).encode()),
        f"usr/lib/sysusers.d/{NAME}.conf": File(
            f'u {role["agent_user"]} - "Service proxy" /var/lib/kubenode/agent\n'.encode()
        ),
        f"usr/share/doc/{NAME}/copyright": File(link=f"../../../lib/{NAME}/COPYING"),
    }
    return files


def variables() -> dict[str, Any]:
    """Return the defaults and variables of the role agent, with what is different in a package."""
    known: dict[str, Any] = {}
    for part in ("defaults", "vars"):
        known.update(yaml.safe_load((ROLE / part / "main.yml").read_text(encoding="utf-8")))
    return {
        **known,
        "agent_arguments": [],
        "agent_origin": f"From the package {NAME}",
        "agent_program": f"/{LIBRARY}/bin/kubenode",
    }


def unit(role: dict[str, Any]) -> str:
    """Return the text of the unit for these variables of the role agent."""
    template = (ROLE / f"templates/{NAME}.service.j2").read_text(encoding="utf-8")
    return _fill(template, role)


def _fill(template: str, values: dict[str, Any]) -> str:
    environment = Environment(undefined=StrictUndefined, keep_trailing_newline=True)
    return environment.from_string(template).render(**values)


def deb(files: dict[str, File], target: Path) -> Path:
    """Write the package for Debian's family into a directory; return its path.

    Raises:
        PackageError: ``dpkg-deb`` is missing or failed.
    """
    built = target / f"{NAME}_{sbom.version()}_all.deb"
    fields = {
        "Package": NAME,
        "Version": sbom.version(),
        "Architecture": "all",
        "Maintainer": "The kubenode.ipvs authors <kubenode@users.noreply.github.com>",
        "Installed-Size": str(sum(len(file.data) for file in files.values()) // 1024),
        "Depends": "python3 (>= 3.9), systemd",
        "Recommends": "kmod",
        "Section": "net",
        "Priority": "optional",
        "Homepage": "https://github.com/kubenode/ipvs",
        "Description": SUMMARY + "".join(f"\n {line}" for line in DESCRIPTION.splitlines()),
    }
    control = {
        "DEBIAN/control": File("".join(f"{name}: {value}\n" for name, value in fields.items()).encode()),
        "DEBIAN/conffiles": File(f"/{CONFIGURATION}\n".encode()),
        **{
            f"DEBIAN/{name}": File(f"#!/bin/sh\nset -e\n{applies}\n{script(part)}".encode(), executable=True)
            for name, (part, applies) in DEB_SCRIPTS.items()
        },
    }
    with tempfile.TemporaryDirectory() as scratch:
        stage(Path(scratch), {**files, **control})
        _run(["dpkg-deb", "--root-owner-group", "-Zxz", "--build", scratch, str(built)])
    return built


def rpm(files: dict[str, File], target: Path) -> Path:
    """Write the package for RPM's family into a directory; return its path.

    Raises:
        PackageError: ``rpmbuild`` is missing or failed.
    """
    with tempfile.TemporaryDirectory() as scratch:
        staging = Path(scratch, "staging")
        files = {name.replace("zsh/vendor-completions", "zsh/site-functions"): file for name, file in files.items()}
        stage(staging, files)
        specification = Path(scratch, f"{NAME}.spec")
        filled = {
            "version": sbom.version(),
            "summary": SUMMARY,
            "description": DESCRIPTION,
            "staging": str(staging),
            "files": "\n".join(_rpm_lines(files)),
            **{part: script(part) for part, _applies in DEB_SCRIPTS.values()},
        }
        specification.write_text(_fill((PARTS / f"{NAME}.spec").read_text(encoding="utf-8"), filled), encoding="utf-8")
        command = ["rpmbuild", "--quiet", "-bb", "--target", "noarch", "--define", f"_topdir {scratch}"]
        command += ["--define", f"_rpmdir {scratch}/rpms", "--define", "_rpmfilename %{NAME}-%{VERSION}.noarch.rpm"]
        _run([*command, str(specification)])
        (made,) = Path(scratch, "rpms").iterdir()
        built = target / made.name
        built.write_bytes(made.read_bytes())
    return built


def _rpm_lines(files: dict[str, File]) -> Iterator[str]:
    """Yield the lines of RPM's list of files: those of the package, and the directories that only it has."""
    for directory in sorted({str(parent) for name in files for parent in Path(name).parents} - {"."}):
        if directory.startswith((LIBRARY, "etc/kubenode", f"usr/share/doc/{NAME}")):
            yield f"%dir %attr(0755,root,root) /{directory}"
    for name, file in sorted(files.items()):
        mode = "-" if file.link else "0755" if file.executable else "0644"
        yield f"{'%config(noreplace) ' if name == CONFIGURATION else ''}%attr({mode},root,root) /{name}"


def script(part: str) -> str:
    """Return one of the scripts of agent/packaging."""
    return (PARTS / part).read_text(encoding="utf-8")


def stage(directory: Path, files: dict[str, File]) -> None:
    """Write files below a directory, with the modes and the time that the package gives them."""
    directory.mkdir(mode=0o755, exist_ok=True)
    for name, file in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if file.link:
            path.symlink_to(file.link)
        else:
            path.write_bytes(file.data)
            path.chmod(0o755 if file.executable else 0o644)
    for path in [directory, *directory.rglob("*")]:
        if path.is_dir():
            path.chmod(0o755)
        os.utime(path, (bundle.EPOCH, bundle.EPOCH), follow_symlinks=False)


def _run(command: list[str]) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(bundle.EPOCH), "LC_ALL": "C.UTF-8", "TZ": "UTC"}
    try:
        done = subprocess.run(command, check=False, capture_output=True, env=environment)
    except FileNotFoundError as error:
        raise PackageError(f"{command[0]} is missing; requirements/debian.txt names its package") from error
    if done.returncode:
        raise PackageError(f"{command[0]} failed: {(done.stdout + done.stderr).decode(errors='replace').strip()}")
    return done


if __name__ == "__main__":
    sys.exit(main())
