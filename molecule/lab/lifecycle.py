# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lifecycle of a lab: up, down, and cleanup after an interrupted run."""

from __future__ import annotations

import concurrent.futures
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from . import access, host, image, naming, netns, network, node, seed, state
from .errors import LabError, UsageError
from .kernel_kinds import kernel_kind
from .lock import locked
from .paths import CACHE, IMAGES, ROOT, RUNS
from .recipe import RELEASES
from .state import Lab, Node

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from contextlib import AbstractContextManager

    from .kernel_kind import KernelKind
    from .progress import Progress

_ENTRY = Path(__file__).resolve().parent / "lab"


def parse_memory(text: str) -> int:
    """Return the bytes of a memory size such as ``512M`` or ``1G``.

    Raises:
        UsageError: the text is no memory size, or the size is too small to boot.
    """
    factor = {"M": 1 << 20, "G": 1 << 30}.get(text[-1:].upper())
    if factor is None or not text[:-1].isdecimal() or int(text[:-1]) * factor < 128 << 20:
        raise UsageError(f"memory {text!r}: expected a number with M or G, at least 128M")
    return int(text[:-1]) * factor


def parse_node(text: str) -> tuple[str, str]:
    """Return name and release of ``NAME[:RELEASE]``.

    Raises:
        UsageError: bad name or unknown release.
    """
    name, _, release = text.partition(":")
    release = release or RELEASES[0]
    if release not in RELEASES:
        raise UsageError(f"node {text!r}: release {release!r}, expected one of {', '.join(RELEASES)}")
    return naming.check_name("node", name), release


def up(name: str, nodes: Sequence[str], clients: Sequence[str], kernel: str, memory: str, progress: Progress) -> Lab:
    """Bring a lab up, unless it is up already.

    Leftovers of an interrupted run are removed first. If the lab cannot be brought up, everything of it is removed.

    Args:
        name: name of the lab.
        nodes: each ``NAME[:RELEASE]``.
        clients: names of namespaces to join to the lab's bridge.
        kernel: kind of the nodes' kernels, such as ``uml``.
        memory: of each node, such as ``512M``.
        progress: prints each step.

    Raises:
        HostError: this machine cannot run the lab.
        LabError: a node did not come up, with the end of its console.
        UsageError: bad arguments, or a lab of this name with other nodes is up.
    """
    naming.check_name("lab", name)
    wanted = [parse_node(text) for text in nodes]
    names = [node_name for node_name, _ in wanted] + [naming.check_name("client", client) for client in clients]
    for repeated in {one for one in names if names.count(one) > 1}:
        raise UsageError(f"lab {name}: {repeated!r} is there {names.count(repeated)} times")
    if not wanted or max(len(wanted), len(clients)) > naming.MAX_HOSTS:
        raise UsageError(
            f"lab {name}: {len(wanted)} nodes and {len(clients)} clients, expected 1 to {naming.MAX_HOSTS} nodes"
        )
    kind = kernel_kind(kernel)
    host.check(host.TO_RUN + kind.to_run)
    memory_directory = host.memory_directory(parse_memory(memory) * len(wanted))
    if kind.maps_each_page and (warning := host.mappings_warning(parse_memory(memory))):
        progress(warning)

    images = build_images({release for _, release in wanted}, kind, progress)
    members = tuple(
        Node(node_name, index, release, kernel, str(images[release].directory), name)
        for index, (node_name, release) in enumerate(wanted)
    )
    lab = Lab(name, members, tuple(clients), memory)
    with _locked(name, progress):
        before = state.load(name)
        if before is not None and before.whole:
            if before._replace(ready=False) != lab:
                others = "with other nodes, clients, kernel or memory"
                raise UsageError(f"lab {name}: up already, {others}; take it down first")
            progress(f"lab {name} is up already")
            return before
        if name in state.all_names():
            progress(f"removing what is left of an earlier lab {name}")
            _remove(name)
        try:
            return _make(lab, memory_directory, progress)
        except BaseException:
            _remove(name)
            raise


def build_images(
    releases: Iterable[str], kind: KernelKind, progress: Progress, *, rebuild: bool = False
) -> dict[str, image.Image]:
    """Return the images of releases, and build missing ones; remove images of this kind that are not used any more."""
    images = {release: image.find_or_build(release, kind, progress, rebuild=rebuild) for release in sorted(releases)}
    labs = [state.load(name) for name in state.all_names()]
    for name in image.prune(kind, {each.image for lab in labs if lab for each in lab.nodes}):
        progress(f"removed the outdated image {name}")
    return images


