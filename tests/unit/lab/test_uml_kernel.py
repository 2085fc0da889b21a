# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The built user-mode kernel: which one serves, and where its source comes from. `make test` builds it."""

from __future__ import annotations

from pathlib import Path

import pytest
from lab import mirror, uml_kernel
from lab.errors import HostError


def built(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a directory be that of the built kernel."""
    monkeypatch.setattr(uml_kernel, "PROGRAM", directory / "linux")
    monkeypatch.setattr(uml_kernel, "MODULES", directory / "modules")


def test_version_is_that_of_the_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules are in a directory with the kernel's version; without the program there is no kernel."""
    built(tmp_path, monkeypatch)
    (tmp_path / "modules/7.2.13-lab-01234567").mkdir(parents=True)
    assert uml_kernel.version() is None
    (tmp_path / "linux").touch()
    assert uml_kernel.version() == "7.2.13-lab-01234567"


def test_no_mirror_has_the_source(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the releases that have the source, and the package."""
    monkeypatch.setattr(mirror, "has_suite", lambda _source: False)
    with pytest.raises(HostError, match=r"trixie-backports or sid.*linux-source-7\.2"):
        uml_kernel._sources()


def test_sources_are_those_of_the_main_archive(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mirror in LAB_MIRROR is asked first; archives of security updates are not asked."""
    archives = [mirror.Source("http://main", "bookworm"), mirror.Source("http://security", "bookworm-security")]
    monkeypatch.setattr(mirror, "host_sources", lambda: archives)
    monkeypatch.setattr(mirror, "host_release", lambda: "bookworm")
    monkeypatch.setattr(mirror, "has_suite", lambda source: source != ("http://mine", "trixie-backports"))
    monkeypatch.setenv(mirror.OVERRIDE, "http://mine")
    assert uml_kernel._sources() == [
        ("http://main", "trixie-backports"),
        ("http://mine", "sid"),
        ("http://main", "sid"),
    ]


def test_configuration_names_each_option_once() -> None:
    """A second line for an option would silently win."""
    lines = Path(uml_kernel.__file__).with_name("uml.config").read_text().splitlines()
    names = [line.partition("=")[0] for line in lines if line.startswith("CONFIG_")]
    assert len(names) > 300
    assert sorted(set(names)) == sorted(names)
