# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module sysctls against the kernel."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kernel.modules import ModuleError, converge, run

FILE = Path("/etc/sysctl.d/90-kubenode-ansible.conf")
FORWARD = Path("/proc/sys/net/ipv4/ip_forward")
KEEPALIVE = Path("/proc/sys/net/ipv4/tcp_keepalive_time")


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    FORWARD.write_text("0")
    KEEPALIVE.write_text("7200")
    yield
    for owner in ("ansible", "other"):
        run("sysctls", purge="owned", owner=owner)
    shutil.rmtree("/var/lib/kubenode", ignore_errors=True)


def live(path: Path) -> str:
    return path.read_text().strip()


def test_sysctls_are_set_kept_and_restored() -> None:
    result = converge("sysctls", sysctls={"net.ipv4.ip_forward": 1, "net/ipv4/tcp_keepalive_time": "600"})
    assert result["lines"] == [
        "~ sysctl net.ipv4.ip_forward: 0 -> 1",
        "~ sysctl net.ipv4.tcp_keepalive_time: 7200 -> 600",
        f"+ file {FILE}: 3 lines",
    ]
    assert (live(FORWARD), live(KEEPALIVE)) == ("1", "600")
    assert FILE.read_text().splitlines()[1:] == ["net.ipv4.ip_forward = 1", "net.ipv4.tcp_keepalive_time = 600"]
    assert FILE.stat().st_mode & 0o777 == 0o644
    subprocess.run(["sysctl", "-p", str(FILE)], check=True, stdout=subprocess.DEVNULL)
    # A task with the same owner keeps settings that it does not name, and repairs drift of those that it names.
    FORWARD.write_text("0")
    converge("sysctls", sysctls={"net.ipv4.ip_forward": 1})
    assert live(FORWARD) == "1"
    converge("sysctls", absent=["net.ipv4.ip_forward"])
    assert (live(FORWARD), live(KEEPALIVE)) == ("0", "600")
    assert FILE.read_text().splitlines()[1:] == ["net.ipv4.tcp_keepalive_time = 600"]
    converge("sysctls", purge="owned")
    assert live(KEEPALIVE) == "7200"
    assert not FILE.exists()


def test_values_are_compared_word_by_word() -> None:
    before = live(Path("/proc/sys/net/ipv4/tcp_rmem"))
    assert "\t" in before
    result = converge("sysctls", sysctls={"net.ipv4.tcp_rmem": before.replace("\t", "   ")})
    assert [line for line in result["lines"] if "sysctl net" in line] == []


@pytest.mark.parametrize(
    ("name", "given", "lines", "after"),
    [
        ("net.ipv4.tcp_keepalive_time", "0x258", ["~ sysctl net.ipv4.tcp_keepalive_time: 7200 -> 600"], "600"),
        ("net.ipv4.tcp_keepalive_time", "0x1c20", [], "7200"),
        ("net.ipv4.tcp_keepalive_time", "01130", ["~ sysctl net.ipv4.tcp_keepalive_time: 7200 -> 600"], "600"),
        ("kernel.printk", 3, ["~ sysctl kernel.printk: 4 4 1 7 -> 3 4 1 7"], "3\t4\t1\t7"),
        ("kernel.printk", "4 4", [], "4\t4\t1\t7"),
    ],
)
def test_numbers_are_compared_as_the_kernel_reads_them(
    name: str, given: int | str, lines: list[str], after: str
) -> None:
    path = Path("/proc/sys") / name.replace(".", "/")
    if name == "kernel.printk":
        path.write_text("4 4 1 7")
    result = converge("sysctls", sysctls={name: given})
    assert [line for line in result["lines"] if " sysctl " in line] == lines
    assert live(path) == after
    assert f"{name} = {given}\n" in FILE.read_text()


def test_unknown_sysctl_is_named_in_the_error() -> None:
    message = (
        r"^sysctl net\.ipv4\.tcp_congestion_control: the kernel has nothing by the name 'nosuch' \(a kernel module"
    )
    with pytest.raises(ModuleError, match=message):
        run("sysctls", sysctls={"net.ipv4.tcp_congestion_control": "nosuch"})


