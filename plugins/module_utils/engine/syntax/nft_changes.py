# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Input for ``nft -f`` that creates, changes and removes tables of nftables, composed of canonical texts."""

from __future__ import annotations

from ..model.nft_text import COLLECTIONS, Block, Table, TextTableKey, element_key, parsed, settled

_LAST_REMOVED = ("map", "set", "chain")  # an object goes after those that may refer to it


def body(key: TextTableKey, text: str) -> str:
    """Return the table with the body ``text``. The text begins on the second line."""
    return f"table {key} {{\n{text}\n}}\n"


def creation(key: TextTableKey, text: str) -> str:
    """Return the input that creates a table; nft refuses it if the table exists.

    nft 0.9.8 (Debian 11) crashes on a set of a table that the same input only creates, but not if it also removes it.
    """
    return f"create table {key}\n{replacement(key, text)}"


def removal(key: TextTableKey) -> str:
    """Return the input that removes a table."""
    return f"delete table {key}\n"


def replacement(key: TextTableKey, text: str) -> str:
    """Return the input that removes a table and creates it anew."""
    return f"{removal(key)}{body(key, text)}"


def changes(key: TextTableKey, before: str, after: str) -> str | None:
    """Return the input that changes only the chains, elements and objects that differ; None if that cannot be done.

    Unchanged chains keep their counters, and unchanged sets their elements' counters and timeouts. A chain with other
    rules is flushed and filled. An object with another header would have to be removed while rules refer to it, so such
    a change is not made in part.

    The result may still be refused, because nft cannot remove every element that it lists. The caller tries it out.
    """
    new = parsed(after)
    old = settled(parsed(before), new)
    both = [each for each in old.blocks if each in new.blocks]
    if old.options != new.options or any(old.blocks[each].header != new.blocks[each].header for each in both):
        return None
    changed = [each for each in both if old.blocks[each].content != new.blocks[each].content]
    removed = [block for each, block in old.blocks.items() if each not in new.blocks]
    commands = [f"flush chain {key} {name}" for kind, name in changed if kind == "chain"]
    commands += [f"flush chain {key} {block.name}" for block in removed if block.kind == "chain"]
    added = {each: block for each, block in new.blocks.items() if each not in old.blocks}
    for each in changed:
        have, want = old.blocks[each], new.blocks[each]
        if want.kind in COLLECTIONS:
            gone, want = _exchanged(have, want)
            commands += [f"delete element {key} {have.name} {{ {', '.join(gone)} }}"] if gone else []
        added[each] = want
    for block in sorted(removed, key=_removal_rank):
        commands.append(f"delete {block.kind} {key} {block.name}")
    return "".join(f"{command}\n" for command in commands) + body(key, Table((), added).text())


def _exchanged(have: Block, want: Block) -> tuple[list[str], Block]:
    """Return the keys of the elements to remove, and the set with only the elements to add."""
    stay = set(have.content).intersection(want.content)
    gone = [element_key(element) for element in have.content if element not in stay]
    return gone, want._replace(content=tuple(element for element in want.content if element not in stay))


def _removal_rank(block: Block) -> int:
    return _LAST_REMOVED.index(block.kind) if block.kind in _LAST_REMOVED else len(_LAST_REMOVED)
