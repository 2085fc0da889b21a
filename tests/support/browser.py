# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Debian's Chromium without a window, driven by its DevTools protocol over two pipes: no port, no driver, no package.

https://chromedevtools.github.io/devtools-protocol/ has the methods and events. Each message is JSON, ended by a NUL.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .waiting import PATIENCE

_OPTIONS = (
    "--headless",
    "--no-sandbox",  # root has no sandbox; the page is the test's own
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--force-color-profile=srgb",
    "--hide-scrollbars",
    "--host-resolver-rules=MAP * ~NOTFOUND",  # no name leads anywhere
    "--remote-debugging-pipe",  # reads commands from descriptor 3, writes to descriptor 4
)
_SIZE = 1 << 16


class BrowserError(AssertionError):
    """The browser ended, did not answer, or refused a command."""


class Browser:
    """One browser with one page.

    ``requests`` lists the addresses that the present page has requested, ``problems`` its errors and violations of its
    policy.
    """

    def __init__(self, directory: Path) -> None:
        program = shutil.which("chromium")
        if program is None:
            raise BrowserError("chromium is not installed: make deps")
        commands, self._to = os.pipe()
        self._from, answers = os.pipe()
        words = shlex.join([program, *_OPTIONS, f"--user-data-dir={directory}", "about:blank"])
        self._process = subprocess.Popen(
            ["bash", "-c", f"exec {words} 3<&{commands} 4>&{answers}"],
            pass_fds=(commands, answers),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": str(directory)},
        )
        os.close(commands)
        os.close(answers)
        self._read = b""
        self._number = 0
        self._session = ""
        self.requests: list[str] = []
        self.problems: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Log", "Runtime", "Performance"):
            self.call(f"{domain}.enable")

    def close(self) -> None:
        """End the browser."""
        self._session = ""
        try:
            self.call("Browser.close")
        except BrowserError:
            self._process.kill()
        self._process.wait(PATIENCE)
        os.close(self._to)
        os.close(self._from)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command and return its result.

        Raises:
            BrowserError: the browser refused it.
        """
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        answer = self._until(lambda message: message.get("id") == self._number)
        if "error" in answer:
            raise BrowserError(f"{method}: {answer['error']['message']}")
        result: dict[str, Any] = answer["result"]
        return result

    def open(self, path: Path) -> None:
        """Load a file, until its load event."""
        self.requests, self.problems = [], []
        result = self.call("Page.navigate", url=path.resolve().as_uri())
        if "errorText" in result:
            raise BrowserError(f"{path}: {result['errorText']}")
        self._until(lambda message: message.get("method") == "Page.loadEventFired")

    def evaluate(self, expression: str) -> Any:
        """Return the value of a JavaScript expression in the page.

        Raises:
            BrowserError: the expression threw an error.
        """
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise BrowserError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def resize(self, width: int, height: int) -> None:
        """Set the size of the page, in CSS pixels."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=True)

    def prefer(self, scheme: str) -> None:
        """Set the preferred colours: ``light`` or ``dark``."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def screenshot(self) -> bytes:
        """Return the visible part of the page as PNG."""
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])

    def _until(self, is_wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Read messages until the wanted one; keep what the others say about the page."""
        while True:
            message = self._message()
            parameters = message.get("params", {})
            method = message.get("method")
            if method == "Network.requestWillBeSent":
                self.requests.append(parameters["request"]["url"])
            elif method == "Runtime.exceptionThrown":
                self.problems.append(str(parameters["exceptionDetails"]))
            elif method == "Log.entryAdded":
                self.problems.append(parameters["entry"]["text"])
            if is_wanted(message):
                return message

    def _message(self) -> dict[str, Any]:
        while b"\0" not in self._read:
            if not select.select([self._from], [], [], PATIENCE)[0]:
                raise BrowserError("the browser does not answer")
            data = os.read(self._from, _SIZE)
            if not data:
                raise BrowserError("the browser has ended")
            self._read += data
        text, _nul, self._read = self._read.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        return message
