# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Print a shell completion script.

  kubenode completion bash >/etc/bash_completion.d/kubenode
  kubenode completion zsh >/usr/share/zsh/vendor-completions/_kubenode
  kubenode completion fish >/etc/fish/completions/kubenode.fish

Exit status: 0 printed, 64 wrong usage.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import NamedTuple

_BASH = """\
# bash completion for kubenode; made by: kubenode completion bash
_kubenode() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}} words=""
  if [ "$COMP_CWORD" -eq 1 ]; then
    words="{commands} --help --version"
  else
    case "${{COMP_WORDS[1]}} $previous" in
{files}) COMPREPLY=($(compgen -f -- "$current")); return ;;
{values}
{free}) return ;;
{options}
    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o filenames -F _kubenode kubenode
"""
_ZSH = """\
#compdef kubenode
# zsh completion for kubenode; made by: kubenode completion zsh
_kubenode() {{
  local -a found
  if (( CURRENT == 2 )); then
    found=({commands})
    _describe command found
    return
  fi
  case "$words[2] $words[CURRENT-1]" in
{files}) _files; return ;;
{values}
{free}) return ;;
{options}
  esac
  compadd -- $found
}}
if [ "$funcstack[1]" = _kubenode ]; then _kubenode "$@"; else compdef _kubenode kubenode; fi
"""


class Option(NamedTuple):
    """Option of a command, or its one argument (``name`` is "" then).

    ``values`` are its choices, if it has some.
    """

    command: str
    name: str
    values: tuple[str, ...]
    takes_file: bool
    takes_value: bool
    text: str


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's arguments."""
    parser.add_argument("shell", choices=tuple(SHELLS), help="name of the shell")


def run(options: argparse.Namespace) -> int:
    """Print the script, from the commands' own parsers."""
    from .commands import COMMANDS

    print(SHELLS[options.shell](COMMANDS, [option for command in COMMANDS for option in _options(command)]), end="")
    return 0


def _options(command: str) -> Iterator[Option]:
    from .parser import parser

    command_parser, _module = parser(command)
    formatter = argparse.HelpFormatter("")
    for action in command_parser._actions:
        values = tuple(map(str, action.choices or ()))
        files = str(action.metavar) in ("FILE", "DIR", "DIR|FILE")
        text = formatter._expand_help(action).partition(" (")[0]
        yield Option(command, (action.option_strings or [""])[-1], values, files, action.nargs != 0, text)


def _bash(commands: dict[str, str], options: list[Option]) -> str:
    return _BASH.format(commands=" ".join(commands), **_cases(commands, options, 'words="{}"'))


def _zsh(commands: dict[str, str], options: list[Option]) -> str:
    described = " ".join(
        _quoted(f"{name}:{text.replace(':', chr(92) + ':')}", "'\\''") for name, text in commands.items()
    )
    return _ZSH.format(commands=described, **_cases(commands, options, "found=({})"))


def _cases(commands: dict[str, str], options: list[Option], words: str) -> dict[str, str]:
    """Return the branches for ``"COMMAND PREVIOUS"``, the most specific ones first.

    ``words`` is the shell code that sets the offered words.
    """
    valued = [option for option in options if option.name and option.takes_value]
    files = [option for option in valued if option.takes_file]
    free = [option for option in valued if not option.takes_file and not option.values]
    listed = {f'"{option.command} {option.name}"': option.values for option in valued if option.values}
    offered: dict[str, list[str]] = {f'"{name} "*': [] for name in commands}
    for option in options:
        offered[f'"{option.command} "*'].extend([option.name] if option.name else option.values)
    return {
        "files": _pattern(files),
        "free": _pattern(free),
        "values": "\n".join(f"    {pattern}) {words.format(' '.join(some))} ;;" for pattern, some in listed.items()),
        "options": "\n".join(f"    {pattern}) {words.format(' '.join(some))} ;;" for pattern, some in offered.items()),
    }


def _pattern(options: list[Option]) -> str:
    return "    " + "|".join(f'"{option.command} {option.name}"' for option in options)


def _fish(commands: dict[str, str], options: list[Option]) -> str:
    lines = ["# fish completion for kubenode; made by: kubenode completion fish", "complete -c kubenode -f"]
    for name, text in commands.items():
        lines.append(f"complete -c kubenode -n __fish_use_subcommand -a {name} -d {_quoted(text, chr(92) + chr(39))}")
    for option in options:
        words = ["complete -c kubenode -n", f"'__fish_seen_subcommand_from {option.command}'"]
        words += ["-l", option.name[2:]] if option.name else []
        words += ["-r -F"] if option.takes_file else ["-x"] if option.name and option.takes_value else []
        words += ["-a", f"'{' '.join(option.values)}'"] if option.values else []
        lines.append(" ".join([*words, "-d", _quoted(option.text, chr(92) + chr(39))]))
    return "\n".join(lines) + "\n"


def _quoted(text: str, quote: str) -> str:
    """Return the text in single quotes; ``quote`` is the shell's spelling of a single quote inside them."""
    return "'" + text.replace("'", quote) + "'"


SHELLS = {"bash": _bash, "zsh": _zsh, "fish": _fish}
