"""A real browser for tests: headless Chromium, spoken to over a pipe (DevTools protocol)."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--remote-debugging-pipe",
    "--hide-scrollbars",
)
LAUNCH = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3]]
os.dup2(ends[0], 3)
os.dup2(ends[1], 4)
os.execv(sys.argv[3], sys.argv[3:])
"""  # the browser reads commands from 3 and answers on 4
PROBLEMS = ("Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled")


class Page:
    """One page of a browser.

    Attributes
    ----------
    problems : list of str
        Errors and warnings that the page wrote to its console, or did not catch.
    requests : list of str
        Addresses that it asked for.
    """

    def __init__(self, folder: Path) -> None:
        self._number = 0
        self._session: str | None = None
        self._loaded = False
        self.problems: list[str] = []
        self.requests: list[str] = []
        command = [_browser(), *FLAGS, f"--user-data-dir={folder}"]
        to_browser, self._output = os.pipe()
        answers, from_browser = os.pipe()
        self._input = os.fdopen(answers, "rb")
        ends = (to_browser, from_browser)
        self._process = subprocess.Popen(
            [sys.executable, "-c", LAUNCH, *map(str, ends), *command],
            pass_fds=ends,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for end in ends:
            os.close(end)

    def attach(self) -> None:
        """Open a page and listen to it."""
        target = self._send("Target.createTarget", url="about:blank")["targetId"]
        attached = self._send("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **params: Any) -> Any:
        """Give a command of the protocol and return the answer."""
        return self._send(method, self._session, **params)

    def open(self, path: Path, width: int = 1100, height: int = 800, phone: bool = False) -> None:
        """Show a file in a window of some size and wait until it is loaded."""
        self.resize(width, height, phone)
        self._loaded = False
        self.send("Page.navigate", url=path.as_uri())
        while not self._loaded:
            self._receive()
        self.do("new Promise(done => requestAnimationFrame(() => setTimeout(done, 50)))")

    def resize(self, width: int, height: int, phone: bool = False) -> None:
        """Change the size of the window; a phone also takes touches."""
        size = {"width": width, "height": height}
        self.send("Emulation.setDeviceMetricsOverride", deviceScaleFactor=1, mobile=phone, **size)
        self.send("Emulation.setTouchEmulationEnabled", enabled=phone)

    def do(self, code: str) -> Any:
        """The value of an expression of JavaScript, awaited if it is a promise."""
        answer = self.send(
            "Runtime.evaluate", expression=code, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"]["exception"]["description"])
        return answer["result"].get("value")

    def text(self, selector: str) -> str:
        """The visible text of the first element that a CSS selector finds."""
        element = f"document.querySelector({json.dumps(selector)})"
        return str(self.do(f"{element}.innerText ?? {element}.textContent"))

    def count(self, selector: str) -> int:
        """How many elements a CSS selector finds that are shown."""
        return int(
            self.do(
                f"[...document.querySelectorAll({json.dumps(selector)})]"
                ".filter(e => e.getClientRects().length > 0).length"
            )
        )

    def middle(self, selector: str) -> tuple[float, float]:
        """Where the middle of an element is, which is scrolled into sight first."""
        x, y = self.do(
            f"(e => {{ e.scrollIntoView({{block: 'center'}}); const b = e.getBoundingClientRect();"
            f" return [b.x + b.width / 2, b.y + b.height / 2]; }})"
            f"(document.querySelector({json.dumps(selector)}))"
        )
        return x, y

    def move_to(self, selector: str) -> None:
        """Put the pointer on an element."""
        x, y = self.middle(selector)
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def click(self, selector: str) -> None:
        """Click on an element."""
        x, y = self.middle(selector)
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            button = "none" if kind == "mouseMoved" else "left"
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button=button, clickCount=1)

    def press(self, key: str) -> None:
        """Press a key, such as "Enter" or "Tab"."""
        code = {"Enter": 13, "Tab": 9, "Escape": 27}[key]
        text = {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            self.send(
                "Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, **text
            )

    def picture(self, path: Path, whole: bool = True) -> None:
        """Write what is seen, or the whole page, as a PNG file."""
        answer = self.send("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(answer["data"]))

    def pdf(self, path: Path) -> None:
        """Print to a PDF file."""
        answer = self.send("Page.printToPDF", preferCSSPageSize=True, printBackground=False)
        path.write_bytes(base64.b64decode(answer["data"]))

    def close(self) -> None:
        """End the browser."""
        self._process.terminate()
        self._process.wait(timeout=20)
        os.close(self._output)
        self._input.close()

    def _send(self, method: str, session: str | None = None, **params: Any) -> Any:
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = session
        os.write(self._output, json.dumps(message).encode() + b"\0")
        number = self._number
        while True:
            answer = self._receive()
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def _receive(self) -> dict[str, Any]:
        """The next message; events are noted."""
        data = bytearray()
        while (byte := self._input.read(1)) != b"\0":
            if not byte:
                raise RuntimeError("the browser has ended")
            data += byte
        message: dict[str, Any] = json.loads(data)
        method, params = message.get("method"), message.get("params", {})
        if method == "Page.loadEventFired":
            self._loaded = True
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method in PROBLEMS and params.get("type") not in ("log", "info", "debug"):
            self.problems.append(json.dumps(params)[:500])
        return message


def _browser() -> str:
    for name in NAMES:
        found = shutil.which(name)
        if found:
            return found
    pytest.skip(f"no browser is installed (looked for {', '.join(NAMES)})")


@contextmanager
def browser(folder: Path) -> Iterator[Page]:
    """A page of a browser that is ended afterwards; the test is skipped if there is none."""
    page = Page(folder)
    try:
        page.attach()
        yield page
    finally:
        page.close()
