# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Completions that the real shells offer after some words, with the script for each shell."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kubenode.cli import main
from kubenode.cli.commands import COMMANDS
from kubenode.cli.completion import SHELLS

BASH = """
COMP_WORDS=(kubenode {words} "{last}"); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _kubenode; \
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
# zsh defines these functions only while a line is edited. The replacements print what they are offered.
ZSH = """
compdef() {{ }}
compadd() {{ local word; for word in "${{@[2,-1]}}"; do [[ $word == "{last}"* ]] && print -r -- $word; done; return 0 }}
_describe() {{ local word; for word in "${{(@P)2}}"; do compadd -- "${{word%%:*}}"; done }}
_files() {{ print -r -- *(N) | tr ' ' '\\n' | grep "^{last}" }}
source {script}
words=(kubenode {words} "{last}"); CURRENT=$#words; _kubenode
"""
FISH = """
source {script}
complete -C "kubenode {words} {last}" | string replace -r '\\t.*' ''
"""
ASKING = {
    "bash": (["bash", "-c"], "source {script}\n" + BASH),
    "zsh": (["zsh", "-fc"], ZSH),
    "fish": (["fish", "--no-config", "-c"], FISH),
}


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("completion")
    (path / "objects.json").touch()
    return path


def offered(shell: str, words: str, last: str, directory: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    assert main(["completion", shell]) == 0
    script = directory.parent / f"script.{shell}"
    script.write_text(capsys.readouterr().out)
    command, text = ASKING[shell]
    home = {"HOME": str(directory.parent), "PATH": "/usr/bin:/bin"}
    asked = text.format(script=script, words=words, last=last)
    done = subprocess.run([*command, asked], cwd=directory, env=home, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return sorted(done.stdout.split())


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("words", "last", "wanted"),
    [
        ("", "", sorted(COMMANDS)),
        ("", "st", ["status"]),
        ("render --format", "", ["addresses", "ip6tables", "ipset", "iptables", "ipvsadm", "json", "nft"]),
        ("run --manifests /x --log-level", "e", ["error"]),
        ("apply", "--ad", ["--adopt"]),
        ("status --format json", "--w", ["--wait"]),
        ("status --wait", "", []),
        ("completion", "", ["bash", "fish", "zsh"]),
        ("plan --objects", "obj", ["objects.json"]),
        ("render --node", "", []),
    ],
)
def test_completion_offers_matching_words(
    shell: str, words: str, last: str, wanted: list[str], directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    matching = offered(shell, words, last, directory, capsys)
    assert [word for word in matching if last.startswith("--") or not word.startswith("--")] == wanted


@pytest.mark.parametrize("shell", SHELLS)
def test_completion_offers_every_option(shell: str, directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in COMMANDS:
        with pytest.raises(SystemExit):
            main([command, "--help"])
        text = capsys.readouterr().out
        options = {
            word.strip(",[]")
            for word in text.partition("\noptions:")[2].split("\n\n")[0].split()
            if word.startswith("--")
        }
        assert "--help" in options
        assert set(offered(shell, command, "--", directory, capsys)) == options
