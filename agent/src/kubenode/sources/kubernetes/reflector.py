# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reflector: list one resource page by page, then watch it, in a thread (kubernetes: client-go's Reflector).

Known objects stay while the API is away, and during a new list. A list only adds and updates; objects are removed at
its end. All waiting is measured by the monotonic clock.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, NamedTuple

from ...manifests.documents import ObjectKey
from .api import Session
from .errors import (
    ApiError,
    BrokenOffError,
    ExpiredError,
    RefusedError,
    TooLargeError,
    UnreachableError,
    UnusableError,
)
from .event_stream import RawEvent
from .objects import Resource, understood
from .store import Store

_ROOM = 0.25  # share of the space for a page: after a page that takes less, the limit is doubled
_PASSING = (401, 403, 408, 429)  # refusals that do not make the resource version invalid


class Timing(NamedTuple):
    """Timeouts and delays in seconds; objects of a page."""

    first_backoff: float = 0.5
    most_backoff: float = 30.0
    # timeout of a silent watch; bookmarks come about once a minute, if anything has changed since the watch began
    silence: float = 150.0
    watch: float = 300.0  # a watch ends after one to two times this: not all nodes at once
    calm: float = 1.0  # a watch without events that ends sooner is a failure
    steady: float = 10.0  # a watch that breaks off later is no failure: proxies end quiet connections
    page: int = 500
    # a resource version may expire for a whole fleet at once: the nodes list again within this time
    spread: float = 5.0
    snapshot: float = 60.0  # at least, between two snapshots on disk


