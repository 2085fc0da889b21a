# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module ipvs_services against the kernel."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from kernel.modules import ModuleError, converge, run

WEB = {"protocol": "tcp", "address": "192.0.2.80", "port": 80}
REALS = [{"address": "198.51.100.11", "port": 8080}, {"address": "198.51.100.12", "port": 8080, "weight": 3}]


@pytest.fixture(autouse=True)
def table() -> Iterator[None]:
    subprocess.run(["modprobe", "-a", "ip_vs", "ip_vs_rr", "ip_vs_wrr", "ip_vs_sh"], check=True)
    yield
    run("ipvs_services", purge="owned")
    run("ipvs_services", purge="owned", owner="other")
    subprocess.run(["ipvsadm", "-C"], check=True)


def saved() -> str:
    return subprocess.run(["ipvsadm", "-Sn"], check=True, capture_output=True, text=True).stdout


def services(*items: dict[str, Any], **arguments: Any) -> dict[str, Any]:
    return converge("ipvs_services", services=list(items), **arguments)


def test_creates_changes_and_removes() -> None:
    result = services({**WEB, "real_servers": REALS})
    assert result["changed"]
    assert saved() == (
        "-A -t 192.0.2.80:80 -s rr\n"
        "-a -t 192.0.2.80:80 -r 198.51.100.11:8080 -m -w 1\n"
        "-a -t 192.0.2.80:80 -r 198.51.100.12:8080 -m -w 3\n"
    )
    result = services({**WEB, "scheduler": "wrr", "real_servers": [{**REALS[0], "weight": 2}]})
    assert result["lines"] == [
        "~ virtual server tcp 192.0.2.80:80: scheduler rr -> scheduler wrr",
        "~ real server 198.51.100.11:8080 of tcp 192.0.2.80:80: weight 1 masquerade -> weight 2 masquerade",
        "- real server 198.51.100.12:8080 of tcp 192.0.2.80:80",
    ]
    assert result["diff"]["before"]["virtual server tcp 192.0.2.80:80"] == "scheduler rr"
    assert result["diff"]["after"]["virtual server tcp 192.0.2.80:80"] == "scheduler wrr"
    assert saved() == "-A -t 192.0.2.80:80 -s wrr\n-a -t 192.0.2.80:80 -r 198.51.100.11:8080 -m -w 2\n"
    services({**WEB, "state": "absent"})
    assert saved() == ""


def test_every_option_is_read_back() -> None:
    result = services(
        {
            "protocol": "udp",
            "address": "2001:DB8::53",
            "port": 53,
            "scheduler": "sh",
            "scheduler_flags": ["sh-port", "sh-fallback"],
            "persistence_timeout": 300,
            "netmask": "64",
            "one_packet": True,
            "real_servers": [{"address": "2001:db8:1:0::53", "upper_threshold": 100, "lower_threshold": 50}],
        },
        {
            "fwmark": 4294967295,
            "real_servers": [
                {
                    "address": "198.51.100.1",
                    "forwarding_method": "tunnel",
                    "tunnel_type": "gue",
                    "tunnel_port": 6080,
                    "tunnel_checksum": "remote",
                },
                {"address": "2001:db8::1", "forwarding_method": "tunnel"},
                {"address": "198.51.100.2", "forwarding_method": "direct"},
                {"address": "198.51.100.3", "forwarding_method": "bypass", "weight": 0},
            ],
        },
        {"fwmark": 7, "family": "ipv6", "persistence_timeout": 60},
        {"protocol": "sctp", "address": "192.0.2.1", "port": 0, "persistence_timeout": 60, "netmask": "255.255.255.0"},
    )
    assert len(result["plan"]) == 9
    text = saved()
    assert "-A -u [2001:db8::53]:53 -s sh -p 300 -M 64 -o -b sh-fallback,sh-port\n" in text
    # ipvsadm prints the mark as a signed number.
    assert "-a -f -1 -r 198.51.100.1:0 -i -w 1 --tun-type gue --tun-port 6080 --tun-remcsum\n" in text