def test_names_may_contain_dots() -> None:
    commands = "link add name dot type dummy\nlink set dot name d.1\n"
    subprocess.run(["modprobe", "dummy", "numdummies=0"], check=True)
    subprocess.run(["ip", "-batch", "-"], input=commands, text=True, check=True)
    try:
        converge("sysctls", sysctls={"net/ipv4/conf/d.1/rp_filter": 2})
        assert live(Path("/proc/sys/net/ipv4/conf/d.1/rp_filter")) == "2"
        assert "net/ipv4/conf/d.1/rp_filter = 2" in FILE.read_text()
        subprocess.run(["sysctl", "-p", str(FILE)], check=True, stdout=subprocess.DEVNULL)
        run("sysctls", purge="owned")
    finally:
        subprocess.run(["ip", "link", "delete", "d.1"], check=True)


def test_overriding_files_are_named() -> None:
    other = Path("/etc/sysctl.d/99-other.conf")
    text = "# theirs\n  -net.ipv4.ip_forward=0\nnet/ipv4/tcp_keepalive_time = 600\n"
    other.write_text(text)
    try:
        result = run("sysctls", sysctls={"net.ipv4.ip_forward": 1, "net.ipv4.tcp_keepalive_time": 600})
        assert result["overridden"] == [{"name": "net.ipv4.ip_forward", "value": "0", "path": str(other)}]
        assert [warning for warning in result["warnings"] if str(other) in warning]
        assert other.read_text() == text
    finally:
        other.unlink()


def test_line_of_missing_parameter_does_not_stop_others() -> None:
    subprocess.run(["modprobe", "br_netfilter"], check=True)
    run("sysctls", sysctls={"net.bridge.bridge-nf-call-iptables": 1})
    subprocess.run(["rmmod", "br_netfilter"], check=True)
    result = converge("sysctls", sysctls={"net.ipv4.ip_forward": 1})
    assert "~ sysctl net.ipv4.ip_forward: 0 -> 1" in result["lines"]
    assert "net.bridge.bridge-nf-call-iptables = 1" in FILE.read_text()
    run("sysctls", purge="owned")
    assert not FILE.exists()


def test_both_spellings_share_one_entry_of_the_file() -> None:
    converge("sysctls", sysctls={"net/ipv4/ip_forward": 1})
    converge("sysctls", sysctls={"net.ipv4.ip_forward": 1})
    assert FILE.read_text().count("ip_forward") == 1


@pytest.mark.parametrize(
    ("bounds", "live_after", "changed"),
    [
        ({"min": 9000}, "9000", True),
        ({"min": 7000}, "7200", False),
        ({"max": 7000}, "7000", True),
        ({"max": 9000}, "7200", False),
        ({"min": 7300, "max": 7400}, "7300", True),
    ],
)
def test_a_value_is_only_raised_or_only_lowered(bounds: dict[str, int], live_after: str, changed: bool) -> None:
    result = converge("sysctls", sysctls={"net.ipv4.tcp_keepalive_time": bounds})
    assert live(KEEPALIVE) == live_after
    assert [step["kind"] for step in result["plan"]] == ["sysctl", "file"][0 if changed else 1 :]
    assert f"net.ipv4.tcp_keepalive_time = {live_after}\n" in FILE.read_text()
    result = converge("sysctls", absent=["net.ipv4.tcp_keepalive_time"])
    assert live(KEEPALIVE) == "7200"
    assert not FILE.exists()


def test_value_within_bounds_is_not_restored_later() -> None:
    run("sysctls", sysctls={"net.ipv4.tcp_keepalive_time": {"min": 7000}})
    KEEPALIVE.write_text("8000")
    converge("sysctls", sysctls={"net.ipv4.tcp_keepalive_time": {"min": 7000}}, persist=False)
    converge("sysctls", purge="owned")
    assert live(KEEPALIVE) == "8000"


