# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection. It can change at any time, do not use it from outside.

"""Releases of the agent on a node: verify, unpack, check, switch to, and prove or roll back.

A release is unpacked aside. Before the switch, its own ``kubenode check`` must accept configuration and node.

The release and files before a change are recorded until the new release has proven itself, so that a rollback is
possible after any interruption. Each function of STATES takes the module and the paths. It returns lines of the
changes (in check mode: the changes that a run would make), files before and after, and the release with the action that
a running agent needs.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from typing import TYPE_CHECKING, Any

from .._module import files as _files
from . import agent_bundle as _agent_bundle
from . import agent_in_container as _agent_in_container

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ansible.module_utils.basic import AnsibleModule

    Texts = Mapping[str, "str | None"]  # files: path to text, None for an absent file
    Done = tuple[list[str], Texts, Texts, dict[str, Any]]  # lines, before, after, release


class ReleasePaths:
    """Paths of the releases, the link to the current one, the command's link and the last working release's record."""

    def __init__(self, directory: str, command: str) -> None:
        self.directory = directory
        self.command = command
        self.releases = os.path.join(directory, "releases")
        self.current = os.path.join(directory, "current")
        self.program = os.path.join(self.current, "bin", "kubenode")
        self.unproven = os.path.join(directory, "unproven.json")

    def release(self, digest: str) -> str:
        return os.path.join(self.releases, digest)


def link_target(path: str) -> str:
    try:
        return os.path.basename(os.readlink(path))
    except OSError:
        return ""


def replace_link(path: str, target: str) -> None:
    temporary = f"{path}.new"
    if os.path.lexists(temporary):
        os.unlink(temporary)
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    os.symlink(target, temporary)
    os.replace(temporary, path)


def unpack(module: AnsibleModule, bundle: str, release: str) -> None:
    """Make the directory of a release: verify, unpack and compile aside, then rename in place of a damaged one."""
    parent = os.path.dirname(release)
    umask = os.umask(0o022)  # the agent's user reads what root unpacks here
    os.makedirs(parent, mode=0o755, exist_ok=True)
    aside = tempfile.mkdtemp(prefix=".unpack-", dir=parent)
    damaged = tempfile.mkdtemp(prefix=".unpack-", dir=parent)
    try:
        _agent_bundle.unpack(bundle, module.params["sha256"], aside)
        compile_all = [
            module.params["python"],
            "-IS",
            "-m",
            "compileall",
            "-q",
            "-s",
            aside,
            "-p",
            release,
            os.path.join(aside, "lib"),
        ]
        code, out, err = module.run_command(compile_all)
        if code != 0:
            module.fail_json(
                msg=(
                    f"the agent cannot be compiled by {module.params['python']}: {(out + err).strip()}; nothing was"
                    " changed"
                )
            )
        os.chmod(aside, 0o755)
        if os.path.lexists(release):
            os.rename(release, os.path.join(damaged, "release"))
        os.rename(aside, release)
    except _agent_bundle.BundleError as error:
        module.fail_json(msg=f"bundle for {release}: {error}; nothing was changed, the current release goes on")
    finally:
        shutil.rmtree(aside, ignore_errors=True)
        shutil.rmtree(damaged, ignore_errors=True)
        os.umask(umask)


def damage(paths: ReleasePaths, digest: str) -> str:
    """Return the damage of an unpacked release, "" if it matches its manifest."""
    try:
        _agent_bundle.verify(paths.release(digest))
    except _agent_bundle.BundleError as error:
        return str(error)
    return ""


def preflight(module: AnsibleModule, release: str, config: str | None) -> None:
    """Fail unless ``kubenode check`` of the release accepts configuration and node."""
    handle, temporary = tempfile.mkstemp(dir=module.tmpdir, suffix=".yaml")
    with os.fdopen(handle, "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
        file.write(config or "")
    command = [module.params["python"], "-IS", os.path.join(release, "bin", "kubenode"), "check", "--config", temporary]
    command += ["--beside-kube-proxy"] if module.params["beside_kube_proxy"] else []
    command += ["--beside-daemonset"] if module.params["beside_daemonset"] else []
    code, out, err = module.run_command(command)
    if code != 0:
        checks = (out + err).replace(temporary, module.params["config"]).strip().splitlines()
        reasons = [line.strip() for line in checks if not line.startswith(("ok ", "note "))]
        module.fail_json(msg="the agent cannot work here: " + "; ".join(reasons), checks=checks)


def remove_old_releases(module: AnsibleModule, paths: ReleasePaths, current: str) -> list[str]:
    """Remove the oldest releases beyond the option ``keep``, and the leftovers of an interrupted run."""
    try:
        names = os.listdir(paths.releases)
    except OSError:
        return []
    others = [name for name in names if name != current and not name.startswith(".")]
    others.sort(key=lambda name: os.stat(paths.release(name)).st_mtime, reverse=True)
    too_old = others[module.params["keep"] :] + [name for name in names if name.startswith(".unpack-")]
    for name in too_old if not module.check_mode else ():
        try:
            shutil.rmtree(paths.release(name))
        except OSError as error:
            module.fail_json(msg=f"release {name} cannot be removed: {error}; release {current} is proven and goes on")
    return [f"remove release {name}" for name in too_old]


def recorded(module: AnsibleModule, paths: ReleasePaths) -> dict[str, Any] | None:
    """Return the release and files that worked before the unproven changes, None without such changes."""
    text = _files.text_of(paths.unproven)
    if text is None:
        return None
    try:
        record = json.loads(text)
        return {"release": str(record["release"]), "files": dict(record["files"])}
    except (ValueError, KeyError, TypeError):
        module.fail_json(
            msg=f"{paths.unproven} is not as this module wrote it, expected release and files; nothing was changed"
        )


def switch(module: AnsibleModule, paths: ReleasePaths, release: str, before: Texts, after: Texts) -> list[str]:
    """Switch to a release and write files; return lines of the changes, in check mode of the planned ones."""
    lines = {
        path: f"{'remove' if after[path] is None else 'write'} {path}" for path in after if after[path] != before[path]
    }
    if link_target(paths.current) != release:
        lines[paths.current] = f"switch to release {release}"
    if not os.path.islink(paths.command) or os.readlink(paths.command) != paths.program:
        lines[paths.command] = f"link {paths.command}"
    _files.refuse_read_only(lines)
    if not module.check_mode:
        for path in after:
            if after[path] != before[path]:
                _files.write(module, path, after[path])
        if paths.current in lines:
            replace_link(paths.current, os.path.join("releases", release))
        if paths.command in lines:
            replace_link(paths.command, paths.program)
    return list(lines.values())


def switch_back(module: AnsibleModule, paths: ReleasePaths, release: str, after: Iterable[str], before: Texts) -> None:
    """Undo a switch that failed part way.

    A file that could not be written still has its earlier content. ``release`` is "" if there was no release.
    """
    for path in after:
        with contextlib.suppress(OSError):
            if _files.text_of(path) != before[path]:
                _files.write(module, path, before[path])
    with contextlib.suppress(OSError):
        if release and link_target(paths.current) != release:
            replace_link(paths.current, os.path.join("releases", release))
        elif not release and os.path.islink(paths.current):
            os.unlink(paths.current)


def install(module: AnsibleModule, paths: ReleasePaths) -> Done:
    """Switch to the wanted release and files, if the preflight check of the release accepts them."""
    params, digest = module.params, module.params["digest"]
    if os.path.isdir(params["package"]):
        module.fail_json(
            msg=f"{params['package']} exists: the package kubenode-agent is installed on this node. Remove the package"
            " (its items stay in the kernel), or do not use the role; nothing was changed"
        )
    if not params["beside_daemonset"] and _agent_in_container.serves():
        module.fail_json(msg=_agent_in_container.REFUSAL)
    current, record = link_target(paths.current), recorded(module, paths)
    present = os.path.isdir(paths.release(digest))
    damaged = damage(paths, digest) if present else ""
    lines = [] if present and not damaged else [f"unpack release {digest}" + (f" again: {damaged}" if damaged else "")]
    if lines and params["bundle"] is None and not module.check_mode:
        module.exit_json(changed=True, bundle_needed=True, lines=lines)
    unpacked = bool(lines)
    after = params["files"]
    before = {path: _files.text_of(path) for path in after}
    changed_files = [path for path in after if after[path] != before[path]]
    previous = record["release"] if record else current
    fresh = current != digest or bool(changed_files) or bool(damaged)
    try:
        _files.refuse_read_only(([paths.release(digest)] if unpacked else []) + ([paths.unproven] if fresh else []))
        if unpacked and not module.check_mode:
            unpack(module, params["bundle"], paths.release(digest))
        if not module.check_mode and (unpacked or current != digest or params["config"] in changed_files):
            preflight(module, paths.release(digest), after.get(params["config"], _files.text_of(params["config"])))
        if fresh and not module.check_mode:
            files = {**{path: before[path] for path in changed_files}, **(record["files"] if record else {})}
            _files.write(module, paths.unproven, json.dumps({"release": previous, "files": files}), 0o600)
        lines += switch(module, paths, digest, before, after)
    except OSError as error:
        switch_back(module, paths, current, after, before)
        with contextlib.suppress(OSError):
            if record is None and os.path.lexists(paths.unproven):
                os.unlink(paths.unproven)
        if unpacked and not damaged:
            shutil.rmtree(paths.release(digest), ignore_errors=True)
        module.fail_json(msg=f"the agent cannot be installed: {error}; files and release are as they were")
    if record is None and not damaged and fresh and current == digest and changed_files == [params["config"]]:
        needs = "reload"
    else:
        needs = "restart" if record or fresh else "nothing"
    lines += ["have it prove itself"] if needs != "nothing" else remove_old_releases(module, paths, digest)
    return lines, before, after, {"release": digest, "former": previous, "needs": needs}


def go_back(module: AnsibleModule, paths: ReleasePaths) -> Done:
    """Roll back to the release and files that worked last."""
    record = recorded(module, paths)
    if record is None:
        release = link_target(paths.current)
        return [], {}, {}, {"release": release, "former": release, "needs": "nothing"}
    if not os.path.isdir(paths.release(record["release"] or "none")):
        module.fail_json(
            msg=f"there is no release to go back to: {paths.unproven} names {record['release']!r}; nothing was changed"
        )
    before, current = {path: _files.text_of(path) for path in record["files"]}, link_target(paths.current)
    try:
        _files.refuse_read_only([paths.unproven])
        lines = switch(module, paths, record["release"], before, record["files"])
        if not module.check_mode:
            os.unlink(paths.unproven)
    except OSError as error:
        switch_back(module, paths, current, record["files"], before)
        module.fail_json(msg=f"the agent cannot go back: {error}; files and release are as they were")
    return (
        [*lines, "forget what did not prove itself"],
        before,
        record["files"],
        {"release": record["release"], "former": record["release"], "needs": "restart"},
    )


def prove(module: AnsibleModule, paths: ReleasePaths) -> Done:
    """Record that the installed release works."""
    release = link_target(paths.current)
    lines = [f"release {release} has proven itself"] if os.path.lexists(paths.unproven) else []
    try:
        _files.refuse_read_only([paths.unproven] if lines else [])
        if lines and not module.check_mode:
            os.unlink(paths.unproven)
    except OSError as error:
        module.fail_json(msg=f"the agent's release cannot be noted as proven: {error}; it is as it was")
    lines += remove_old_releases(module, paths, release)
    return lines, {}, {}, {"release": release, "former": release, "needs": "nothing"}


def remove(module: AnsibleModule, paths: ReleasePaths) -> Done:
    """Remove the agent: its files, releases and links.

    The directories of the configuration and its manifests are removed only if they hold no other files.
    """
    before = {path: _files.text_of(path) for path in module.params["files"]}
    after = dict.fromkeys(before)
    going = [path for path in before if before[path] is not None]
    going += [path for path in (paths.command, paths.directory) if os.path.lexists(path)]
    configuration = os.path.dirname(module.params["config"])
    emptied = set(before)
    for path in (os.path.join(configuration, "manifests"), configuration):
        if os.path.isdir(path) and emptied.issuperset(os.path.join(path, name) for name in os.listdir(path)):
            going.append(path)
            emptied.add(path)
    aside = f"{paths.directory}.removed"
    current = link_target(paths.current)
    try:
        _files.refuse_read_only([*going, *([paths.current] if paths.directory in going else [])])
        if not module.check_mode:
            # Operations that may fail come first, and a rename can be undone; a tree that is removed file by file
            # cannot be restored.
            shutil.rmtree(aside, ignore_errors=True)
            if os.path.lexists(paths.directory):
                os.rename(paths.directory, aside)
            for path in before:
                _files.write(module, path, None)
            if os.path.islink(paths.command):
                os.unlink(paths.command)
            for path in sorted(emptied - set(before), reverse=True):
                os.rmdir(path)
            shutil.rmtree(aside, ignore_errors=True)
    except OSError as error:
        if os.path.lexists(aside):
            os.rename(aside, paths.directory)
        switch_back(module, paths, current, after, before)
        module.fail_json(msg=f"the agent cannot be removed: {error}; files and release are as they were")
    return [f"remove {path}" for path in going], before, after, {"release": "", "former": "", "needs": "nothing"}


STATES = {"present": install, "proven": prove, "former": go_back, "absent": remove}
