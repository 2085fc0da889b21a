# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Watch the source of objects: manifests by inotify, other sources by their own descriptor."""

from __future__ import annotations

import os
import time
from typing import Any, Callable

from ...log import Log
from ...sources.watch import Watch, WatchError
from ..loop import Loop, Timer

_GATHER = 0.02  # seconds in which further changes are gathered
# Seconds without a pass after which a change goes at once. With twice the time of gathering, a steady stream of
# changes still shares passes, and no change waits longer than _GATHER.
_QUIET = 2 * _GATHER
_RETRY = 1.0


class SourceWatcher:
    """Follows one source at a time, and calls ``use`` with the names of changed parts.

    The first change after a quiet time goes at once. Changes soon after it are gathered, and go together.
    """

    def __init__(self, loop: Loop, log: Log, use: Callable[[Any], None]) -> None:
        self._loop = loop
        self._log = log
        self._use = use
        self._source: Any = None
        self._watch: Watch | None = None
        self._changed: set[str] | None = set()
        self._gathering: Timer | None = None
        self._used_at = 0.0  # when the last call of ``use`` ended
        self._retry: Timer | None = None

    def follow(self, source: Any) -> None:
        """Follow this source from now on; earlier changes count as changes."""
        ended = self._watch is not None and self._watch.ended
        if (
            source is self._source
            and not ended
            and (self._watch is None or self._watch.directory == _directory(source))
        ):
            return
        self.close()
        self._source = source
        if hasattr(source, "fileno"):
            self._loop.watch(source, self._source_changed)
            self._gather(None)
        elif source is not None:
            self._watch_directory()

    def close(self) -> None:
        """Follow nothing."""
        if self._retry is not None:
            self._retry.cancel()
        if self._watch is not None:
            self._loop.forget(self._watch)
            self._watch.close()
            self._watch = None
        elif hasattr(self._source, "fileno"):
            self._loop.forget(self._source)
        self._source = None

    def _source_changed(self) -> None:
        self._source.acknowledge()  # or the loop would call this again and again until the changes are gathered
        self._gather(None)

    def _watch_directory(self) -> None:
        """Watch the manifests' directory as soon as it exists."""
        if self._watch is not None:
            self._loop.forget(self._watch)
            self._watch.close()
            self._watch = None
        try:
            self._watch = Watch(_directory(self._source))
        except WatchError as error:
            self._log.warning("manifests are not watched", reason=str(error))
            self._retry = self._loop.after(_RETRY, self._watch_directory)
            return
        self._loop.watch(self._watch, self._files_changed)
        self._gather(None)

    def _files_changed(self) -> None:
        if self._watch is None:
            return
        names = self._watch.read()
        if self._watch.ended:
            self._loop.forget(self._watch)
            self._retry = self._loop.after(_RETRY, self._watch_directory)
        if names is not None:  # a pass for a file that is no manifest would let the manifest after it wait
            names = {name for name in names if self._source.reads(name)} | (self._watch.touched & self._source.refused)
        if names is None or names:
            self._gather(names)

    def _gather(self, names: set[str] | None) -> None:
        self._changed = None if names is None or self._changed is None else self._changed | names
        if self._gathering is None or not self._gathering.pending:
            is_quiet = time.monotonic() - self._used_at >= _QUIET
            self._gathering = self._loop.after(0.0 if is_quiet else _GATHER, self._hand_over)

    def _hand_over(self) -> None:
        names, self._changed = self._changed, set()
        self._use(names)
        self._used_at = time.monotonic()  # a long pass is no quiet time


def _directory(source: Any) -> str:
    path = str(source.path)
    return os.path.dirname(path) if os.path.isfile(path) else path