TUNNELS = [
    ({"tunnel_type": "ipip"}, " --tun-type ipip"),
    ({"tunnel_type": "gue", "tunnel_port": 1}, " --tun-type gue --tun-port 1 --tun-nocsum"),
    (
        {"tunnel_type": "gue", "tunnel_port": 65535, "tunnel_checksum": "checksum"},
        " --tun-type gue --tun-port 65535 --tun-csum",
    ),
    (
        {"tunnel_type": "gue", "tunnel_port": 6080, "tunnel_checksum": "remote"},
        " --tun-type gue --tun-port 6080 --tun-remcsum",
    ),
    ({"tunnel_type": "gre"}, " --tun-type gre --tun-nocsum"),
    ({"tunnel_type": "gre", "tunnel_checksum": "checksum"}, " --tun-type gre --tun-csum"),
]


@pytest.mark.parametrize("address", ["198.51.100.11", "2001:db8::11"], ids=["IPv4", "IPv6"])
@pytest.mark.parametrize(
    ("tunnel", "words"), TUNNELS, ids=["-".join(map(str, options.values())) for options, _words in TUNNELS]
)
def test_every_tunnel_option_is_applied(address: str, tunnel: dict[str, Any], words: str) -> None:
    options = {"address": address, "port": 80, "forwarding_method": "tunnel", **tunnel}
    result = services({**WEB, "real_servers": [{"address": "198.51.100.9", "forwarding_method": "tunnel"}, options]})
    assert len(result["plan"]) == 3
    where = f"[{address}]" if ":" in address else address
    assert f"-a -t 192.0.2.80:80 -r {where}:80 -i -w 1{words}\n" in saved()
    (service,) = run("ipvs_services_info")["services"]
    shown = {
        field: value for real in service["real_servers"] for field, value in real.items() if real["address"] == address
    }
    assert {**shown, **options} == shown
    changed = services(
        {**WEB, "real_servers": [{**options, "tunnel_type": "ipip", "tunnel_port": 0, "tunnel_checksum": "none"}]}
    )
    assert len(changed["lines"]) == 1 + (tunnel["tunnel_type"] != "ipip")


@pytest.mark.parametrize("mark", [1, 2**31 - 1, 2**31, 2**32 - 1])
def test_a_firewall_mark_is_one_virtual_server_in_each_family(mark: int) -> None:
    marks = [
        {"fwmark": mark, "real_servers": [{"address": "198.51.100.1"}]},
        {"fwmark": mark, "family": "ipv6", "real_servers": [{"address": "2001:db8::1", "port": 8080}]},
    ]
    result = services(*marks)
    assert result["lines"] == [
        f"+ virtual server fwmark {mark}: scheduler rr",
        f"+ virtual server fwmark {mark} (IPv6): scheduler rr",
        f"+ real server 198.51.100.1:0 of fwmark {mark}: weight 1 masquerade",
        f"+ real server [2001:db8::1]:8080 of fwmark {mark} (IPv6): weight 1 masquerade",
    ]
    signed = mark - 2**32 if mark >= 2**31 else mark  # ipvsadm prints it so
    assert f"-a -f {signed} -r 198.51.100.1:0 -m -w 1\n" in saved()
    assert f"-a -f {signed} -6 -r [2001:db8::1]:8080 -m -w 1\n" in saved()
    result = services(marks[1], purge="owned")
    assert result["lines"][-1] == f"- virtual server fwmark {mark}"
    assert "-6" in saved()


@pytest.mark.parametrize(
    ("scheduler", "flags", "printed", "read"),
    [
        ("sh", ["sh-fallback"], "sh-fallback", ["flag-1"]),
        ("sh", ["sh-port"], "sh-port", ["flag-2"]),
        ("sh", ["flag-1", "flag-2"], "sh-fallback,sh-port", ["flag-1", "flag-2"]),
        ("mh", ["mh-fallback"], "mh-fallback", ["flag-1"]),
        ("mh", ["mh-port"], "mh-port", ["flag-2"]),
        ("mh", ["mh-port", "mh-fallback", "flag-2"], "mh-fallback,mh-port", ["flag-1", "flag-2"]),
        ("rr", ["flag-1"], "flag-1", ["flag-1"]),
        ("rr", ["flag-2"], "flag-2", ["flag-2"]),
        ("rr", ["flag-3", "flag-1"], "flag-1,flag-3", ["flag-1", "flag-3"]),
    ],
)
def test_every_scheduler_flag_is_applied(scheduler: str, flags: list[str], printed: str, read: list[str]) -> None:
    services({**WEB, "scheduler": scheduler, "scheduler_flags": flags})
    assert saved() == f"-A -t 192.0.2.80:80 -s {scheduler} -b {printed}\n"
    (service,) = run("ipvs_services_info")["services"]
    assert service["scheduler_flags"] == read
    services({**WEB, "scheduler": scheduler})
    assert saved() == f"-A -t 192.0.2.80:80 -s {scheduler}\n"


