# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run Kubernetes' own end-to-end tests against a cluster of lab nodes whose service proxy is the agent (`make e2e`).

    PYTHONPATH=tests:molecule:.cache/e2e/python python -m e2e.run

The variables KUBERNETES, NODES, KERNEL, FOCUS and SKIP choose what runs; see tests/e2e/README.md. Nodes, processes and
the cluster's data are removed at the end, also after an interrupt.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, TextIO

from lab import lifecycle, netns
from lab.errors import HostError, LabError
from lab.lock import locked
from lab.paths import ROOT
from lab.progress import Progress

from . import images, load_balancer, pod_network, programs, results, settings
from .cluster_dns import ClusterDns
from .control_plane import ControlPlane
from .errors import E2eError
from .load_balancer import LoadBalancer
from .nodes import Nodes
from .settings import CACHE, LAB, MEMORY, RELEASE, RESULTS, WORK, Settings

if TYPE_CHECKING:
    from types import FrameType

    from lab.state import Lab

_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
_GRACE = 60.0  # seconds in which e2e.test writes its report after an interrupt
_SHOWN = ("•", "Ran ", "Summarizing", "Will run")


def main() -> int:
    """Run the tests; return 0 if all passed, 1 if one failed or the run could not go on, 2 for a wrong call."""
    for number in _SIGNALS:
        signal.signal(number, _interrupted)
    try:
        chosen = settings.read(os.environ)
        if problems := programs.problems(chosen.programs):
            print("\n".join(f"make e2e: {problem}" for problem in problems), file=sys.stderr)
            return 2
        CACHE.mkdir(parents=True, exist_ok=True)
        progress = Progress()
        with locked(CACHE / "lock", lambda: progress("another run of this clone is at work, waiting")):
            return _run(chosen, progress)
    except HostError as error:
        print(f"make e2e: {error}", file=sys.stderr)
        return 2
    except (E2eError, LabError) as error:
        print(f"make e2e: {error}", file=sys.stderr)
        return 1


def _interrupted(number: int, _: FrameType | None) -> None:
    raise SystemExit(128 + number)


def _run(chosen: Settings, progress: Progress) -> int:
    version = programs.version(chosen.programs / "kube-apiserver")
    archives = images.archives(chosen.programs, programs.image_names(chosen.programs / "e2e.test"))
    progress(f"images are ready; Kubernetes {version}")
    for directory in (RESULTS, WORK):
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
    try:
        lifecycle.down(LAB, progress)  # left by a run that was killed
        lab = _lab(chosen, progress)
        control_plane = ControlPlane(chosen, lab.namespace)
        dns = ClusterDns(control_plane, lab.namespace)
        balancer = LoadBalancer(control_plane.api, lab)
        nodes = Nodes(chosen, lab, control_plane, progress)
        try:
            control_plane.start()
            progress("control plane is ready")
            dns.start()
            balancer.start()
            nodes.install(archives, chosen.programs / "kubelet")
            nodes.deploy_agent()
            pod_network.route_machine(chosen, lab)
            nodes.join()
            progress("nodes are ready; running the tests")
            release = nodes.run(lab.nodes[0], "uname -r").strip()
            status = _test(chosen, control_plane, lab)
            control_plane.check()
        finally:
            _ignore_signals()
            _keep_logs(nodes, lab)
            balancer.close()
            dns.close()
    finally:
        _ignore_signals()
        lifecycle.down(LAB, progress)
        shutil.rmtree(WORK, ignore_errors=True)
    return _report(chosen, status, f"{chosen.kernel} {release}", version)


def _lab(chosen: Settings, progress: Progress) -> Lab:
    nodes = [f"{name}:{RELEASE}" for name in chosen.names]
    return lifecycle.up(LAB, nodes, [load_balancer.CLIENT], chosen.kernel, MEMORY, progress)


def _ignore_signals() -> None:
    """Ignore further interrupts: the cleanup takes seconds, and must come to its end."""
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _test(chosen: Settings, control_plane: ControlPlane, lab: Lab) -> int:
    """Run e2e.test and print its progress; return its exit status."""
    command = [
        str(chosen.programs / "e2e.test"),
        "--provider=skeleton",
        f"--kubeconfig={control_plane.admin}",
        f"--kubectl-path={chosen.programs / 'kubectl'}",
        f"--num-nodes={chosen.nodes}",
        f"--ginkgo.focus={chosen.focus}",
        f"--ginkgo.skip={chosen.skip}",
        "--ginkgo.timeout=3h",
        "--ginkgo.no-color",
        "--ginkgo.v",
        "--system-pods-startup-timeout=10m",
        "--node-schedulable-timeout=10m",
        "--allowed-not-ready-nodes=0",
        f"--report-dir={RESULTS}",
    ]
    with netns.inside(lab.client_namespace(load_balancer.CLIENT)):
        process = subprocess.Popen(
            command,
            cwd=WORK,
            env={**os.environ, "HOME": str(WORK)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,  # after an interrupt, the lab's removal ends it
        )
    with process, (RESULTS / "e2e.log").open("w") as log:
        try:
            _follow(process, log)
        except SystemExit:
            # Interrupted: let it write its report of the specs that ended.
            _ignore_signals()
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=_GRACE)
            process.kill()
    return process.returncode


def _follow(process: subprocess.Popen[str], log: TextIO) -> None:
    """Write the output of e2e.test to its log, and print the name and the result of each spec."""
    begins = False
    for line in process.stdout or ():
        log.write(line)
        log.flush()
        if line.startswith(_SHOWN) or (begins and line.startswith("[sig-")):
            print(line, end="", flush=True)
        begins = line.startswith("-----")  # the next line has the name of the spec


def _keep_logs(nodes: Nodes, lab: Lab) -> None:
    """Copy the logs of control plane and nodes to the results."""
    kept = RESULTS / "logs"
    kept.mkdir(exist_ok=True)
    for path in WORK.glob("*.log"):
        shutil.copyfile(path, kept / path.name)
    for node in lab.nodes:
        with suppress(E2eError):  # the node may be down
            (kept / f"{node.name}.log").write_text(nodes.log(node.name))


def _report(chosen: Settings, status: int, kernel: str, version: str) -> int:
    """Write the table of the documentation, and print the sums."""
    reports = sorted(RESULTS.glob("junit*.xml"))
    if not reports:
        raise E2eError(f"e2e.test ended with status {status} and wrote no report; see {RESULTS / 'e2e.log'}")
    specs = [spec for report in reports for spec in results.read(report)]
    picked = results.chosen(specs, chosen.focus, chosen.skip)
    page = ROOT / results.PAGE
    table = results.rows(picked, chosen.cluster, kernel, version, time.strftime("%Y-%m-%d"))
    page.write_text(results.written(page.read_text(), table))
    for state in (results.PASSED, results.FAILED, results.SKIPPED, results.LEFT_OUT):
        print(f"{state:8} {sum(spec.state == state for spec in picked)}")
    ran = any(spec.state in (results.PASSED, results.FAILED) for spec in picked)
    return 1 if status or not ran else 0


if __name__ == "__main__":
    sys.exit(main())
