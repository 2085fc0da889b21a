# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The agent's .deb and .rpm: reproducible, with the bundle's files and the role's unit; rpm accepts its package.

The scenario sandbox installs the .deb on nodes. No node of the lab has RPM.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.source_copy import ROOT, copy_source

sys.path.insert(0, str(ROOT / "agent"))

import bundle
import packages

DEB, RPM = "kubenode-agent_0.1.0_all.deb", "kubenode-agent-0.1.0.noarch.rpm"


def build(source: Path, umask: int, **environment: str) -> Path:
    """Build both packages of a copy of the source; return their directory."""
    target = source / ".cache/dist"
    done = subprocess.run(
        [sys.executable, "agent/packages.py", str(target)],
        cwd=source,
        env={**os.environ, **environment},
        umask=umask,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return target


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(copy_source(tmp_path_factory.mktemp("one")), 0o022)


@pytest.fixture(scope="module")
def unpacked(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory with the files of the .deb."""
    directory = tmp_path_factory.mktemp("unpacked")
    subprocess.run(["dpkg-deb", "--extract", built / DEB, directory], check=True)
    return directory


def query(*words: str | Path) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def test_package_bytes_depend_on_the_source_only(built: Path, tmp_path: Path) -> None:
    source = copy_source(tmp_path / "another directory", backwards=True)
    other = build(source, 0o077, TZ="Asia/Tokyo", LC_ALL="C", PYTHONHASHSEED="7", HOME=str(tmp_path), USER="somebody")
    for name in (DEB, RPM):
        assert (other / name).read_bytes() == (built / name).read_bytes(), name


def test_package_has_every_file_of_the_bundle(unpacked: Path) -> None:
    library = unpacked / "usr/lib/kubenode-agent"
    files = {str(path.relative_to(library)): path.read_bytes() for path in library.rglob("*") if path.is_file()}
    assert files == bundle.with_manifest(bundle.contents())


def test_unit_is_the_role_s_with_another_program(unpacked: Path) -> None:
    role = packages.variables() | {
        "agent_origin": "Written by the role kubenode.ipvs.agent",
        "agent_program": "/opt/kubenode/current/bin/kubenode",
    }
    theirs = packages.unit(role).splitlines()
    ours = (unpacked / "usr/lib/systemd/system/kubenode-agent.service").read_text().splitlines()
    assert [(one, other) for one, other in zip(theirs, ours, strict=False) if one != other] == [
        (theirs[0], "# From the package kubenode-agent; changes made here are lost (systemctl edit adds to it)."),
        (
            "ExecStart=/usr/bin/python3 -IS /opt/kubenode/current/bin/kubenode run ",
            "ExecStart=/usr/bin/python3 -IS /usr/lib/kubenode-agent/bin/kubenode run ",
        ),
    ]
    assert len(theirs) == len(ours)


def test_packaged_command_runs_with_the_packaged_library(unpacked: Path) -> None:
    command = unpacked / "usr/bin/kubenode"
    assert query(sys.executable, "-BIS", command, "--version").split()[-1] == "0.1.0"
    assert str(command.resolve()).startswith(str(unpacked / "usr/lib/kubenode-agent"))


def test_packaged_configuration_is_accepted_by_the_agent(unpacked: Path) -> None:
    command, path = unpacked / "usr/bin/kubenode", unpacked / "etc/kubenode/config.yaml"
    words = [sys.executable, "-BIS", command, "render", "--node", "n1", "--config", path, "--format", "iptables"]
    objects = unpacked / "objects.yaml"
    objects.write_text("apiVersion: v1\nkind: List\nitems: []\n")
    assert ":KUBE-SERVICES" in query(*words, "--objects", objects)


def test_configuration_is_the_administrator_s_in_both(built: Path, tmp_path: Path) -> None:
    subprocess.run(["dpkg-deb", "--control", built / DEB, tmp_path / "control"], check=True)
    assert (tmp_path / "control/conffiles").read_text() == "/etc/kubenode/config.yaml\n"
    assert query("rpm", "-qp", "--configfiles", built / RPM).split() == ["/etc/kubenode/config.yaml"]


def test_rpm_has_the_files_of_the_deb(built: Path, unpacked: Path) -> None:
    listed = query("rpm", "-qp", "--qf", "[%{FILENAMES} %{FILEMODES:octal} %{FILEUSERNAME}\n]", built / RPM)
    modes = {path: (int(mode, 8), user) for path, mode, user in map(str.split, listed.splitlines())}
    assert {user for _mode, user in modes.values()} == {"root"}
    ours = {f"/{path.relative_to(unpacked)}": path.lstat().st_mode for path in unpacked.rglob("*") if not path.is_dir()}
    ours.pop("/objects.yaml", None)  # of another test
    ours["/usr/share/zsh/site-functions/_kubenode"] = ours.pop("/usr/share/zsh/vendor-completions/_kubenode")
    assert {path: mode for path, (mode, _user) in modes.items() if path in ours} == ours
    assert [path for path, (mode, _user) in modes.items() if path not in ours and mode & 0o170000 != 0o040000] == []


def test_rpm_installs_and_leaves_nothing(built: Path, tmp_path: Path) -> None:
    """Without scripts: they need a node, and are the same as those of the .deb, which nodes run."""
    root = ["--root", str(tmp_path / "root"), "--nodeps", "--noscripts"]
    (tmp_path / "root").mkdir()
    subprocess.run(["rpm", *root, "--install", built / RPM], check=True)
    assert (tmp_path / "root/usr/bin/kubenode").is_symlink()
    subprocess.run(["rpm", "--root", str(tmp_path / "root"), "--verify", "--nodeps", "kubenode-agent"], check=True)
    subprocess.run(["rpm", *root, "--erase", "kubenode-agent"], check=True)
    left = [path for path in (tmp_path / "root").rglob("*") if path.is_file() and "rpmdb" not in str(path)]
    assert left == []


@pytest.mark.parametrize("name", ["configure", "remove", "removed"])
def test_scripts_are_the_same_in_both(built: Path, tmp_path: Path, name: str) -> None:
    text = packages.script(name)
    subprocess.run(["dpkg-deb", "--control", built / DEB, tmp_path / "control"], check=True)
    assert [path.name for path in (tmp_path / "control").iterdir() if text in path.read_text()] != []
    assert text.strip() in query("rpm", "-qp", "--scripts", built / RPM)
    subprocess.run(["shellcheck", "--shell=sh", packages.PARTS / name], check=True)
