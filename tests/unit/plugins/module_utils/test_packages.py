# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What package managers are called with, and what of their answers is understood."""

from __future__ import annotations

import pytest

from ansible_collections.kubenode.ipvs.plugins.module_utils import _packages

FAMILIES = sorted(_packages.MANAGERS)
SOURCES = ["repositories", "mirror", "files"]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("source", SOURCES)
def test_every_source_of_every_manager_names_the_packages_and_asks_nothing(family: str, source: str) -> None:
    called = _packages.commands(family, source, ["one", "two"], "/work", "http://mirror.example/x")
    assert called[-1][-2:] == ["one", "two"]
    words = [word for command in called for word in command]
    assert {"--yes", "--assumeyes", "--noconfirm", "--non-interactive"} & set(words)
    assert not [word for word in words if "{" in word]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_mirror_is_named_in_a_file_of_ours_alone(family: str) -> None:
    name, text = _packages.MANAGERS[family].lists
    assert text.count("{mirror}") >= 1
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
    (zypper,) = _packages.commands("suse", "files", ["/tmp/a.rpm"])
    assert "--no-remote" in zypper
    (pacman,) = _packages.commands("arch", "files", ["/tmp/a.pkg.tar.zst"])
    assert "--refresh" not in pacman


class Answers:
    """A node's tools: what each command answers, by its words."""

    def __init__(self, answers: dict[str, tuple[int, str]]) -> None:
        self.answers = answers

    def __call__(self, command: list[str]) -> tuple[int, str]:
        return self.answers[" ".join(command)]


def test_what_is_missing() -> None:
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
    assert _packages.missing(Answers({"pacman --deptest ipset ipvsadm": (127, "ipvsadm\n")}), "arch", ["ipset", "ipvsadm"]) == [
        "ipvsadm"
    ]


def test_only_what_is_newer_than_installed_is_given_to_apt() -> None:
    show, query = (
        "dpkg-deb --show --showformat=${Package} ${Version} ",
        "dpkg-query --show --showformat=${db:Status-Status} ${Version} ",
    )
    answers = Answers(
        {
            show + "/a.deb": (0, "a 2"),
            show + "/b.deb": (0, "b 2"),
            show + "/c.deb": (0, "c 2"),
            query + "a": (0, "installed 1"),
            query + "b": (0, "installed 2"),
            query + "c": (1, ""),
            "dpkg --compare-versions 1 lt 2": (0, ""),
            "dpkg --compare-versions 2 lt 2": (1, ""),
        }
    )
    assert _packages.newer(answers, "debian", ["/a.deb", "/b.deb", "/c.deb"]) == ["/a.deb", "/c.deb"]
    assert _packages.newer(answers, "arch", ["/a", "/b"]) == ["/a", "/b"]


def test_zypper_ends_with_advice_and_has_done_its_work() -> None:
    # ZYPPER_EXIT_INF_REBOOT_NEEDED, _INF_RESTART_NEEDED, _INF_REPOS_SKIPPED in zypper(8)
    assert {family: manager.done for family, manager in _packages.MANAGERS.items() if manager.done != (0,)} == {
        "suse": (0, 102, 103, 106)
    }