def test_thresholds_are_set_changed_and_removed() -> None:
    for upper, lower in ((100, 50), (2**31 - 1, 2**31 - 1), (7, 0), (0, 0)):
        services({**WEB, "real_servers": [{**REALS[0], "upper_threshold": upper, "lower_threshold": lower}]})
        (service,) = run("ipvs_services_info")["services"]
        assert [(real["upper_threshold"], real["lower_threshold"]) for real in service["real_servers"]] == [
            (upper, lower)
        ]
    services({**WEB, "real_servers": [{**REALS[0], "upper_threshold": 100, "lower_threshold": 50}]})
    shown = subprocess.run(["ipvsadm", "-Ln", "--thresholds"], check=True, capture_output=True, text=True).stdout
    assert shown.splitlines()[-1].split()[2:4] == ["100", "50"]


def test_persistence_engine_is_set_and_removed() -> None:
    sip = {
        "protocol": "udp",
        "address": "192.0.2.5",
        "port": 5060,
        "persistence_timeout": 60,
        "persistence_engine": "sip",
    }
    services(sip)
    assert saved() == "-A -u 192.0.2.5:5060 -s rr -p 60 --pe sip\n"
    result = services({**sip, "persistence_engine": ""})
    assert result["diff"]["after"] == {"virtual server udp 192.0.2.5:5060": "scheduler rr flags 0x1 timeout 60"}
    assert saved() == "-A -u 192.0.2.5:5060 -s rr -p 60\n"


@pytest.mark.parametrize(
    ("address", "netmask", "printed"),
    [
        ("192.0.2.80", None, ""),
        ("192.0.2.80", "32", ""),
        ("192.0.2.80", "24", " -M 255.255.255.0"),
        ("192.0.2.80", "255.255.240.0", " -M 255.255.240.0"),
        ("192.0.2.80", "1", " -M 128.0.0.0"),
        ("2001:db8::80", "128", ""),
        ("2001:db8::80", "1", " -M 1"),
        ("2001:db8::80", "127", " -M 127"),
    ],
)
def test_every_netmask_is_applied(address: str, netmask: str | None, printed: str) -> None:
    services({**WEB, "address": address, "persistence_timeout": 4294967, "netmask": netmask})
    where = f"[{address}]" if ":" in address else address
    assert saved() == f"-A -t {where}:80 -s rr -p 4294967{printed}\n"


@pytest.mark.parametrize(
    ("purge", "left"),
    [("none", {80, 81, 82, 83, 84}), ("owned", {80, 82, 83}), ("all", {80, 82})],
    ids=["none", "owned", "all"],
)
def test_purge_removes_its_scope_only(purge: str, left: set[int]) -> None:
    services({**WEB, "port": 81, "real_servers": REALS})
    services({**WEB, "port": 84})
    services({**WEB, "port": 82}, owner="other")
    subprocess.run(["ipvsadm", "-A", "-t", "192.0.2.80:83"], check=True)
    services(WEB, purge=purge)
    assert {int(line.split()[2].partition(":")[2]) for line in saved().splitlines() if line.startswith("-A")} == left


def test_omitted_real_servers_stay() -> None:
    services({**WEB, "real_servers": REALS})
    before = saved()
    assert not services(WEB)["changed"]
    assert not services({**WEB, "purge_real_servers": False, "real_servers": REALS[:1]})["changed"]
    assert saved() == before
    result = services({**WEB, "purge_real_servers": False, "real_servers": [{**REALS[0], "state": "absent"}]})
    assert result["lines"] == ["- real server 198.51.100.11:8080 of tcp 192.0.2.80:80"]
    assert services({**WEB, "real_servers": []})["lines"] == ["- real server 198.51.100.12:8080 of tcp 192.0.2.80:80"]


