# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Print a script for the shell's completion.

  kubenode completion bash >/etc/bash_completion.d/kubenode

Exit status: 0 printed, 64 wrong usage.
"""

from __future__ import annotations

import argparse

_BASH = """\
# bash completion for kubenode; made by: kubenode completion bash
_kubenode() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}} command=${{COMP_WORDS[1]}}
  local words=""
  if [ "$COMP_CWORD" -eq 1 ]; then
    words="{commands} --help --version"
  else
    case "$command $previous" in
{choices}
    *\\ --config|*\\ --objects|*\\ --manifests|*\\ --run-dir) COMPREPLY=($(compgen -f -- "$current")); return ;;
    *) case "$command" in
{options}
      esac ;;
    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o filenames -F _kubenode kubenode
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's arguments."""
    parser.add_argument("shell", choices=("bash",), help="the shell")


def run(_options: argparse.Namespace) -> int:
    """Print the script, from the commands' own parsers."""
    from . import COMMANDS
    from .parser import parser

    choices, options = [], []
    for command in COMMANDS:
        found, _module = parser(command)
        words: list[str] = []
        for action in found._actions:
            words.extend(action.option_strings or map(str, action.choices or ()))
            if action.choices and action.option_strings:
                values = " ".join(map(str, action.choices))
                choices.append(f'    "{command} {action.option_strings[-1]}") words="{values}" ;;')
        options.append(f'      {command}) words="{" ".join(words)}" ;;')
    print(_BASH.format(commands=" ".join(COMMANDS), choices="\n".join(choices), options="\n".join(options)), end="")
    return 0
