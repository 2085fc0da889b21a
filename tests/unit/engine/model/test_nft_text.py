# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Canonical text of tables of nftables, from listings of several releases of nft."""

from __future__ import annotations

import pytest

from kubenode.engine.model.nft_text import Table, element_key, listed, parsed, same_text, settled

LISTING = """# Warning: table inet t is managed by iptables-nft, do not touch!
table inet t { # progname someone
	comment "a table"
	flags dormant

	chain b {
		comment "not a rule"
		type filter hook input priority filter; policy drop;
		tcp dport { 22, 80 } counter accept comment "}, {"
		jump a
	}

	chain a {
	}

	map m {
		typeof ip saddr : verdict
		elements = { 192.0.2.10 comment "x, y" : jump a, 192.0.2.9 : accept,
			192.0.2.100 timeout 5m : drop }
	}

	set s {
		type ipv4_addr
		size 128	# count 2
		flags interval,dynamic
	}

	ct helper ftp {
		type "ftp" protocol tcp
		l3proto ip
	}
}
"""
TEXT = """comment "a table"
flags dormant
ct helper ftp {
  type "ftp" protocol tcp
  l3proto ip
}
set s {
  type ipv4_addr
  size 128
  flags interval,dynamic
}
map m {
  typeof ip saddr : verdict
  elements = {
    192.0.2.9 : accept,
    192.0.2.10 comment "x, y" : jump a,
    192.0.2.100 timeout 5m : drop,
  }
}
chain a {
}
chain b {
  comment "not a rule"
  type filter hook input priority filter; policy drop;
  tcp dport { 22, 80 } counter accept comment "}, {"
  jump a
}
"""


def test_listing_becomes_canonical_text_and_back() -> None:
    table = listed(LISTING)
    assert table.text() == TEXT
    assert parsed(TEXT) == table._replace(blocks={key: table.blocks[key] for key in parsed(TEXT).blocks})
    assert table.flags == ["dormant"]
    assert table.blocks["chain", "b"].header[0] == 'comment "not a rule"'
    assert [block.name for block in table.blocks.values() if block.is_dynamic] == ["s"]


@pytest.mark.parametrize("listing", ["", "table ip t {\n}\n"])
def test_empty_table_has_an_empty_text(listing: str) -> None:
    assert listed(listing) == parsed("") == Table((), {})
    assert listed(listing).text() == ""


def test_line_ends_and_braces_in_quotes_are_text() -> None:
    listing = 'table ip t {\n\tchain c {\n\t\taccept comment "a\n\t}\nb {"\n\t}\n}\n'
    table = listed(listing)
    assert table.blocks["chain", "c"].content == ('accept comment "a\n\t}\nb {"',)
    assert parsed(table.text()) == table


@pytest.mark.parametrize(
    ("element", "key"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("192.0.2.1 timeout 5m expires 4m", "192.0.2.1"),
        ('"eth 0" comment "a : b" : accept', '"eth 0"'),
        ("2001:db8::1 . tcp . 80-90 counter : 192.0.2.1 . 80", "2001:db8::1 . tcp . 80-90"),
        ("syn | ack : accept", "syn | ack"),
        ("", ""),
    ],
)
def test_key_of_an_element_is_what_identifies_it(element: str, key: str) -> None:
    assert element_key(element) == key


DYNAMIC = "set s {{\n  type ipv4_addr\n  flags {}\n  elements = {{\n{}  }}\n}}\n"


@pytest.mark.parametrize(
    ("flags", "live", "wanted", "same"),
    [
        ("dynamic", ["192.0.2.1", "192.0.2.2"], ["192.0.2.1"], True),
        ("dynamic,timeout", ["192.0.2.1 timeout 9m"], ["192.0.2.1 timeout 5m"], True),
        ("dynamic", ["192.0.2.2"], ["192.0.2.1"], False),
        ("timeout", ["192.0.2.1", "192.0.2.2"], ["192.0.2.1"], False),
        ("timeout", ["192.0.2.1 timeout 9m"], ["192.0.2.1 timeout 5m"], False),
    ],
)
def test_elements_of_dynamic_sets_count_by_key(flags: str, live: list[str], wanted: list[str], same: bool) -> None:
    texts = [DYNAMIC.format(flags, "".join(f"    {each},\n" for each in elements)) for elements in (live, wanted)]
    assert same_text(*texts) is same


def test_dynamic_set_with_another_header_keeps_its_elements() -> None:
    live = parsed(DYNAMIC.format("dynamic", "    192.0.2.1,\n"))
    assert settled(live, parsed(DYNAMIC.format("dynamic,timeout", ""))) == live
    assert settled(live, parsed("")) == live
