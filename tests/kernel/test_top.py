# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""kubenode top beside a running agent: real traffic in its counters, drift, draining, and the screen of a terminal."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Iterator
from typing import Any

import pytest
from support.agent.process import eventually
from support.processes.namespace import inside, sh
from support.traffic.cluster import Cluster, cluster_ip, service
from support.traffic.conversation import Talk, asked
from support.traffic.network import NODE
from support.waiting import PATIENCE

from kubenode.engine.kernel.ipvs.statistics import statistics
from kubenode.engine.kernel.ipvs.usage import UsageReader, real_server_use

WEB = 20
NAME = f"ns1/svc{WEB}:p-tcp"
LEAVE = "\x1b[?25h\x1b[?1049l"


@pytest.fixture(scope="module")
def cluster(bare_cluster: Cluster) -> Cluster:
    bare_cluster.write("web", service(WEB, ["p1", "r1"]))
    bare_cluster.start()
    return bare_cluster


def words(cluster: Cluster, *more: str) -> list[str]:
    return ["top", *cluster.agent.options(), *more]


def top(cluster: Cluster, *more: str, name: str = NAME) -> dict[str, Any]:
    """Return the row of a Service port; an empty one if it is missing."""
    with inside(NODE):
        printed = cluster.agent.command(*words(cluster, "--batch", "--format", "json", *more)).stdout
    found = {row["service"] or row["virtual_servers"][0]: row for row in json.loads(printed)["services"]}
    return dict(found.get(name, {}))


def test_traffic_shows_in_the_counters_of_its_service(cluster: Cluster) -> None:
    before = top(cluster)
    assert (before["real_servers"], before["draining"], before["drift"]) == (4, 0, 0)  # two pods, in both families
    assert sum(count for said, count in asked("client1", cluster_ip(WEB, 4), 6).items() if " sees " in said) == 6
    eventually(lambda: top(cluster)["connections"] - before["connections"] == 6)  # the kernel sums up every two seconds
    after = top(cluster)
    assert after["connections"] - before["connections"] == 6
    assert after["packets_in"] - before["packets_in"] >= 6 * 4
    assert after["bytes_in"] > before["bytes_in"]
    assert after["inactive"] >= 6


def test_open_connection_is_active_and_has_a_rate(cluster: Cluster) -> None:
    talk = Talk("client1", cluster_ip(WEB, 4))
    assert talk.say().line == "hello"
    assert top(cluster)["active"] == 1

    def rated() -> bool:
        talk.say()
        return bool(top(cluster)["packet_rate_in"])

    eventually(rated)
    talk.abort()


def test_counters_equal_the_complete_reading(cluster: Cluster) -> None:
    with inside(NODE):
        sh("ipvsadm", "-A", "-f", "7", "-s", "rr")
        sh("ipvsadm", "-A", "-f", "7", "-6", "-s", "rr")
        sh("ipvsadm", "-a", "-f", "7", "-r", "10.99.0.2:0", "-m")
        sh("ipvsadm", "-a", "-f", "7", "-6", "-r", "[fd00:99::2]:0", "-m")
        try:
            whole = statistics()
            reader = UsageReader()
            for _reading in range(2):  # the second one knows the keys
                assert reader.counters() == whole["virtual_server"]
            active: dict[Any, int] = {}
            for key, value in whole["real_server"].items():
                if value.active:
                    active[key.server] = active.get(key.server, 0) + value.active
            assert reader.active() == active
            assert reader.active(list(whole["virtual_server"])) == active  # few: by a request for each
            used = {key: use for its in real_server_use().values() for key, use in its.items()}
            assert {key: (use.active, use.inactive) for key, use in used.items()} == {
                key: (value.active, value.inactive) for key, value in whole["real_server"].items()
            }
        finally:
            sh("ipvsadm", "-D", "-f", "7")
            sh("ipvsadm", "-D", "-f", "7", "-6")


def test_drift_counts_until_the_agent_has_healed_it(cluster: Cluster) -> None:
    target = cluster_ip(WEB, 4)
    with inside(NODE):
        sh("ipvsadm", "-A", "-u", "10.99.0.1:5353", "-s", "rr")
        sh("ipvsadm", "-d", "-t", f"{target.address}:{target.port}", "-r", "10.244.1.11:8080")
    assert top(cluster)["drift"] == 1
    foreign = top(cluster, name="udp 10.99.0.1:5353")
    assert (foreign["drift"], foreign["real_servers"]) == (None, 0)
    cluster.agent.ask("sync")
    assert top(cluster)["drift"] == 0
    with inside(NODE):
        sh("ipvsadm", "-D", "-u", "10.99.0.1:5353")


