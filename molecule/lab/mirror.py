# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Mirrors of Debian packages: those of this machine's own apt configuration, for any release."""

from __future__ import annotations

import os
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, NamedTuple

from .command import run
from .errors import HostError

if TYPE_CHECKING:
    from collections.abc import Callable

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
OVERRIDE = "LAB_MIRROR"  # base address of an archive to ask first, for releases that the usual mirror has dropped
_SUITES = ("", "-updates", "-security")


class Source(NamedTuple):
    """One archive and suite that apt on this machine uses."""

    uri: str
    suite: str


def host_sources() -> list[Source]:
    """Return archive and suite of every package index configured in this machine's apt."""
    output = run(["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE)", "Created-By: Packages"])
    return list(dict.fromkeys(Source(*line.split()) for line in output.splitlines() if len(line.split()) == 2))


def host_release() -> str:
    """Return the code name of this machine's Debian."""
    with open("/etc/os-release") as lines:
        fields = dict(line.rstrip().split("=", 1) for line in lines if "=" in line)
    return fields.get("VERSION_CODENAME", "").strip('"')


def has_suite(source: Source) -> bool:
    """Tell whether an HTTP mirror has a suite; mirrors of other kinds are assumed to have it."""
    if not source.uri.startswith(("http:", "https:")):
        return True
    for name in ("InRelease", "Release"):
        try:
            with urllib.request.urlopen(f"{source.uri.rstrip('/')}/dists/{source.suite}/{name}", timeout=15) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, TimeoutError):
            continue
    return False


def sources_for(
    release: str, configured: list[Source], running: str, has: Callable[[Source], bool] = has_suite
) -> list[Source]:
    """Return the archives to build a release from; the first is the main one.

    Args:
        release: code name to build.
        configured: archives and suites of this machine's apt.
        running: code name of this machine.
        has: tells whether a mirror has a suite.

    Raises:
        HostError: no configured mirror has the release.
    """
    override = os.environ.get(OVERRIDE)
    sources = []
    for suffix in _SUITES:
        candidates = [Source(uri, release + suffix) for uri, suite in configured if suite == running + suffix]
        if override and suffix != "-security":
            candidates.insert(0, Source(override, release + suffix))
        sources += [source for source in candidates if has(source)][:1]
    if not sources or sources[0].suite != release:
        tried = (
            ", ".join(sorted({uri for uri, _ in configured} | ({override} if override else set()))) or "none configured"
        )
        raise HostError(
            f"no package mirror with Debian {release} (tried: {tried}); set {OVERRIDE} to the address of an archive"
            " that has it"
        )
    return sources


def source_line(source: Source) -> str:
    """Write a source as a line of ``sources.list``."""
    return f"deb [signed-by={KEYRING}] {source.uri} {source.suite} main"


def apt_options() -> list[str]:
    """Return this machine's apt settings for access to its mirrors (proxies, tolerance for old snapshots)."""
    wanted = ("Acquire::http", "Acquire::https", "Acquire::Check-", "Acquire::Retries")
    return [line for line in run(["apt-config", "dump"]).splitlines() if line.startswith(wanted) and '""' not in line]
