# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Commands of package managers, and the output that the module parses."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.kubenode.ipvs.plugins.module_utils._host import packages as _packages

FAMILIES = sorted(_packages.MANAGERS)
SOURCES = ["repositories", "mirror", "files"]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("source", SOURCES)
def test_package_commands_name_packages_and_do_not_prompt(family: str, source: str) -> None:
    called = _packages.commands(family, source, ["one", "two"], "/work", "http://mirror.example/x")
    assert called[-1][-2:] == ["one", "two"]
    words = [word for command in called for word in command]
    assert {"--yes", "--assumeyes", "--noconfirm", "--non-interactive"} & set(words)
    assert not [word for word in words if "{" in word]


@pytest.mark.parametrize("family", FAMILIES)
def test_mirror_is_written_to_a_temporary_file_only(family: str, tmp_path: Path) -> None:
    (tmp_path / "pacman.conf").write_text(
        "# [core]\n[options]\nSigLevel = Required\n[core]\nServer = http://elsewhere.example\n"
    )
    for key in ("b", "a"):
        (tmp_path / f"RPM-GPG-KEY-{key}").touch()
    given = ("http://mirror.example/x", str(tmp_path / "pacman.conf"), str(tmp_path))
    name, text = _packages.mirror_list(family, *given)
    assert "http://mirror.example/x" in text
    assert "elsewhere" not in text
    assert not set("{}") & set(text)
    assert ("SigLevel = Required\n[core]" in text) == (family == "arch")
    assert (f"gpgkey=file://{tmp_path}/RPM-GPG-KEY-a file://{tmp_path}/RPM-GPG-KEY-b\n" in text) == (family == "redhat")
    for command in _packages.commands(family, "mirror", ["one"], "/work", "http://mirror.example/x"):
        assert [word for word in command if "/work" in word]
        assert not [word for word in command if "/etc" in word]
    assert name in {"sources.list", "kubenode.repo", "pacman.conf"}


def test_files_are_installed_without_network() -> None:
    (apt,) = _packages.commands("debian", "files", ["/tmp/a.deb"])
    assert {"Dir::Etc::SourceList=/dev/null", "Dir::Etc::SourceParts=/dev/null"} <= set(apt)
    assert "update" not in apt
    (dnf,) = _packages.commands("redhat", "files", ["/tmp/a.rpm"], "/work")
    assert "--setopt=reposdir=/work" in dnf
    (zypper,) = _packages.commands("suse", "files", ["/tmp/a.rpm"], "/work")
    assert zypper[zypper.index("--reposd-dir") + 1] == "/work"
    (pacman,) = _packages.commands("arch", "files", ["/tmp/a.pkg.tar.zst"])
    assert "--refresh" not in pacman


@pytest.mark.parametrize("family", FAMILIES)
def test_unsigned_packages_are_allowed_for_given_files_alone(family: str) -> None:
    unchecked = ("unsigned", "nogpg", "no-gpg", "gpgcheck", "allow-unauthenticated", "siglevel", "trusted=yes")
    for source in ("repositories", "mirror"):
        words = [
            word.lower()
            for command in _packages.commands(family, source, ["one"], "/work", "http://m")
            for word in command
        ]
        assert [word for word in words if any(option in word for option in unchecked)] == []
    words = [word for command in _packages.commands(family, "files", ["/one"], "/work") for word in command]
    assert [word for word in words if any(option in word.lower() for option in unchecked)] == (
        ["--allow-unsigned-rpm"] if family == "suse" else []
    )


class Answers:
    """A node's tools: the answer to each command, by its words."""

    def __init__(self, answers: dict[str, tuple[int, str]]) -> None:
        self.answers = answers

    def __call__(self, command: list[str]) -> tuple[int, str]:
        return self.answers[" ".join(command)]


def test_missing_packages_are_determined() -> None:
    dpkg = "dpkg-query --show --showformat=${Package} ${db:Status-Status}\n ipset ipvsadm conntrack"
    debian = Answers({dpkg: (1, "ipset installed\nipvsadm config-files\n")})
    assert _packages.missing(debian, "debian", ["ipset", "ipvsadm", "conntrack"]) == ["ipvsadm", "conntrack"]
    answers = {
        "rpm --query ipset": (0, "ipset-7.11"),
        "rpm --query iptables": (1, ""),
        "rpm --query --whatprovides iptables": (0, ""),
    }
    answers |= {"rpm --query ipvsadm": (1, ""), "rpm --query --whatprovides ipvsadm": (1, "")}
    for family in ("redhat", "suse"):
        assert _packages.missing(Answers(answers), family, ["ipset", "iptables", "ipvsadm"]) == ["ipvsadm"]
    assert _packages.missing(
        Answers({"pacman --deptest ipset ipvsadm": (127, "ipvsadm\n")}), "arch", ["ipset", "ipvsadm"]
    ) == ["ipvsadm"]


def test_zypper_advice_status_counts_as_success() -> None:
    # ZYPPER_EXIT_INF_REBOOT_NEEDED, _INF_RESTART_NEEDED, _INF_REPOS_SKIPPED in zypper(8)
    assert {family: manager.done for family, manager in _packages.MANAGERS.items() if manager.done != (0,)} == {
        "suse": (0, 102, 103, 106)
    }
