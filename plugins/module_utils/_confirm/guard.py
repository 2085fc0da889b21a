# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection. It can change at any time, do not use it from outside.

"""Guard: the process on the node that undoes an unconfirmed change in time; see ``_confirm/protocol.py``."""

from __future__ import annotations

import contextlib
import os
import pickle
import time
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from .. import engine
from ..engine.apply import execute
from ..engine.errors import EngineError, KernelError
from ..engine.ledger import Ledger
from ..engine.model.kinds import KINDS, name
from ..engine.node_lock import DIRECTORY, node_lock
from ..engine.plan import Plan, Step
from ..engine.plan.order import ordered
from .pending import PENDING, few, prepare, write

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from typing import Callable, Protocol

    from ..engine.apply import Tables
    from ..engine.ledger import Item
    from ..engine.model import Keys, ReadState

    Reread = Callable[[Collection[Item]], ReadState]

    class View(Protocol):
        """View of the ledger that the guard copies when it is armed."""

        @property
        def open_ledger(self) -> Ledger: ...
        @property
        def owned(self) -> dict[str, set[Any]]: ...


_POLL = 0.2  # seconds between two looks at the file
_NO_PROCESS = "the process that would undo the change cannot be started; nothing was changed"
# A process that writes itself into these files leaves its login session. Otherwise a session manager that kills the
# processes of an ended session would kill the guard.
_ROOT_GROUPS = (
    "/sys/fs/cgroup/cgroup.procs",
    "/sys/fs/cgroup/systemd/cgroup.procs",
    "/sys/fs/cgroup/unified/cgroup.procs",
)


class Orders(NamedTuple):
    """Orders to the guard: the file that decides, the seconds to wait, the steps, and the ledger's content before.

    ``claims`` are the ``touched`` items that were the owner's. ``notes`` holds kind, key and text of the owner's notes.
    """

    path: str
    seconds: int
    owner: str
    steps: list[Step]
    touched: list[Item]
    claims: list[Item]
    notes: list[tuple[str, Any, str]]


class Guard:
    """Guard process, started before the change, so that it can undo the change from the first moment.

    Raises:
        KernelError: the process cannot be started; nothing was changed.
    """

    def __init__(self, seconds: int, tables: Tables, read: Reread, directory: str = DIRECTORY) -> None:
        self.result_fields: dict[str, Any] = {}
        self._seconds = seconds
        orders, write_orders = os.pipe()
        read_ready, ready = os.pipe()
        try:
            child = os.fork()
        except OSError as error:
            raise KernelError(_NO_PROCESS) from error
        if child == 0:
            try:
                if os.fork() == 0:  # twice, so that the module is not its parent
                    _be_guard(orders, ready, tables, read, directory)
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        os.close(orders)
        os.close(ready)
        self._orders = os.fdopen(write_orders, "wb")
        self._ready = os.fdopen(read_ready, "rb")

    def close(self) -> None:
        """Close the pipes to the guard; a guard that is not armed ends."""
        self._ready.close()
        with contextlib.suppress(OSError):  # the guard may be dead
            self._orders.close()

    @contextlib.contextmanager
    def armed(self, made: Plan, absent: Keys, view: View, owner: str) -> Iterator[None]:
        """Arm the guard for the execution of ``made`` and for the wait after it.

        ``absent`` are the keys, by kind, whose claims the task also removes.

        Raises:
            KernelError: the guard cannot be armed; nothing was changed.
        """
        if not made.steps:
            yield
            return
        ledger = view.open_ledger
        touched = {(step.kind, step.key) for step in made.steps if KINDS[step.kind].parent is None}
        touched.update((kind, key) for kind, keys in [*made.adopted.items(), *absent.items()] for key in keys)
        claims = [(kind, key) for kind, key in touched if key in view.owned.get(kind, ())]
        notes = dict.fromkeys(touched, "")
        for kind in {"sysctl", *(kind for kind, _key in touched)}:  # a service proxy notes sysctls without claims
            notes.update(((kind, key), text) for key, text in ledger.notes(owner, kind).items())
        path = os.path.join(PENDING, f"{owner}-{os.getpid()}-{time.time_ns()}")
        remembered = [(kind, key, text) for (kind, key), text in notes.items()]
        self._arm(Orders(path, self._seconds, owner, made.steps, list(touched), claims, remembered))
        try:
            yield
        except EngineError:  # the task has undone the change
            os.unlink(path)
            raise
        finally:
            self._orders.close()  # the guard's time begins
        self.result_fields = {"confirm": {"path": path, "seconds": self._seconds}}

    def _arm(self, orders: Orders) -> None:
        """Send the guard its orders, then create the file to watch.

        In this order, no file is without a guard, even if this process ends between the two.
        """
        try:
            if not self._ready.read(1):
                raise KernelError(_NO_PROCESS)
            prepare()
            pickle.dump(orders, self._orders)
            self._orders.flush()
            write(orders.path, {"owner": orders.owner, "lines": few(orders.steps, Step.describe)})
        except OSError as error:
            raise KernelError(f"{orders.path} cannot be written: {error.strerror}; nothing was changed") from error