def test_bounds_of_several_numbers_are_compared_singly() -> None:
    path = Path("/proc/sys/net/ipv4/tcp_rmem")
    before = path.read_text()
    low, middle, high = map(int, before.split())
    converge("sysctls", sysctls={"net.ipv4.tcp_rmem": {"min": f"{low + 1} {middle} {high - 1}"}})
    assert live(path).split() == [str(low + 1), str(middle), str(high)]
    converge("sysctls", purge="owned")
    assert path.read_text() == before
    with pytest.raises(ModuleError, match="3 numbers, but min or max has 1"):
        run("sysctls", sysctls={"net.ipv4.tcp_rmem": {"min": 1}})


def test_a_later_file_below_the_minimum_is_named() -> None:
    other = Path("/run/sysctl.d/99-other.conf")
    other.parent.mkdir(exist_ok=True)
    try:
        for value, named in (("9000", False), ("60", True)):
            other.write_text(f"-net/ipv4/tcp_keepalive_time = {value}\n")
            result = run("sysctls", sysctls={"net.ipv4.tcp_keepalive_time": {"min": 8000}})
            expected = {"name": "net.ipv4.tcp_keepalive_time", "value": value, "path": str(other)}
            assert result["overridden"] == ([expected] if named else [])
    finally:
        other.unlink()


def test_without_persist_nothing_is_kept() -> None:
    converge("sysctls", sysctls={"net.ipv4.ip_forward": 1}, persist=False)
    assert live(FORWARD) == "1"
    assert not FILE.exists()
    converge("sysctls", absent=["net.ipv4.ip_forward"])
    assert live(FORWARD) == "0"


def test_refused_value_undoes_the_others() -> None:
    with pytest.raises(ModuleError, match=r"sysctl net\.ipv4\.tcp_keepalive_time.*'many'"):
        run("sysctls", sysctls={"net.ipv4.ip_forward": 1, "net.ipv4.tcp_keepalive_time": "many"})
    assert live(FORWARD) == "0"
    assert not FILE.exists()


def test_second_owner_of_a_parameter_is_refused() -> None:
    run("sysctls", sysctls={"net.ipv4.ip_forward": 1}, owner="other")
    with pytest.raises(ModuleError, match=r"sysctl net\.ipv4\.ip_forward belongs to owner 'other'"):
        run("sysctls", sysctls={"net.ipv4.ip_forward": 0})
    assert live(FORWARD) == "1"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"sysctls": {"net.ipv4.vs.no_such": 1}},
            "sysctl net.ipv4.vs.no_such does not exist; the kernel module ip_vs makes it: load that first",
        ),
        ({"sysctls": {"net.ipv4.no_such": 1}}, "sysctl net.ipv4.no_such does not exist in this kernel"),
        (
            {"sysctls": {"net.ipv4.ip_forward": True}},
            (
                "sysctls[net.ipv4.ip_forward]: value is True, expected a number or a text (YAML turns yes and on into"
                " booleans: quote them)"
            ),
        ),
        (
            {"sysctls": {"net.ipv4.ip_forward": 1, "net/ipv4/ip_forward": 0}},
            (
                "sysctls[net/ipv4/ip_forward] and sysctls[net.ipv4.ip_forward] are both sysctl net.ipv4.ip_forward;"
                " name each item once"
            ),
        ),
        (
            {"owner": "../x"},
            (
                "task: owner is '../x', expected 1 to 63 letters, digits, '_', '.' or '-', beginning with a letter or"
                " digit"
            ),
        ),
        ({"owner": "agent"}, "task: owner is 'agent', expected another name ('agent' is the service proxy's)"),
    ],
)
def test_wrong_input_is_one_clear_message(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ModuleError) as error:
        run("sysctls", **arguments)
    assert str(error.value) == message
    os.makedirs("/var/lib/kubenode", exist_ok=True)
    assert not FILE.exists()