def test_keep_weights_keeps_foreign_weights() -> None:
    services({**WEB, "real_servers": REALS})
    subprocess.run(["ipvsadm", "-e", "-t", "192.0.2.80:80", "-r", "198.51.100.11:8080", "-m", "-w", "0"], check=True)
    new = {"address": "198.51.100.13", "port": 8080, "weight": 7}
    result = services({**WEB, "real_servers": [REALS[0], new]}, keep_weights=True)
    assert result["lines"] == [
        "+ real server 198.51.100.13:8080 of tcp 192.0.2.80:80: weight 7 masquerade",
        "- real server 198.51.100.12:8080 of tcp 192.0.2.80:80",
    ]
    # A change of another field keeps the weight.
    result = services(
        {**WEB, "real_servers": [{**REALS[0], "weight": 9, "upper_threshold": 5}, new]}, keep_weights=True
    )
    assert result["lines"] == [
        "~ real server 198.51.100.11:8080 of tcp 192.0.2.80:80: weight 0 masquerade -> weight 0 masquerade thresholds"
        " 0..5"
    ]
    assert saved() == (
        "-A -t 192.0.2.80:80 -s rr\n"
        "-a -t 192.0.2.80:80 -r 198.51.100.11:8080 -m -w 0\n"
        "-a -t 192.0.2.80:80 -r 198.51.100.13:8080 -m -w 7\n"
    )
    result = services({**WEB, "real_servers": [REALS[0], new]})
    assert result["diff"]["after"] == {"real server 198.51.100.11:8080 of tcp 192.0.2.80:80": "weight 1 masquerade"}


def test_foreign_virtual_servers_are_left_alone() -> None:
    subprocess.run(
        ["ipvsadm", "-R"], input="-A -t 192.0.2.80:80 -s wrr\n-A -u 192.0.2.9:53 -s rr\n", text=True, check=True
    )
    before = saved()
    for arguments in ({}, {"purge": "owned"}):
        with pytest.raises(ModuleError, match=r"^virtual server tcp 192\.0\.2\.80:80 exists already and has no owner"):
            run("ipvs_services", services=[{**WEB, "real_servers": REALS}], **arguments)
    subprocess.run(["ipvsadm", "-a", "-u", "192.0.2.9:53", "-r", "198.51.100.1:53", "-m"], check=True)
    before = saved()
    with pytest.raises(
        ModuleError, match=r"^virtual server udp 192\.0\.2\.9:53 has no owner and keeps its real server 198"
    ):
        run("ipvs_services", services=[{"protocol": "udp", "address": "192.0.2.9", "port": 53, "real_servers": []}])
    with pytest.raises(ModuleError, match="has no owner and is not removed"):
        run("ipvs_services", services=[{**WEB, "state": "absent"}])
    assert saved() == before
    result = services({**WEB, "real_servers": REALS[:1]}, adopt=True)
    assert result["adopted"] == ["virtual server tcp 192.0.2.80:80"]
    assert "-A -t 192.0.2.80:80 -s rr\n-a -t 192.0.2.80:80 -r 198.51.100.11:8080 -m -w 1\n" in saved()
    assert "-A -u 192.0.2.9:53 -s rr\n" in saved()
    services(purge="owned")
    assert saved() == "-A -u 192.0.2.9:53 -s rr\n-a -u 192.0.2.9:53 -r 198.51.100.1:53 -m -w 1\n"
    services({**WEB}, purge="all")
    assert saved() == "-A -t 192.0.2.80:80 -s rr\n"


def test_owners_do_not_touch_each_other() -> None:
    services({**WEB, "real_servers": REALS}, owner="other")
    before = saved()
    for arguments in ({}, {"adopt": True}, {"purge": "all"}):
        with pytest.raises(ModuleError, match=r"virtual server tcp 192\.0\.2\.80:80 belongs to owner 'other'"):
            run("ipvs_services", services=[WEB], **arguments)
    services(purge="owned")
    services(purge="all")
    assert saved() == before


def test_purge_none_leaves_own_items_that_are_not_named() -> None:
    services(WEB)
    services({**WEB, "port": 81})
    assert saved() == "-A -t 192.0.2.80:80 -s rr\n-A -t 192.0.2.80:81 -s rr\n"
    services({**WEB, "port": 81}, purge="owned")
    assert saved() == "-A -t 192.0.2.80:81 -s rr\n"


def test_refusal_undoes_the_earlier_steps() -> None:
    services(WEB)
    before = saved()
    with pytest.raises(ModuleError) as error:
        run(
            "ipvs_services",
            services=[{**WEB, "port": 81, "real_servers": REALS}, {**WEB, "port": 82, "scheduler": "magic"}],
        )
    assert "tcp 192.0.2.80:82" in str(error.value)
    assert "magic" in str(error.value)
    assert saved() == before
    services(WEB, purge="owned")