def _make(lab: Lab, memory_directory: Path, progress: Progress) -> Lab:
    lab.save()
    keys = access.make_keys(lab)
    network.build(lab.namespace, len(lab.nodes), lab.client_namespaces)
    _serve_packages(lab)
    for each in lab.nodes:
        each.directory.mkdir(parents=True)
        settings = seed.files(each.name, each.index, each.release, lab.hosts, keys)
        seed.write(each.directory / "settings.tar", settings)
        node.start(each, lab.namespace, lab.memory, memory_directory)
    booting = ", ".join(f"{each.name} ({each.release})" for each in lab.nodes)
    progress(f"lab {lab.name}: booting {booting}; {kernel_kind(lab.nodes[0].kernel).summary()}")
    wait(lab, lab.nodes, None, progress)
    lab = lab._replace(ready=True)
    lab.save()
    return lab


def _serve_packages(lab: Lab) -> None:
    """Serve each release's packages on the bridge; the process ends with the namespace."""
    directory = lab.directory / "packages"
    directory.mkdir()
    for each in lab.nodes:
        link = directory / each.release
        if not link.exists():
            link.symlink_to(image.Image(Path(each.image)).packages)
    with netns.inside(lab.namespace), open(lab.directory / "packages.log", "wb") as log:
        child = subprocess.Popen(
            [sys.executable, str(_ENTRY), "serve", str(directory)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    child.returncode = 0  # the server outlives this process


def wait(lab: Lab, nodes: Sequence[Node], timeout: float | None, progress: Callable[[str], None]) -> None:
    """Wait for all the given nodes at once.

    Args:
        lab: lab of the nodes.
        nodes: at least one.
        timeout: seconds; None: as long as a boot of their kind of kernel may take.
        progress: prints each node that answers.

    Raises:
        LabError: error of the first node that did not come up.
    """
    with concurrent.futures.ThreadPoolExecutor(len(nodes)) as pool:
        waiting = {
            pool.submit(node.wait, each, lab.namespace, _patience(each) if timeout is None else timeout): each
            for each in nodes
        }
        for done in concurrent.futures.as_completed(waiting):
            done.result()
            progress(f"{waiting[done].name} answers on {' and '.join(waiting[done].addresses)}")


def _patience(each: Node) -> float:
    return kernel_kind(each.kernel).boot_timeout


def start(lab: Lab, name: str, progress: Progress) -> None:
    """Boot a node that is down, from its own disk, and wait for it."""
    each = lab.node(name)
    with _locked(lab.name, progress):
        if each.running:
            progress(f"{name} is running already")
        else:
            node.start(each, lab.namespace, lab.memory, host.memory_directory(parse_memory(lab.memory)))
        wait(lab, [each], None, progress)


def crash(lab: Lab, name: str, progress: Progress) -> None:
    """Kill a node's kernel, like a power cut; ``start`` boots it again."""
    each = lab.node(name)
    with _locked(lab.name, progress):
        process = each.process
        if process is None or not process.running:
            raise LabError(f"node {name}: is not running")
        process.kill(lab.namespace)
        progress(f"{name} has crashed")


def down(name: str, progress: Progress) -> None:
    """Remove a lab, complete or not, if it exists."""
    naming.check_name("lab", name)
    with _locked(name, progress):
        if name in state.all_names():
            progress(f"lab {name}: removed, {_remove(name)} processes ended")
        else:
            progress(f"lab {name}: nothing of it is there")


def clean(progress: Progress, *, everything: bool = False) -> None:
    """Remove all labs of this clone and unfinished images; with ``everything``, remove all images, too."""
    for name in state.all_names():
        with _locked(name, progress):
            progress(f"lab {name}: removed, {_remove(name)} processes ended")
    if everything and CACHE.exists():
        shutil.rmtree(CACHE)
        progress(f"removed {CACHE.relative_to(ROOT)}")
    elif IMAGES.exists():
        image.remove_unfinished(progress)


def _locked(name: str, progress: Progress) -> AbstractContextManager[None]:
    return locked(RUNS / f".{name}.lock", lambda: progress(f"lab {name}: another process is at work on it, waiting"))


def _remove(name: str) -> int:
    """Remove everything of a lab; the caller holds its lock. Return the number of ended processes."""
    recorded = state.load(name) or Lab(name, (), (), "")
    if recorded.ready:
        recorded._replace(ready=False).save()  # from here on the lab is incomplete, also after an interruption
    access.close_connections(recorded)
    ended = network.remove(state.namespaces_of(name))
    shutil.rmtree(RUNS / name, ignore_errors=True)
    return ended
