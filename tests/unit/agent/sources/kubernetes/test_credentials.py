# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rotating tokens and credential plugins; no log or message contains their secrets."""

from __future__ import annotations

import fcntl
import json
import time
from pathlib import Path
from typing import IO, Any

import pytest
from support.waiting import eventually

from kubenode.sources.kubernetes.access import Identity
from kubenode.sources.kubernetes.credentials import Credentials, Plugin
from kubenode.sources.kubernetes.errors import AccessError

SECRET = "s3cr3t-t0k3n"
VERSION = "client.authentication.k8s.io/v1"


class Clock:
    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def plugin(directory: Path, printed: Any, status: int = 0, **given: Any) -> Identity:
    """Return a plugin that counts its calls and saves its input."""
    text = printed if isinstance(printed, str) else json.dumps(printed)
    script = directory / "plugin"
    script.write_text(
        f'#!/bin/sh\necho x >>{directory}/asked\nprintf %s "$KUBERNETES_EXEC_INFO" >{directory}/told\n'
        f"echo \"$GIVEN $1\" >{directory}/given\ncat <<'EOF'\n{text}\nEOF\nexit {status}\n"
    )
    script.chmod(0o755)
    fields = {
        "command": str(script),
        "arguments": ("word",),
        "environment": {"GIVEN": "yes"},
        "version": VERSION,
        "hint": "",
        "cluster": None,
    }
    return Identity(plugin=Plugin(**{**fields, "where": "kubeconfig k: user u: exec", **given}))


def asked(directory: Path) -> int:
    return (directory / "asked").read_text().count("x")


def credential(token: str = SECRET, ends: str = "", **status: Any) -> dict[str, Any]:
    expires = {"expirationTimestamp": ends} if ends else {}
    return {"apiVersion": VERSION, "kind": "ExecCredential", "status": {"token": token, **expires, **status}}


def timestamp(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def test_static_credentials_stay() -> None:
    identity = Identity(token=SECRET, certificate_file="/c", key_file="/k")
    assert Credentials().resolve(identity) == identity


def test_a_token_file_is_read_every_time(tmp_path: Path) -> None:
    file = tmp_path / "token"
    identity, credentials = Identity(token_file=str(file)), Credentials()
    file.write_text("one\n")
    assert credentials.resolve(identity).token == "one"
    file.write_text("two")
    assert credentials.resolve(identity).token == "two"
    file.write_text("\n")
    with pytest.raises(AccessError, match="is empty"):
        credentials.resolve(identity)
    file.unlink()
    with pytest.raises(AccessError, match=r"token file .* cannot be read: No such file"):
        credentials.resolve(identity)


def test_plugin_is_called_once(tmp_path: Path) -> None:
    identity, credentials = plugin(tmp_path, credential(), cluster={"server": "https://h"}), Credentials()
    assert [credentials.resolve(identity).token for _time in range(3)] == [SECRET] * 3
    assert asked(tmp_path) == 1
    request = json.loads((tmp_path / "told").read_text())
    assert request == {
        "apiVersion": VERSION,
        "kind": "ExecCredential",
        "spec": {"interactive": False, "cluster": {"server": "https://h"}},
    }
    assert (tmp_path / "given").read_text() == "yes word\n"


def test_plugin_is_called_again_after_a_refusal(tmp_path: Path) -> None:
    identity, credentials = plugin(tmp_path, credential()), Credentials()
    credentials.resolve(identity)
    credentials.refused()
    credentials.resolve(identity)
    assert asked(tmp_path) == 2


@pytest.mark.parametrize(
    ("wall", "monotonic", "times"), [(60, 60, 1), (95, 95, 2), (95, 0, 2), (-86400, 95, 2), (-86400, 10, 1)]
)
def test_plugin_credentials_expire_by_either_clock(tmp_path: Path, wall: float, monotonic: float, times: int) -> None:
    """A credential does not live longer when the wall clock is set back."""
    now = 1_700_000_000.0
    walls, monotonics = Clock(now), Clock(50.0)
    identity, credentials = plugin(tmp_path, credential(ends=timestamp(now + 100))), Credentials(walls, monotonics)
    credentials.resolve(identity)
    walls.now, monotonics.now = now + wall, 50.0 + monotonic
    credentials.resolve(identity)
    assert asked(tmp_path) == times


def test_a_plugin_may_give_a_certificate(tmp_path: Path) -> None:
    identity = Credentials().resolve(
        plugin(tmp_path, credential("", clientCertificateData="CERT", clientKeyData="KEY"))
    )
    assert (identity.token, identity.certificate, identity.key) == ("", b"CERT", b"KEY")


@pytest.mark.parametrize(
    ("printed", "status", "words"),
    [
        (credential(), 3, "failed with status 3"),
        (SECRET, 0, "printed no ExecCredential"),
        ([SECRET], 0, "printed no ExecCredential"),
        ({"apiVersion": VERSION, "kind": "ExecCredential"}, 0, "printed no ExecCredential"),
        (credential(""), 0, "neither a token nor a certificate"),
        (credential("", clientCertificateData=SECRET), 0, "neither a token nor a certificate"),
        ({**credential(), "apiVersion": "client.authentication.k8s.io/v1beta1"}, 0, f"expected '{VERSION}'"),
        (credential(ends="tomorrow"), 0, "expirationTimestamp is not a time"),
    ],
)
def test_failing_plugin_is_reported_without_its_output(tmp_path: Path, printed: Any, status: int, words: str) -> None:
    with pytest.raises(AccessError) as caught:
        Credentials().resolve(plugin(tmp_path, printed, status))
    assert words in str(caught.value)
    assert str(caught.value).startswith("kubeconfig k: user u: exec: ")
    assert SECRET not in str(caught.value)


def test_missing_plugin_is_named(tmp_path: Path) -> None:
    identity = plugin(tmp_path, "", command="/nowhere/plugin", hint="see the manual")
    with pytest.raises(
        AccessError, match=r"/nowhere/plugin cannot be run: No such file or directory \(see the manual\)"
    ):
        Credentials().resolve(identity)


def unlocked(file: IO[str]) -> bool:
    """Return whether no process holds a lock on the file."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def test_hanging_plugin_is_killed_with_its_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kubenode.sources.kubernetes.credentials._PLUGIN_SECONDS", 0.5)
    script = "exec 3>$0; flock 3; sleep 300; true"  # sleep inherits the lock
    lock = tmp_path / "lock"
    identity = plugin(tmp_path, "", command="sh", arguments=("-c", script, str(lock)))
    with pytest.raises(AccessError, match=r"did not end within 0\.5 s"):
        Credentials().resolve(identity)
    with lock.open() as file:
        eventually(lambda: unlocked(file))