class Reflector(threading.Thread):
    """Thread that lists and watches one resource until :meth:`stop`.

    ``listed``: the whole list was read at least once. ``trouble``: the present error, "" if there is none. ``tried``:
    the first attempt has ended, with or without success. This thread calls ``notify`` when any of them changes.
    """

    def __init__(
        self,
        resource: Resource,
        session: Session,
        store: Store,
        notify: Callable[[], None],
        timing: Timing | None = None,
    ) -> None:
        super().__init__(name=f"watch {resource.kind}", daemon=True)
        self.resource = resource
        self.listed = False
        self.tried = False
        self.trouble = ""
        self.is_blocked = False  # the trouble stays until the operator changes the configuration
        self.odd: dict[str, str] = {}  # unusable objects of the last list: reason -> problem
        self._session = session
        self._store = store
        self._notify = notify
        self._timing = timing or Timing()
        self._version = ""  # resource version from which to watch; "" to list first
        self._was_away = False
        self._continued = False  # the last requested page was not the first
        self._failures = 0
        self._limit = self._timing.page  # objects of the next page
        self._prefers_protobuf = True  # until protobuf fails once: JSON is larger, and always works
        self._stopping = threading.Event()

    def stop(self) -> None:
        """End the thread, without waiting for it."""
        self._stopping.set()
        self._session.abort()

    def run(self) -> None:
        """List and watch."""
        while not self._stopping.is_set():
            try:
                self._follow()
            except ExpiredError:
                self._version = ""
                self._pause(max(self._backoff(), self._timing.spread))
            except ApiError as error:
                self._failed(error)
            except Exception as error:  # no answer of the API may end this thread
                self._version = ""
                self._failed(ApiError(f"the API's answer cannot be understood ({type(error).__name__}: {error})"))
        self._session.drop()

    def _follow(self) -> None:
        if not self._version:
            self._version = self._list()
            self.listed = True
            self._tell("")
        elif self._was_away:
            self._ask_for_version()
        self._was_away = False
        self._watch()

    def _failed(self, trouble: ApiError) -> None:
        if self._stopping.is_set():
            return
        wait = 0.0
        self._was_away |= isinstance(trouble, UnreachableError)
        if isinstance(trouble, RefusedError):
            wait = trouble.retry_after
            self._prefers_protobuf &= trouble.status != HTTPStatus.NOT_ACCEPTABLE  # of a proxy before the API server
            # the API server does not know the version (a restored backup, another server) or the request: list
            # again
            if trouble.reason == "ResourceVersionTooLarge" or (trouble.status not in _PASSING and trouble.status < 500):
                self._version = ""
        self.is_blocked = isinstance(trouble, UnusableError)
        self._tell(str(trouble))
        most = self._backoff()
        if isinstance(trouble, RefusedError) and trouble.status == 410:
            most = max(most, self._timing.spread)
        self._pause(max(most, 1.2 * wait), at_least=max(most / 2, wait))

    def _backoff(self) -> float:
        """Count one more failure; return the longest wait after it."""
        most = min(self._timing.first_backoff * 2.0**self._failures, self._timing.most_backoff)
        self._failures = min(self._failures + 1, 30)
        return most

    def _tell(self, trouble: str) -> None:
        if not self.tried or trouble != self.trouble or not trouble:
            self.tried = True
            self.trouble = trouble
            self._notify()

    def _pause(self, seconds: float, at_least: float = 0.0) -> None:
        self._stopping.wait(random.uniform(at_least, seconds))

    # list

    def _list(self) -> str:
        """Read the whole list; return the version from which to watch.

        A continue token may expire meanwhile. Then the list starts again, at the second time without pages.
        """
        for whole in (False, False, True):
            try:
                return self._pages(whole)
            except RefusedError as refusal:
                if whole or refusal.status not in (400, 410) or not self._continued:
                    raise
        raise ExpiredError("the list cannot be read to its end")

    def _pages(self, whole: bool) -> str:
        seen: set[ObjectKey] = set()
        odd: dict[str, str] = {}
        following = ""
        while True:
            metadata = self._page(0, following, seen, odd) if whole else self._fitting_page(following, seen, odd)
            following = str(metadata.get("continue") or "")
            if not following:
                break
        version = str(metadata.get("resourceVersion") or "")
        if not version:
            raise ApiError("the API's list has no resourceVersion")
        self.odd = odd
        self._store.keep_only(self.resource.kind, seen)
        return version

    def _fitting_page(self, following: str, seen: set[ObjectKey], odd: dict[str, str]) -> dict[str, Any]:
        """Read a page that fits into the memory limit; adapt the number of objects for the next page."""
        while True:
            try:
                metadata = self._page(self._limit, following, seen, odd)
            except TooLargeError as error:
                if self._limit == 1:
                    raise ApiError(f"{error}, though it was asked for one {self.resource.kind} only") from None
                self._limit = max(1, self._limit // 2)
            else:
                if self._session.filled < _ROOM:
                    self._limit = min(2 * self._limit, self._timing.page)
                return metadata

    def _page(self, limit: int, following: str, seen: set[ObjectKey], odd: dict[str, str]) -> dict[str, Any]:
        """Read a page into the store; return its metadata only, because pages may be large."""
        self._continued = bool(following)
        query = {**self.resource.selector, "limit": str(limit), **({"continue": following} if following else {})}
        items, metadata = _parts(self._session.get(self.resource.path, query))
        for item in items:
            self._take(item, seen, odd)
        return metadata

    def _take(self, item: Any, seen: set[ObjectKey], odd: dict[str, str]) -> None:
        try:
            key, kept = understood(self.resource.kind, item)
            self._store.put(key, kept)
        except Exception as error:  # one bad object must not stop the list
            reason = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
            odd[reason] = f"an object of the API cannot be used: {reason}"
            return
        seen.add(key)

    # watch

    def _watch(self) -> None:
        """Watch until the API ends it."""
        timing = self._timing
        begun = time.monotonic()
        seconds = timing.watch * random.uniform(1, 2)
        query = {
            **self.resource.selector,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(max(1, int(seconds))),
        }
        events = 0
        stream = self._session.events(self.resource.path, query, timing.silence, protobuf=self._prefers_protobuf)
        try:
            for event in stream:
                if self.trouble:
                    self._tell("")
                if event.is_empty:
                    continue
                self._version = self._use(event)
                events += 1
                lasted = time.monotonic() - begun
                if lasted > timing.most_backoff:
                    self._failures = 0
                if self._stopping.is_set() or lasted > seconds + timing.silence:
                    return  # or the API server ignores timeoutSeconds
        except BrokenOffError:
            if time.monotonic() - begun < timing.steady:
                raise
            events = 1  # no failure: if the API is away, the next request fails
        finally:
            stream.close()
        if not events:
            if time.monotonic() - begun < timing.calm:
                raise ApiError("the API ends every watch at once")
            self._ask_for_version()
        self._failures = 0
        self._tell("")
        if time.monotonic() - begun < seconds - 1:  # the API server stops, and ends the watches of a whole fleet
            self._pause(timing.first_backoff)

    def _ask_for_version(self) -> None:
        """Make sure that the API server has reached the known resource version.

        An API server that was restored from a backup sends nothing to a watch from a later version: its changes until
        that version stay unseen. It answers a request for a list of at least that version with ResourceVersionTooLarge.
        """
        query = {"limit": "1", "resourceVersion": self._version, "resourceVersionMatch": "NotOlderThan"}
        self._session.get(self.resource.path, {**self.resource.selector, **query})

    def _use(self, raw: RawEvent) -> str:
        """Store the object of one event; return the resource version after it."""
        try:
            event = raw.decode()
            kind, item = event["type"], event["object"]
            if kind == "ERROR":
                raise self._error(item)
            version = item["metadata"]["resourceVersion"]
            if kind == "BOOKMARK":
                return str(version or self._version)
            key, kept = understood(self.resource.kind, item)
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            self._version = ""  # an event may be lost: list again
            self._prefers_protobuf &= not raw.is_protobuf
            raise ApiError(f"the API sent an invalid watch event ({type(error).__name__})") from None
        if kind in ("ADDED", "MODIFIED"):
            self._store.put(key, kept)
        elif kind == "DELETED":
            self._store.remove(key)
        return str(version)

    def _error(self, status: Any) -> ApiError:
        """Return the error of an ERROR event; as in client-go, list again after it."""
        self._version = ""
        code = status.get("code") if isinstance(status, dict) else None
        if code == 410:
            return ExpiredError("the version to watch from has expired")
        reason, message = (
            (str(status.get(name) or "") for name in ("reason", "message")) if isinstance(status, dict) else ("", "")
        )
        return RefusedError(code if isinstance(code, int) else 500, reason, message[:300])


def _parts(page: Any) -> tuple[list[Any], dict[str, Any]]:
    if not isinstance(page, dict) or not isinstance(page.get("metadata"), dict):
        raise ApiError("the API's answer is not a list of objects")
    items = page.get("items")
    if items is not None and not isinstance(items, list):
        raise ApiError("the API's answer is not a list of objects")
    return items or [], page["metadata"]
