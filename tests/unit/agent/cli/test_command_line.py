# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line: help, exit statuses, the imports of each command, rendering."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.clusters import objects as make

from kubenode.cli import main
from kubenode.cli.commands import COMMANDS, USAGE_ERROR

ROOT = Path(__file__).parents[4]


def kubenode(*words: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a separate process."""
    environment = {"PYTHONPATH": str(ROOT / "agent/src"), "PATH": "/usr/bin:/bin"}
    return subprocess.run(
        [sys.executable, "-m", "kubenode", *words], env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_a_manual(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main([command, "--help"])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    assert text.startswith(f"usage: kubenode {command}")
    assert "Exit status" in text


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["nonsense"],
        ["render"],
        ["render", "--nonsense"],
        ["status", "--wait", "x"],
        ["status", "--wait", "nan"],
        ["status", "--wait=-1"],
        ["help", "nonsense"],
        ["--nonsense"],
        ["plan", "--format", "yaml"],
    ],
)
def test_wrong_usage_is_64(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    try:
        status = main(words)
    except SystemExit as caught:
        status = int(str(caught.code))
    assert status == USAGE_ERROR == 64
    out, err = capsys.readouterr()
    assert out + err


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("kubenode 0.")
    assert all(f"  {name} " in out for name in COMMANDS)
    assert "kubenode --version" in out


def test_commands_work_in_any_locale() -> None:
    environment = {"PYTHONPATH": str(ROOT / "agent/src"), "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        [sys.executable, "-m", "kubenode", "plan", "--help"], env=environment, capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"\\u2026" in done.stdout


def test_unwritable_output_is_reported() -> None:
    environment = {"PYTHONPATH": str(ROOT / "agent/src"), "PATH": "/usr/bin:/bin"}
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run(
            [sys.executable, "-m", "kubenode", "completion", "bash"],
            env=environment, stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (1, "kubenode completion: its output: No space left on device\n")


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["help", "status"], ["completion", "fish"]])
def test_closed_reader_of_the_output_is_no_error(words: list[str]) -> None:
    """The reader closes the pipe, as in ``kubenode --help | head -1``, even after short output."""
    reader, writer = os.pipe()
    os.close(reader)
    environment = {"PYTHONPATH": str(ROOT / "agent/src"), "PATH": "/usr/bin:/bin"}
    for more in ({}, {"PYTHONUNBUFFERED": "1"}):
        done = subprocess.run(
            [sys.executable, "-m", "kubenode", *words],
            env={**environment, **more}, stdout=writer, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
        assert done.stderr == ""
        assert done.returncode in (0, 1)  # argparse does not report that its output is refused at once
    os.close(writer)


def test_control_c_prints_one_line(tmp_path: Path) -> None:
    environment = {"PYTHONPATH": str(ROOT / "agent/src"), "PATH": "/usr/bin:/bin"}
    path = tmp_path / "agent.sock"
    with socket.socket(socket.AF_UNIX) as agent:
        agent.bind(str(path))
        agent.listen()
        asking = subprocess.Popen(
            # A shell ignores SIGINT in its background jobs.
            ["env", "--default-signal=INT", sys.executable, "-m", "kubenode", "status", "--run-dir", str(tmp_path)],
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        with agent.accept()[0]:  # the command waits for an answer now
            asking.send_signal(signal.SIGINT)
            assert (asking.communicate()[1], asking.returncode) == ("kubenode status: interrupted\n", 130)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda _path: None, "the agent is not running (no answer at"),
        (lambda path: path.touch(), "the agent is not running (no answer at"),
        (lambda path: path.mkdir(), "the agent is not running (no answer at"),
    ],
    ids=["nothing", "a file", "a directory"],
)
def test_unusable_control_socket_is_named(tmp_path: Path, make: Any, message: str) -> None:
    make(tmp_path / "agent.sock")
    for words in (("status",), ("status", "--wait", "0.1", "--format", "json"), ("status", "--sync")):
        done = kubenode(*words, "--run-dir", str(tmp_path))
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith(f"kubenode status: {message}"), done.stderr
        assert "Traceback" not in done.stderr


@pytest.fixture
def manifests(tmp_path: Path) -> Path:
    path = tmp_path / "m.json"
    web = make.service("web", ["10.96.0.10"], [make.port(80, "http", node_port=30080)], kind="NodePort")
    bad = make.service("bad", ["10.96.0.11"], [make.port(70000)])
    piece = make.piece("web", [make.endpoint("10.244.1.5", "n1")], [make.port(8080, "http")])
    path.write_text(json.dumps({"kind": "List", "items": [web, bad, piece]}))
    return path


def test_render_imports_neither_daemon_nor_kernel_nor_yaml(manifests: Path) -> None:
    script = (
        "import sys; from kubenode.cli import main; main(sys.argv[1:]);"
        "print(*sorted(name for name in sys.modules), file=sys.stderr)"
    )
    words = ("render", "--objects", str(manifests), "--node", "n1", "--format", "ipvsadm")
    done = subprocess.run(
        [sys.executable, "-c", script, *words],
        env={"PYTHONPATH": str(ROOT / "agent/src")},
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = done.stderr.splitlines()[-1].split()
    unwanted = ("kubenode.daemon", "kubenode.engine.kernel", "yaml", "sqlite3", "subprocess", "logging", "ctypes")
    assert [name for name in loaded if name.startswith(unwanted)] == []


def test_render_prints_the_desired_state(manifests: Path) -> None:
    words = ("render", "--objects", str(manifests), "--node", "n1", "--node-address", "192.0.2.1")
    done = kubenode(*words, "--format", "ipvsadm")
    assert done.stdout.splitlines() == [
        "-A -t 10.96.0.10:80 -s rr",
        "-a -t 10.96.0.10:80 -r 10.244.1.5:8080 -m -w 1",
        "-A -t 192.0.2.1:30080 -s rr",
        "-a -t 192.0.2.1:30080 -r 10.244.1.5:8080 -m -w 1",
    ]
    assert done.returncode == 0
    assert "Service ns1/bad" in done.stderr
    assert "70000" in done.stderr
    rendered = json.loads(kubenode(*words).stdout)
    assert list(rendered) == ["virtual_servers", "sets", "iptables", "addresses", "sysctls"]
    assert rendered["addresses"] == ["10.96.0.10/32"]


def test_render_as_tables_of_nftables(manifests: Path) -> None:
    words = ("render", "--objects", str(manifests), "--node", "n1", "--node-address", "192.0.2.1", "--format", "nft")
    done = kubenode(*words)
    lines = done.stdout.splitlines()
    assert done.returncode == 0
    assert lines[:3] == ["add table ip kubenode", "delete table ip kubenode", "table ip kubenode {"]
    assert "\t\telements = { 10.96.0.10 . tcp . 80 }" in lines
    assert "\t\telements = { 30080 }" in lines
    assert "table ip6 kubenode {" in lines
    assert "\t\tmasquerade" in kubenode(*words, "--no-random-fully").stdout.replace(" comment", "\n").splitlines()


@pytest.mark.parametrize("source", ["kubeconfig", "server", "manifests", "endpoints"])
def test_render_refuses_the_addresses_of_api_servers(tmp_path: Path, source: str) -> None:
    """As in the agent, configuration, kubeconfig or manifests may name the addresses; manifests have no kubeconfig."""
    cluster = {"server": "https://192.0.2.10:6443"}
    known = {"clusters": [{"name": "c", "cluster": cluster}], "contexts": [{"name": "x", "context": {"cluster": "c"}}]}
    kubeconfig, config, items = (tmp_path / name for name in ("kubeconfig", "config.yaml", "items.json"))
    kubeconfig.write_text(json.dumps({"current-context": "x", **known}))
    access = {"server": "https://192.0.2.10"} if source == "server" else {"kubeconfig": str(kubeconfig)}
    given = {"source": {"kubernetes": access}} if source in ("kubeconfig", "server") else {}
    config.write_text(json.dumps({"apiVersion": "kubenode.ipvs/v1alpha1", "kind": "AgentConfiguration", **given}))
    bad = make.service("bad", ["10.96.0.11"], externalIPs=["192.0.2.10", "192.0.2.77"])
    api = [make.piece("kubernetes", [make.endpoint("192.0.2.10")], namespace="default")]
    items.write_text(json.dumps({"kind": "List", "items": [bad, *(api if source == "endpoints" else [])]}))
    done = kubenode("render", "--objects", str(items), "--node", "n1", "--config", str(config), "--format", "addresses")
    served = ["192.0.2.10/32"] if source == "manifests" else []
    assert done.stdout.split() == ["10.96.0.11/32", *served, "192.0.2.77/32"]
    assert ("spec.externalIPs is '192.0.2.10', expected an address that is not" in done.stderr) is not served


@pytest.mark.parametrize(("words", "fully"), [((), True), (("--no-random-fully",), False)])
def test_render_omits_random_fully_for_an_old_iptables(manifests: Path, words: tuple[str, ...], fully: bool) -> None:
    done = kubenode("render", "--objects", str(manifests), "--node", "n1", "--format", "iptables", *words)
    assert ("-j MASQUERADE --random-fully" in done.stdout) is fully
    assert "-j MASQUERADE" in done.stdout


def test_render_names_unreadable_input(tmp_path: Path, manifests: Path) -> None:
    (tmp_path / "bad.yaml").write_text("a: [")
    done = kubenode("render", "--objects", str(tmp_path / "bad.yaml"), "--node", "n1")
    assert (done.returncode, done.stdout) == (1, "")
    assert f"{tmp_path}/bad.yaml:1: not valid YAML" in done.stderr
    done = kubenode("render", "--objects", str(tmp_path / "none"), "--node", "n1")
    assert done.returncode == 1
    assert "No such file" in done.stderr
    (tmp_path / "c.yaml").write_text(
        "kind: KubeProxyConfiguration\napiVersion: kubeproxy.config.k8s.io/v1alpha1\nipvs: {scheduler: 7}\n"
    )
    done = kubenode("render", "--objects", str(manifests), "--node", "n1", "--config", str(tmp_path / "c.yaml"))
    assert done.returncode == 1
    assert "ipvs.scheduler" in done.stderr
    assert "Traceback" not in done.stderr


def test_config_map_is_unpacked(tmp_path: Path, manifests: Path) -> None:
    inner = (
        "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: ipvs\nipvs: {scheduler:"
        " lc}\n"
    )
    document = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "kube-proxy"},
        "data": {"config.conf": inner},
    }
    (tmp_path / "c.json").write_text(json.dumps(document))
    words = ("--objects", str(manifests), "--node", "n1", "--config", str(tmp_path / "c.json"), "--format", "ipvsadm")
    assert "-A -t 10.96.0.10:80 -s lc" in kubenode("render", *words).stdout


def test_cleanup_refuses_beside_an_unresponsive_agent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A busy or hanging agent would create everything again."""
    with socket.socket(socket.AF_UNIX) as agent:
        agent.bind(str(tmp_path / "agent.sock"))
        agent.listen()
        assert main(["cleanup", "--run-dir", str(tmp_path)]) == 1
    assert "would create all items again: stop it first" in capsys.readouterr().err
