# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Watch files for changes: inotify(7), through the C library.

Three calls and one struct need no package. The existing packages (inotify_simple, watchdog) start ``ldconfig`` or
threads.
"""

from __future__ import annotations

import ctypes
import errno
import os
from struct import Struct

_EVENT = Struct("iIII")  # watch, mask, cookie, length of the name that follows
_ATTRIB = 0x004
_CLOSE_WRITE = 0x008
_MOVED_FROM = 0x040
_MOVED_TO = 0x080
_CREATE = 0x100
_DELETE = 0x200
_DELETE_SELF = 0x400
_MOVE_SELF = 0x800
_UNMOUNT = 0x2000
_OVERFLOW = 0x4000
_IGNORED = 0x8000
_ONLYDIR = 0x01000000
_WANTED = _ATTRIB | _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _DELETE_SELF | _MOVE_SELF | _ONLYDIR
_ENDED = _DELETE_SELF | _MOVE_SELF | _UNMOUNT | _IGNORED
_READ_BYTES = 65536


class WatchError(Exception):
    """The directory cannot be watched; the text says why."""


class Watch:
    """Watches the files of one directory; readable when a file changed.

    A file counts as changed when a writer closes it, when it is renamed into place (as by editors and
    ``ansible.builtin.copy``), when a link to it appears, and when it is removed: never while it is being written.
    ``ended``: the directory itself was removed. ``touched``: files with a new mode or owner at the last
    reading; a program may rename a file into place and then let others read it.

    Raises:
        WatchError: the directory does not exist, or the system's limit of watches is reached.
    """

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.ended = False
        self.touched: set[str] = set()
        library = ctypes.CDLL(None, use_errno=True)
        self._descriptor: int = library.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        if self._descriptor < 0:
            raise WatchError(f"inotify cannot be used: {_reason(ctypes.get_errno())}")
        if library.inotify_add_watch(self._descriptor, os.fsencode(directory), ctypes.c_uint32(_WANTED)) < 0:
            code = ctypes.get_errno()
            os.close(self._descriptor)
            raise WatchError(f"{directory} cannot be watched: {_reason(code)}")

    def fileno(self) -> int:
        """Return the descriptor to wait for."""
        return self._descriptor

    def close(self) -> None:
        """End the watch."""
        os.close(self._descriptor)

    def read(self) -> set[str] | None:
        """Return the names of the files that changed, or None if any may have."""
        names: set[str] = set()
        everything = False
        self.touched = set()
        while True:
            try:
                data = os.read(self._descriptor, _READ_BYTES)
            except BlockingIOError:
                return None if everything else names
            offset = 0
            while offset < len(data):
                _watch, mask, _cookie, length = _EVENT.unpack_from(data, offset)
                offset += _EVENT.size
                name = os.fsdecode(data[offset : offset + length].rstrip(b"\0"))
                offset += length
                if mask & _ENDED:
                    self.ended = everything = True
                elif mask & _OVERFLOW or name.startswith("..") or not name:
                    everything = True  # "..data": how kubelet swaps all files of a mounted ConfigMap
                elif mask & _ATTRIB:
                    self.touched.add(name)
                elif not mask & _CREATE or self._is_whole(name):
                    names.add(name)

    def _is_whole(self, name: str) -> bool:
        """Tell whether a name that was just created leads to a finished file: a link does.

        The content of a new file is still to be written.
        """
        try:
            path = os.path.join(self.directory, name)
            return os.path.islink(path) or os.stat(path).st_nlink > 1
        except OSError:
            return True


def _reason(code: int) -> str:
    if code == errno.ENOSPC:
        return "the limit of watches is reached (sysctl fs.inotify.max_user_watches)"
    if code == errno.EMFILE:
        return "the limit of inotify instances is reached (sysctl fs.inotify.max_user_instances)"
    return os.strerror(code)
