# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection. It can change at any time, do not use it from outside.

"""From the options of ``ipsets`` to model items."""

from __future__ import annotations

from typing import NamedTuple

from ._argspec import check_owner, unique
from ._converge import Wish
from ._scratch import in_scratch
from .engine.errors import EngineError, InputError
from .engine.kernel import ipset
from .engine.model.ipset import VOLATILE_OPTIONS, IPSet, MemberKey, same_set
from .engine.model.ipset_header import header as full_header
from .engine.model.ipset_member import Speller

# Creation options in the order of ``ipset save``: module option, whether it takes a value.
OPTIONS = (
    ("range", True),
    ("family", True),
    ("markmask", True),
    ("hashsize", True),
    ("maxelem", True),
    ("netmask", True),
    ("size", True),
    ("timeout", True),
    ("counters", False),
    ("comment", False),
    ("skbinfo", False),
    ("forceadd", False),
)
DEFAULTS = {"hash": {"maxelem": "65536"}, "bitmap": {}, "list": {"size": "8"}}
# What the kernel counts in a member; says nothing about what somebody wanted.
COUNTED = ("packets", "bytes", "timeout")


def prepare(params):
    """Return how to read, what is wanted and how to write, for :func:`._converge.run`."""
    check_owner(params["owner"])
    sets, seen = {}, {}
    for index, given in enumerate(params["sets"]):
        place = f"sets[{index}]"
        name = given["name"]
        if not 1 <= len(name.encode()) <= 31 or any(char.isspace() for char in name):
            raise InputError(place, "name", name, "1 to 31 characters without spaces")
        unique(seen, name, place, f"set {name}")
        sets[name] = (place, given)
        if given["state"] == "present":
            header(place, given)
            check_members(place, given)
    members = any(given["members"] is not None or given["absent_members"] for _place, given in sets.values())

    def read(_around):
        return ipset.read(
            members=members or params["purge"] != "none" or any(given["state"] == "absent" for _name, given in sets.values())
        )

    return read, lambda have, _around: wanted(sets, have), {"ipset": ipset.apply}


def header(place, given):
    """Return the header that the options mean, defaults included as far as they are known without asking the kernel."""
    kind = given["type"]
    if not kind:
        raise InputError(f"{place} ({given['name']})", "type", kind, "a type, for example hash:ip")
    method = kind.partition(":")[0]
    if method not in DEFAULTS:
        raise InputError(f"{place} ({given['name']})", "type", kind, "a type that begins with hash:, bitmap: or list:")
    options = []
    for name, valued in OPTIONS:
        value = given[name]
        if name == "family" and method != "hash":
            continue
        if valued and value is None:
            value = DEFAULTS[method].get(name)
        if value is not None and value is not False:
            options.append((name, str(value) if valued else ""))
    return IPSet(kind, tuple(options))


def check_members(place, given):
    """Raise an error for members that cannot be, or that are there twice in the same spelling."""
    seen = {}
    for option in ("members", "absent_members"):
        for index, text in enumerate(given[option] or ()):
            here = f"{place}.{option}[{index}]"
            words = text.split()
            if not words or "\n" in text:
                raise InputError(here, "text", text, "a member in the words of ipset add")
            unique(seen, words[0], here, f"{words[0]} in set {given['name']}")


def wanted(sets, have):
    """Return what the task wants, seeing what is there."""
    want = {"set": {}, "member": {}}
    absent = {"set": set(), "member": set()}
    lenient = set()
    present = {}
    for name, (place, given) in sets.items():
        if given["state"] == "absent":
            absent["set"].add(name)
            continue
        present[name] = Spelling(place, header(place, given), words(given["members"]), words(given["absent_members"]))
        if given["members"] is None or not given["purge_members"]:
            lenient.add(name)
    different = {name: spelling for name, spelling in present.items() if not _is_there(name, spelling, have)}
    known = {name: found for name, found in ((name, known_spelling(name, each)) for name, each in different.items()) if found}
    unclear = {name: spelling for name, spelling in different.items() if name not in known}
    for name, (value, members, gone) in {**plainly(present), **known, **spelled(unclear, present, have)}.items():
        there = have["set"].get(name)
        want["set"][name] = there if there is not None and same_set(there, value) else value
        for key, options in members.items():
            want["member"][key] = settled(options, have.get("member", {}).get(key))
        absent["member"].update(gone)
    return Wish(want, absent, {"member": lenient}, {"set": have["set"]})


class Spelling(NamedTuple):
    """A set in the words of the task: where it stands there, its header, its members and those that shall not be there."""

    place: str
    header: IPSet
    members: list
    gone: list


def words(texts):
    """Return members with single spaces between their words, but for what stands in quotes."""
    return [text.strip() if '"' in text else " ".join(text.split()) for text in texts or ()]


def plainly(spellings):
    """Return header, members and absent members of each set as the task spells them."""
    return {name: (each.header, _by_key(name, each.members), _by_key(name, each.gone)) for name, each in spellings.items()}


def _is_there(name, spelling, have):
    """Tell whether a set is there as the task spells it, so that there is no need to ask what it means."""
    there = have["set"].get(name)
    if there is None or not same_set(there, spelling.header):
        return False
    members = have.get("member", {})
    for key, options in _by_key(name, spelling.members).items():
        found = members.get(key)
        if found is None or settled(options, found) != found:
            return False
    return not spelling.gone


def _by_key(name, texts):
    pairs = (text.partition(" ") for text in texts)
    return {MemberKey(name, member): options for member, _space, options in pairs}


