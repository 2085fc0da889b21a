# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Choice between alternative module names, and modules that can be unloaded."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.kubenode.ipvs.plugins.module_utils._host import kernel_modules as _kernel_modules
from ansible_collections.kubenode.ipvs.plugins.module_utils.engine.errors import EngineError

LOADED = """ip_vs_rr 16384 0 - Live 0x0
ip_vs_wrr 16384 2 - Live 0x0
ip_vs 188416 4 ip_vs_rr,ip_vs_wrr, Live 0x0
nf_conntrack 180224 1 ip_vs, Live 0x0
dummy 16384 0 - Live 0x0
"""


@pytest.mark.parametrize(
    ("names", "order"),
    [
        ({"dummy", "nosuch"}, ["dummy"]),
        ({"ip_vs"}, []),
        ({"ip_vs", "ip_vs_rr"}, ["ip_vs_rr"]),  # ip_vs_wrr stays and uses ip_vs
        ({"nf_conntrack", "dummy"}, ["dummy"]),
    ],
)
def test_only_unused_modules_are_unloaded(tmp_path: Path, names: set[str], order: list[str]) -> None:
    path = tmp_path / "modules"
    path.write_text(LOADED)
    assert _kernel_modules.unloadable(names, str(path)) == order


def test_dependent_modules_are_unloaded_first(tmp_path: Path) -> None:
    path = tmp_path / "modules"
    path.write_text(LOADED.replace("ip_vs_wrr 16384 2", "ip_vs_wrr 16384 0"))
    names = {"nf_conntrack", "ip_vs", "ip_vs_rr", "ip_vs_wrr"}
    assert _kernel_modules.unloadable(names, str(path)) == ["ip_vs_rr", "ip_vs_wrr", "ip_vs", "nf_conntrack"]
    assert _kernel_modules.unloadable(names, str(tmp_path / "nosuch")) == []


@pytest.mark.parametrize(
    ("states", "name"),
    [
        ({"nf_conntrack": "loadable", "nf_conntrack_ipv4": "loaded"}, "nf_conntrack_ipv4"),
        ({"nf_conntrack": "builtin", "nf_conntrack_ipv4": "loaded"}, "nf_conntrack"),
        ({"nf_conntrack": "absent", "nf_conntrack_ipv4": "loadable"}, "nf_conntrack_ipv4"),
    ],
)
def test_loaded_alternative_precedes_loadable_one(states: dict[str, str], name: str) -> None:
    choice = _kernel_modules.choose([("nf_conntrack", "nf_conntrack_ipv4")], [], states)
    assert choice == ([name], [], [])


def test_unknown_state_is_a_warning() -> None:
    choice = _kernel_modules.choose([("a",)], [("b",)], {"a": "unknown", "b": "absent"})
    assert (choice.names, choice.lacking) == ([], [])
    assert choice.warnings[0] == "kernel module a: its state cannot be determined here (a container?)"
    assert choice.warnings[1].startswith("optional: kernel ")
    assert _kernel_modules.choose([("b",)], [], {"b": "absent"}).lacking != []


def test_files_are_read_back() -> None:
    text = _kernel_modules.render_options("me", {"ip_vs": "conn_tab_bits=9 run_estimation=N"})
    assert text is not None
    assert _kernel_modules.parse_options(text) == {"ip_vs": "conn_tab_bits=9 run_estimation=N"}
    assert _kernel_modules.parse_load(_kernel_modules.render_load("me", ["ip_vs", "dummy"]) or "") == ["ip_vs", "dummy"]
    assert _kernel_modules.render_load("me", []) is None


@pytest.mark.parametrize(
    ("live", "wanted", "same"),
    [
        ("Y", "1", True),
        ("N", "n", True),
        ("Y", "0", False),
        ("18", "0x12", True),
        ("18", "12", False),
        ("a,b", "a,b", True),
        ("a,b", "a", False),
        ("(null)", "x", False),
    ],
)
def test_parameters_are_compared_as_the_kernel_reads_them(live: str, wanted: str, same: bool) -> None:
    differing = _kernel_modules.differing({"p": live, "other": "1"}, f"p={wanted} notshown=1")
    assert differing == ([] if same else [("p", live, wanted)])


def test_both_spellings_name_one_module() -> None:
    assert _kernel_modules.parse_load("# x\nbr-netfilter\n; y\n br_netfilter \n") == ["br_netfilter"]


def test_duplicate_parameters_of_a_module_are_refused() -> None:
    given = {"br-netfilter": {"a": 1}, "br_netfilter": {"b": 2}}
    with pytest.raises(EngineError) as raised:
        _kernel_modules.check({"modules": [], "optional": [], "absent": [], "parameters": given})
    assert (
        str(raised.value)
        == "parameters[br_netfilter] and parameters[br-netfilter] are both kernel module br_netfilter; name each item"
        " once"
    )