def _be_guard(pipe_end: int, ready: int, tables: Tables, read: Reread, directory: str) -> NoReturn:
    import importlib
    import pkgutil

    try:
        _detach({pipe_end, ready})
        # Import everything now: Ansible removes the module's file when the module has ended.
        for module in pkgutil.walk_packages(engine.__path__, f"{engine.__name__}."):
            importlib.import_module(module.name)
        os.write(ready, b"1")
        os.close(ready)
        with os.fdopen(pipe_end, "rb") as pipe:
            orders = pickle.load(pipe)  # fails if the guard is not armed, and ends this process
            pipe.read()  # until the module has made the change, or has died
        deadline = time.monotonic() + orders.seconds
        while os.path.exists(orders.path):
            if time.monotonic() >= deadline:
                undo(orders, tables, read, directory)
                break
            time.sleep(_POLL)
    finally:
        os._exit(0)


def _detach(keep: set[int]) -> None:
    """Leave the session, and release every stream and descriptor whose end another process may wait for."""
    import signal

    os.setsid()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    for path in _ROOT_GROUPS:
        with contextlib.suppress(OSError), open(path, "w", encoding="ascii") as file:
            file.write("0")
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    for text in os.listdir("/proc/self/fd"):
        if int(text) > 2 and int(text) not in keep:
            with contextlib.suppress(OSError):
                os.close(int(text))


def undo(orders: Orders, tables: Tables, read: Reread, directory: str) -> None:
    """Undo a change that is not confirmed, and report the outcome in the file ``….undone``.

    An item that is not as the change left it was changed by another process since, and is left alone.
    """
    with node_lock():
        try:
            os.rename(orders.path, f"{orders.path}.undone")
        except FileNotFoundError:
            return
        report: dict[str, Any] = {"owner": orders.owner, "undone": [], "problems": []}
        try:
            steps, problems = back(orders.steps, read([(step.kind, step.key) for step in orders.steps]))
            ledger = Ledger(directory)
            outcome = execute(Plan(steps, [], {}), tables, ledger, orders.owner, keep_going=True)
            report["undone"] = few(outcome.done, Step.describe)
            problems += [f"{failure.step.describe()}: {failure.message}" for failure in outcome.failed]
            report["problems"] = few(problems)
            _restore(ledger, orders, {(failure.step.kind, failure.step.key) for failure in outcome.failed})
            ledger.close()
        except (EngineError, OSError) as error:
            report["problems"].append(str(error))
        write(f"{orders.path}.undone", report)


def back(steps: Sequence[Step], have: ReadState) -> tuple[list[Step], list[str]]:
    """Return the steps that restore the state before ``steps``, and a sentence for each item that is left alone.

    An item may have changed more than once (a draining real server), or not yet if the task died. An item that the
    change created is removed whatever its value is now: its position may have changed.
    """
    passed: dict[Item, list[Any]] = {}
    for step in steps:
        passed.setdefault((step.kind, step.key), [step.before]).append(step.after)
    inverse, problems = [], []
    for (kind, key), (first, *later) in reversed(list(passed.items())):
        live = have.get(kind, {}).get(key)
        if any(_alike(kind, live, state) for state in later) or (first is None and live is not None):
            inverse.append(Step(kind, key, live, first))
        elif not _alike(kind, live, first):
            problems.append(f"{name(kind, key)}: another process has changed it since")
    return ordered(inverse), problems[::-1]


def _alike(kind: str, live: Any, state: Any) -> bool:
    """Tell whether an item is in the given state.

    The order of a list of sets is not read from the kernel. It is taken to be that of the given state.
    """
    if live is None or state is None:
        return live is state
    return KINDS[kind].same(live._replace(order=state.order) if kind == "set" else live, state)


def _restore(ledger: Ledger, orders: Orders, failed: set[Item]) -> None:
    """Restore the ledger's content, except for items whose undo failed and items that another owner has now."""
    others = ledger.others(orders.owner)
    ledger.claim(orders.owner, [(kind, key) for kind, key in orders.claims if key not in others.get(kind, ())])
    ledger.forget(orders.owner, [item for item in orders.touched if item not in orders.claims and item not in failed])
    for kind, key, text in orders.notes:
        ledger.note(orders.owner, kind, [(key, text)])
