# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules in the spelling of ``iptables-save``, from other spellings.

The usual matches and targets are known. A rule with another one is left to iptables itself (:mod:`~..kernel.iptables`,
``normalise``).
"""

from __future__ import annotations

from typing import NamedTuple

from .common import AskError
from .iptables_options import (
    IMPLIED,
    MARK_FORMS,
    MATCHES,
    REJECT_WITH,
    TARGETS,
    UNKNOWN_TARGETS,
    Option,
    address,
    set_xmark,
)

# Long forms of the options that belong to no extension.
_LONG = {
    "--source": "-s",
    "--src": "-s",
    "--destination": "-d",
    "--dst": "-d",
    "--in-interface": "-i",
    "--out-interface": "-o",
    "--protocol": "-p",
    "--proto": "-p",
    "--match": "-m",
    "--jump": "-j",
    "--goto": "-g",
}
_HEAD = ("-s", "-d", "-i", "-o", "-p")  # in this order, before the matches
_PROTOCOLS = {
    4: {"6": "tcp", "17": "udp", "1": "icmp", "132": "sctp"},
    6: {"6": "tcp", "17": "udp", "58": "ipv6-icmp", "132": "sctp", "icmpv6": "ipv6-icmp"},
}
for _names in _PROTOCOLS.values():
    _names.update({name: name for name in _names.values()})
# Options that are another spelling of one option's value.
_FORMS = {"--syn": "--tcp-flags", **dict.fromkeys(MARK_FORMS, "--set-xmark")}
_ANY = {4: "0.0.0.0/0", 6: "::/0"}


def _by_word(extensions: dict[str, tuple[Option, ...]]) -> dict[str, dict[str, Option]]:
    return {
        name: {word: option for option in options for word in (option.name, *option.synonyms)}
        for name, options in extensions.items()
    }


_MATCH_WORDS, _TARGET_WORDS = _by_word(MATCHES), _by_word(TARGETS)


class _Extension(NamedTuple):
    """A match or target of the rule, with its options in the rule: name to text."""

    name: str
    known: tuple[Option, ...]
    given: dict[str, str]

    def text(self, flag: str) -> str:
        """Return it as ``iptables-save`` prints it."""
        if not self.given:
            return f"{flag} {self.name}"
        return " ".join(
            [f"{flag} {self.name}"] + [self.given[option.name] for option in self.known if option.name in self.given]
        )


def canonical_rule(family: int, rule: str) -> str | None:
    """Return a rule (without ``-A CHAIN``) as ``iptables-save`` prints it; None if only iptables knows."""
    try:
        return _Reader(family, words(rule)).text()
    except (AskError, IndexError):
        return None


def words(rule: str) -> list[str]:
    """Split a rule into words as iptables-restore does: double quotes, and backslashes within them.

    Raises:
        AskError: a quote is not closed.
    """
    if '"' not in rule:
        return rule.split()
    words: list[str] = []
    word: list[str] | None = None
    inside = False
    characters = iter(rule)
    for char in characters:
        if inside and char == "\\":
            char = next(characters, "")
        elif char == '"':
            inside = not inside
            word = [] if word is None else word
            continue
        elif char.isspace() and not inside:
            if word is not None:
                words.append("".join(word))
            word = None
            continue
        word = [] if word is None else word
        word.append(char)
    if inside:
        raise AskError
    return words if word is None else [*words, "".join(word)]


class _Reader:
    """Reads the words of one rule from left to right."""

    def __init__(self, family: int, given: list[str]) -> None:
        self.family = family
        self.left = iter(given)
        self.head: dict[str, str] = {}
        self.protocol = ""
        self.matches: list[_Extension] = []
        self.target: _Extension | None = None
        self.target_flag = ""

    def text(self) -> str:
        """Read all and return the rule."""
        inverted = False
        for word in self.left:
            if word == "!":
                if inverted:
                    raise AskError
                inverted = True
                continue
            self._word(_LONG.get(word, word), inverted)
            inverted = False
        if inverted:
            raise AskError
        parts = [self.head[flag] for flag in _HEAD if self.head.get(flag)]
        parts += [match.text("-m") for match in self.matches]
        if self.target:
            if self.target.name == "REJECT":
                self.target.given.setdefault("--reject-with", f"--reject-with {REJECT_WITH[self.family]}")
            parts.append(self.target.text(self.target_flag))
        return " ".join(parts)

    def _next(self) -> str:
        word = next(self.left, None)
        if word is None or word == "!":
            raise AskError
        return word

    def _word(self, word: str, inverted: bool) -> None:
        if word.startswith("--"):
            self._option(word, inverted)
        elif word in _HEAD:
            if word in self.head:
                raise AskError
            self.head[word] = self._head(word, self._next(), inverted)
        elif word == "-m":
            name = self._next()
            if inverted or name not in MATCHES:
                raise AskError
            self.matches.append(_Extension(name, MATCHES[name], {}))
        elif word in ("-j", "-g"):
            name = self._next()
            if inverted or self.target or name in UNKNOWN_TARGETS:
                raise AskError
            self.target, self.target_flag = _Extension(name, TARGETS.get(name, ()), {}), word
        else:
            self._option(word, inverted)

    def _head(self, flag: str, value: str, inverted: bool) -> str:
        if flag in ("-s", "-d"):
            value = address(self.family, value)
            if value == _ANY[self.family]:
                if inverted:
                    raise AskError
                return ""
        elif flag == "-p":
            value = _PROTOCOLS[self.family].get(value.lower(), "")
            if not value:
                raise AskError
            self.protocol = "" if inverted else value
        elif value == "+":
            raise AskError
        return f"! {flag} {value}" if inverted else f"{flag} {value}"

    def _option(self, word: str, inverted: bool) -> None:
        extension, option = self._find(word)
        if option.name in extension.given:
            raise AskError
        if word == "--syn":
            arguments = ["FIN,SYN,RST,ACK", "SYN"]
        elif option.name == "--set-xmark":
            arguments = [set_xmark(word, self._next())]
        else:
            arguments = [spell(self._next()) for spell in option.arguments]
        if option.name in ("--sport", "--dport") and arguments == ["0:65535"]:
            raise AskError
        extension.given[option.name] = " ".join((["!"] if inverted else []) + [option.name, *arguments])

    def _find(self, word: str) -> tuple[_Extension, Option]:
        wanted = _FORMS.get(word, word)
        if self.target:
            option = _TARGET_WORDS.get(self.target.name, {}).get(wanted)
            if option:
                return self.target, option
        for match in reversed(self.matches):
            option = _MATCH_WORDS[match.name].get(wanted)
            if option:
                return match, option
        implied = IMPLIED.get(self.protocol)
        if implied and all(match.name != implied for match in self.matches):
            option = _MATCH_WORDS[implied].get(wanted)
            if option:
                self.matches.append(_Extension(implied, MATCHES[implied], {}))
                return self.matches[-1], option
        raise AskError
