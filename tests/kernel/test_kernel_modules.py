# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import platform
import subprocess

from kubenode.engine.kernel import modules
from kubenode.engine.plan import Step


def lsmod() -> set[str]:
    return {
        line.split()[0]
        for line in subprocess.run(["lsmod"], check=True, capture_output=True, text=True).stdout.splitlines()
    }


def test_module_states_follow_from_presence() -> None:
    subprocess.run(["modprobe", "-r", "ip_vs_fo"], check=False, capture_output=True)
    subprocess.run(["modprobe", "br_netfilter"], check=True)
    states = modules.states(["br-netfilter", "br_netfilter", "ip_vs_fo", "ext4", "nosuch"])
    assert states == {
        "br-netfilter": "loaded",
        "br_netfilter": "loaded",
        "ip_vs_fo": "loadable",
        "ext4": "builtin",
        "nosuch": "absent",
    }


def test_many_modules_are_loaded_at_once_and_unloaded() -> None:
    steps = [Step("kernel_module", name, None, "loaded") for name in ("ip_vs", "ip-vs-fo", "dummy")]
    steps[2] = Step("kernel_module", "dummy", None, "loaded numdummies=0")
    assert modules.apply(steps).failed == []
    assert {"ip_vs", "ip_vs_fo", "dummy"} <= lsmod()
    assert modules.parameters("dummy").get("numdummies", "0") == "0"
    assert modules.apply([Step("kernel_module", "ip_vs_fo", "loaded", None)]).failed == []
    assert "ip_vs_fo" not in lsmod()


def test_missing_module_is_named() -> None:
    steps = [Step("kernel_module", name, None, "loaded") for name in ("nosuch", "ip_vs_nq")]
    result = modules.apply(steps, True)
    assert [step.key for step in result.done] == ["ip_vs_nq"]
    (failure,) = result.failed
    assert failure.message.startswith(f"kernel module nosuch: kernel {platform.release()} ")
    assert "has no module nosuch: neither loaded, nor built in, nor under /lib/modules/" in failure.message