def test_without_agent_names_come_from_the_manifests(cluster: Cluster) -> None:
    named = top(cluster, "--objects", str(cluster.agent.manifests))
    assert (named["real_servers"], named["drift"]) == (4, 0)


def test_batch_prints_so_often_and_filters(cluster: Cluster) -> None:
    with inside(NODE):
        more = ("--batch", "--count", "2", "--interval", "0.1", "--filter", "svc20")
        printed = cluster.agent.command(*words(cluster, *more)).stdout
        assert printed.count("SERVICE") == printed.count(NAME) == 2
        assert NAME not in cluster.agent.command(*words(cluster, "--batch", "--filter", "other")).stdout


def test_without_terminal_top_names_the_batch_option(cluster: Cluster) -> None:
    with inside(NODE):
        done = cluster.agent.command(*words(cluster), expect=1)
    assert done.stderr == "kubenode top: standard input and output are not a terminal; use kubenode top --batch\n"


class Terminal:
    """kubenode top in a pseudo-terminal of 24 lines."""

    def __init__(self, cluster: Cluster) -> None:
        self.text = ""
        self.master, self.slave = pty.openpty()
        self.resize(100)
        self.before = termios.tcgetattr(self.slave)
        command = cluster.agent.words(*words(cluster, "--interval", "0.2"))
        streams = dict.fromkeys(("stdin", "stdout", "stderr"), self.slave)
        with inside(NODE):
            self.process = subprocess.Popen(
                command, env=cluster.agent.environment(), start_new_session=True, preexec_fn=self._control, **streams
            )

    @staticmethod
    def _control() -> None:
        """Make standard input the terminal of the new session."""
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    def resize(self, columns: int) -> None:
        """Set the number of columns; the kernel sends SIGWINCH."""
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))

    def press(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    def shows(self, words: str) -> None:
        """Wait until text is written that was not written before this call."""
        self.text = ""

        def shown() -> bool:
            self._read()
            return words in self.text

        shown.__doc__ = f"the screen shows {words!r}"
        try:
            eventually(shown)
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.text[-2000:]!r}") from None

    def _read(self) -> None:
        while select.select([self.master], [], [], 0.05)[0]:
            try:
                self.text += os.read(self.master, 65536).decode("utf-8", "replace")
            except OSError as error:
                if error.errno != errno.EIO:
                    raise
                return

    def ended(self) -> int:
        """Return the exit status; the terminal is as it was before."""
        limit = time.monotonic() + PATIENCE
        while time.monotonic() < limit:
            self._read()
            status = self.process.poll()
            if status is not None:
                self._read()
                assert termios.tcgetattr(self.slave) == self.before
                return status
        raise AssertionError("kubenode top does not end")

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.master)
        os.close(self.slave)


@pytest.fixture
def terminal(cluster: Cluster) -> Iterator[Terminal]:
    found = Terminal(cluster)
    yield found
    found.close()


def test_screen_sorts_filters_resizes_and_ends_by_q(terminal: Terminal) -> None:
    terminal.shows(NAME)
    assert termios.tcgetattr(terminal.slave) != terminal.before
    terminal.press("s")
    terminal.shows("sort: PKT/S")
    terminal.press("/nothing\r")
    terminal.shows("0 Services")
    assert NAME not in terminal.text.rpartition("filter: nothing")[2]
    terminal.press("/svc20\r")
    terminal.shows(NAME)
    terminal.resize(40)
    terminal.shows(f"SERVICE{' ' * 12}CONN/S    PKT/S   BYT\x1b[m")  # the header, cut to the new width
    terminal.press("q")
    assert terminal.ended() == 0
    assert terminal.text.endswith(LEAVE)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_signal_leaves_a_clean_terminal(terminal: Terminal, number: int, status: int) -> None:
    terminal.shows(NAME)
    terminal.process.send_signal(number)
    assert terminal.ended() == status
    assert LEAVE in terminal.text


def test_removed_endpoint_drains_in_its_row(cluster: Cluster) -> None:
    """Must be the last test: the Service loses an endpoint."""
    talk = [Talk("client1", cluster_ip(WEB, 4)) for _connection in range(2)]
    cluster.write("web", service(WEB, ["r1"]))
    eventually(lambda: top(cluster)["draining"] == 1)
    row = top(cluster)
    assert (row["real_servers"], row["drift"]) == (3, 0)
    for each in talk:
        each.abort()