def known_spelling(name, each):
    """Return header, members and absent members of a set in ipset's spelling; None if only ipset can tell it, or what is wrong."""
    options = dict(each.header.options)
    if each.header.type == "hash:mac":
        options.pop("family", None)
    if each.header.type == "list:set":
        return None  # whether its members are there is for the kernel to say
    members, gone = {}, set()
    try:
        value = full_header(each.header.type, options)
        speller = Speller(value)
        for text in each.members:
            found = speller(text)
            if found is None or (name, found.member) in members:
                return None
            members[MemberKey(name, found.member)] = found.options
        for text in each.gone:
            found = speller(text)
            if found is None or (name, found.member) in gone or (name, found.member) in members:
                return None
            gone.add(MemberKey(name, found.member))
    except InputError:
        return None
    limit = value.option("maxelem")
    return None if limit and len(members) > int(limit) else (value, members, gone)


def settled(options, there):
    """Return what is there if it differs from ``options`` only in what the kernel counts, otherwise ``options``.

    A timeout runs down: a member that is wanted with one and has one left is as wanted.
    """
    if there is None or options == there:
        return options
    return there if _steady(options) == _steady(there) else options


def _steady(options):
    words = options.split(" ")
    left = iter(words)
    kept = []
    for word in left:
        if word in COUNTED:
            amount = next(left, "")
            if word == "timeout" and amount != "0":
                kept.append("timeout")
        elif word:
            kept.append(word)
    return kept


def spelled(unclear, present, have):
    """Return header, members and absent members of sets as the kernel spells them, asked for all at once in a scratch namespace.

    Raises:
        EngineError: the kernel refuses a set or a member; the text names it.
    """
    if not unclear:
        return {}
    # A member of list:set names a set, which must be there, too.
    named = {
        word
        for each in unclear.values()
        if each.header.type == "list:set"
        for text in each.members + each.gone
        for word in text.split(" ")
    }
    stubs = {word: present[word].header if word in present else have["set"].get(word) for word in sorted(named - set(unclear))}
    making = [Making("", word, value, []) for word, value in stubs.items() if value is not None]
    making += [Making(f"{each.place}.members", name, each.header, each.members) for name, each in unclear.items()]
    for index, each in enumerate(unclear.values()):
        making.append(Making(f"{each.place}.absent_members", _gone(index), each.header, each.gone))

    def ask():
        make(making)
        table = ipset.read()
        heads = {name: [table["set"][name].type, *table["set"][name].options] for name in table["set"]}
        return heads, sorted((key.set, key.member, value) for key, value in table["member"].items())

    answer = in_scratch(ask)
    if answer is None:
        return {}
    heads, members = answer
    found = {}
    owners = {_gone(index): name for index, name in enumerate(unclear)}
    for name, each in unclear.items():
        given = dict(each.header.options)
        kept = tuple((key, text) for key, text in heads[name][1:] if key in given or key not in VOLATILE_OPTIONS)
        silent = tuple(pair for pair in each.header.options if pair[0] == "forceadd")  # ipset never prints it
        found[name] = (IPSet(heads[name][0], kept + silent), {}, set())
    for name, text, options in members:
        if name in unclear:
            found[name][1][MemberKey(name, text)] = options
        elif name in owners:
            found[owners[name]][2].add(MemberKey(owners[name], text))
    return found


def _gone(index):
    return f"\x01{index}"  # a name that no user has


class Making(NamedTuple):
    """A set to be made in a scratch namespace; ``place`` is where its members stand in the task."""

    place: str
    name: str
    header: IPSet
    members: list


def make(making):
    """Make sets in this namespace; raises an EngineError that names what the kernel refuses."""
    refused = _refusal(making)
    if refused is None:
        return
    which, index, why = refused
    place, name, head, texts = which
    if index is None:
        raise EngineError(f"set {name}: {head.text()}: {why}")
    if "already added" in why:
        first = _same_as(which, index)
        raise EngineError(
            f"{place}[{index}] ({texts[index]}) and {place}[{first}] ({texts[first]}) are the same; name each thing once"
        )
    raise EngineError(f"{place}[{index}]: member {texts[index]!r} of set {name} ({head.type}): {why}")


def _refusal(making):
    """Make sets and return what the kernel refuses: the set, the index of its member (None: the set itself) and why; or None.

    Without ``-exist``, so that a member that is there twice is refused.
    """
    from .engine.kernel.command import run
    from .engine.kernel.ipset.tool import complaint

    lines = [(f"create {each.name} {each.header.text()}", each, None) for each in making]
    for each in making:
        lines += [(f"add {each.name} {text}", each, index) for index, text in enumerate(each.members)]
    ended = run(["ipset", "restore"], "".join(f"{line[0]}\n" for line in lines))
    if not ended.status:
        return None
    refused = complaint(ended.errors)
    if not 0 <= refused.line < len(lines):
        raise EngineError(f"ipset restore: {refused.text}")
    _text, which, index = lines[refused.line]
    return which, index, refused.text


def _same_as(which, index):
    """Return which earlier member is the same as that at ``index``, by halving."""
    low, high, probe = 0, index, 0
    while high - low > 1:
        middle, probe = (low + high) // 2, probe + 1
        texts = [*which.members[low:middle], which.members[index]]
        if _refusal([which._replace(name=f"probe-{probe}", members=texts)]) is None:
            low = middle
        else:
            high = middle
    return low
