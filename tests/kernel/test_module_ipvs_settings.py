# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module ipvs_services: timeouts and synchronisation daemons, against the kernel."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from kernel.modules import ModuleError, converge, run

from kubenode.engine.kernel.ipvs import control
from kubenode.engine.model.ipvs import SyncDaemon

MASTER = {"role": "master", "interface": "lo", "sync_id": 7}
BACKUP = {"role": "backup", "interface": "lo", "group": "FF02:0::99", "port": 9001, "ttl": 2, "maxlen": 1300}
WEB = {"protocol": "tcp", "address": "192.0.2.80", "port": 80}
OTHER_FAMILY = {**WEB, "real_servers": [{"address": "2001:db8::1", "forwarding_method": "tunnel"}]}


def sh(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    sh("modprobe", "-a", "ip_vs", "ip_vs_rr")
    sh("ip", "link", "set", "lo", "multicast", "on")
    former = control.get_timeouts()
    yield
    for owner in ("ansible", "other"):
        run("ipvs_services", purge="owned", sync_daemons=[], owner=owner)
    assert control.daemons() == {}
    sh("ipvsadm", "-C")
    control.set_timeouts(former)


def shown() -> list[str]:
    return sh("ipvsadm", "-Ln", "--daemon").splitlines()


def test_omitted_timeouts_stay() -> None:
    control.set_timeouts(control.Timeouts(900, 120, 300))
    result = converge("ipvs_services", timeouts={"tcp": 1000, "udp": 0})
    assert result["lines"] == ["~ IPVS timeout tcp: 900 s -> 1000 s"]
    assert result["diff"] == {"before": {"IPVS timeout tcp": "900 s"}, "after": {"IPVS timeout tcp": "1000 s"}}
    assert result["plan"] == [{"kind": "ipvs_timeout", "verb": "change", "key": "tcp", "before": 900, "after": 1000}]
    assert "1000 120 300" in sh("ipvsadm", "-Ln", "--timeout")
    result = converge("ipvs_services", timeouts={"tcp": 1000, "tcp_fin": 60, "udp": 30})
    assert result["lines"] == ["~ IPVS timeout tcp_fin: 120 s -> 60 s", "~ IPVS timeout udp: 300 s -> 30 s"]
    assert run("ipvs_services_info")["timeouts"] == {"tcp": 1000, "tcp_fin": 60, "udp": 30}


def test_timeouts_have_no_owner() -> None:
    for owner, seconds in (("ansible", 1000), ("other", 1001), ("ansible", 1002)):
        result = converge("ipvs_services", timeouts={"tcp": seconds}, owner=owner, adopt=True, purge="all")
        assert (len(result["lines"]), result["adopted"]) == (1, [])
    converge("ipvs_services", purge="all")
    assert control.get_timeouts().tcp == 1002


def test_daemons_start_change_and_stop() -> None:
    result = converge("ipvs_services", sync_daemons=[MASTER, BACKUP])
    assert result["lines"] == [
        "+ IPVS synchronisation daemon master: on lo id 7 group 224.0.0.81 port 8848 ttl 1",
        "+ IPVS synchronisation daemon backup: on lo id 0 length 1300 group ff02::99 port 9001 ttl 2",
    ]
    assert shown() == [
        "master sync daemon (mcast=lo, syncid=7, maxlen=1472, group=224.0.0.81, port=8848, ttl=1)",
        "backup sync daemon (mcast=lo, syncid=0, maxlen=1300, group=ff02::99, port=9001, ttl=2)",
    ]
    result = converge("ipvs_services", sync_daemons=[{**MASTER, "ttl": 4}])
    assert result["diff"] == {
        "before": {"IPVS synchronisation daemon master": "on lo id 7 length 1472 group 224.0.0.81 port 8848 ttl 1"},
        "after": {"IPVS synchronisation daemon master": "on lo id 7 length 1472 group 224.0.0.81 port 8848 ttl 4"},
    }
    assert control.daemons()["master"] == SyncDaemon("lo", 7, 1472, "224.0.0.81", 8848, 4)
    assert len(shown()) == 2
    result = converge("ipvs_services", sync_daemons=[{"role": "backup", "state": "absent"}])
    assert result["lines"] == ["- IPVS synchronisation daemon backup"]
    result = converge("ipvs_services", sync_daemons=[], purge="owned")
    assert result["lines"] == ["- IPVS synchronisation daemon master"]
    assert shown() == []


def test_returned_settings_change_nothing() -> None:
    run("ipvs_services", sync_daemons=[MASTER, BACKUP], owner="other")
    result = run("ipvs_services_info")
    assert [(each["role"], each.pop("owner")) for each in result["sync_daemons"]] == [
        ("backup", "other"),
        ("master", "other"),
    ]
    again = run("ipvs_services", sync_daemons=result["sync_daemons"], timeouts=result["timeouts"], owner="other")
    assert (again["changed"], again["plan"]) == (False, [])


def test_daemon_belongs_to_its_owner() -> None:
    control.start_daemon("master", SyncDaemon("lo", 9))
    with pytest.raises(ModuleError, match=r"^IPVS synchronisation daemon master exists already and has no owner"):
        run("ipvs_services", sync_daemons=[MASTER])
    with pytest.raises(ModuleError, match=r"^IPVS synchronisation daemon master has no owner and is not removed"):
        run("ipvs_services", sync_daemons=[{"role": "master", "state": "absent"}])
    converge("ipvs_services", sync_daemons=[], purge="owned")
    converge("ipvs_services", purge="all")
    assert control.daemons()["master"].sync_id == 9
    converge("ipvs_services", sync_daemons=[MASTER], adopt=True)
    assert control.daemons()["master"].sync_id == 7
    for arguments in ({"sync_daemons": [MASTER]}, {"sync_daemons": [{**MASTER, "ttl": 2}], "adopt": True}):
        with pytest.raises(ModuleError, match=r"^IPVS synchronisation daemon master belongs to owner 'ansible'"):
            run("ipvs_services", owner="other", **arguments)
    converge("ipvs_services", sync_daemons=[], purge="all", owner="other")
    assert control.daemons()["master"].sync_id == 7
    sh("ipvsadm", "--start-daemon", "backup", "--mcast-interface", "lo")
    result = converge("ipvs_services", sync_daemons=[MASTER], purge="all")
    assert result["lines"] == ["- IPVS synchronisation daemon backup"]


def test_refusal_undoes_timeouts_and_daemons() -> None:
    run("ipvs_services", sync_daemons=[MASTER])
    before, timeouts = control.daemons(), control.get_timeouts()
    wanted = [{**MASTER, "interface": "nosuch0"}, BACKUP]
    for daemons in (wanted, wanted[::-1]):
        with pytest.raises(ModuleError) as error:
            run("ipvs_services", services=[WEB], timeouts={"tcp": 77}, sync_daemons=daemons)
        assert str(error.value).startswith(
            "IPVS synchronisation daemon master cannot be started: there is no interface nosuch0; "
        )
        assert (control.daemons(), control.get_timeouts()) == (before, timeouts)
        assert sh("ipvsadm", "-Sn") == ""
    again = run("ipvs_services", sync_daemons=[{**BACKUP, "state": "absent"}])
    assert not again["changed"]


def test_daemons_exclude_real_servers_of_other_family() -> None:
    converge("ipvs_services", sync_daemons=[MASTER])
    result = converge("ipvs_services", services=[OTHER_FAMILY], sync_daemons=[{**MASTER, "state": "absent"}])
    assert len(result["lines"]) == 3
    with pytest.raises(ModuleError, match="a virtual server must not have real servers of the other family"):
        run("ipvs_services", services=[OTHER_FAMILY], sync_daemons=[MASTER])
    converge("ipvs_services", services=[{**WEB, "state": "absent"}], sync_daemons=[MASTER])
    assert list(control.daemons()) == ["master"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"timeouts": {"tcp": -1}}, "timeouts: tcp is -1, expected a number between 0 and 2147483"),
        ({"timeouts": {"udp": 2147484}}, "timeouts: udp is 2147484, expected a number between 0 and 2147483"),
        (
            {"sync_daemons": [MASTER, BACKUP, MASTER]},
            "sync_daemons[2] and sync_daemons[0] are both master; name each item once",
        ),
        (
            {"sync_daemons": [{"role": "backup"}]},
            "sync_daemons[0] (backup): interface is None, expected the name of an interface, at most 15 bytes",
        ),
        (
            {"sync_daemons": [{**MASTER, "interface": "an-interface-name"}]},
            (
                "sync_daemons[0] (master): interface is 'an-interface-name', expected the name of an interface, at most"
                " 15 bytes"
            ),
        ),
        (
            {"sync_daemons": [{**MASTER, "group": "10.0.0.1"}]},
            "sync_daemons[0] (master): group is '10.0.0.1', expected a multicast address",
        ),
        (
            {"sync_daemons": [{**MASTER, "group": "all"}]},
            "sync_daemons[0] (master): group is 'all', expected an IPv4 or IPv6 address",
        ),
        (
            {"sync_daemons": [{**MASTER, "sync_id": 256}]},
            "sync_daemons[0] (master): sync_id is 256, expected a number between 0 and 255",
        ),
        (
            {"sync_daemons": [{**BACKUP, "maxlen": 1023}]},
            "sync_daemons[0] (backup): maxlen is 1023, expected a number between 1024 and 65487",
        ),
        (
            {"sync_daemons": [{**MASTER, "maxlen": 65508}]},
            "sync_daemons[0] (master): maxlen is 65508, expected a number between 1 and 65507",
        ),
        (
            {"sync_daemons": [{**MASTER, "port": 0}]},
            "sync_daemons[0] (master): port is 0, expected a number between 1 and 65535",
        ),
        (
            {"sync_daemons": [{**MASTER, "ttl": 256}]},
            "sync_daemons[0] (master): ttl is 256, expected a number between 1 and 255",
        ),
    ],
)
def test_wrong_input_is_one_clear_message(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ModuleError) as error:
        run("ipvs_services", **wrong)
    assert str(error.value) == message
    assert shown() == []


@pytest.mark.parametrize(
    ("role", "length", "group"),
    [
        ("master", 1, "224.0.0.81"),
        ("master", 65507, "224.0.0.81"),
        ("backup", 1024, "ff02::99"),
        ("backup", 65487, "ff02::99"),
    ],
)
def test_longest_length_is_accepted_by_the_kernel(role: str, length: int, group: str) -> None:
    converge("ipvs_services", sync_daemons=[{"role": role, "interface": "lo", "maxlen": length, "group": group}])
    assert control.daemons()[role].max_length == length
