"""Chromium over the WebDriver protocol, as far as these tests need it."""

from __future__ import annotations

import base64
import json
import subprocess
import urllib.error
import urllib.request

from cluster import free_port, until

#: The protocol's numbers of keys that have no character.
KEYS = {
    "Tab": "\ue004", "Enter": "\ue007", "Escape": "\ue00c", "Space": " ",
    "ArrowLeft": "\ue012", "ArrowUp": "\ue013", "ArrowRight": "\ue014", "ArrowDown": "\ue015",
}
#: No sandbox because the tests run as root; the pages are our own.
ARGUMENTS = [
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
    "--disable-background-networking", "--no-first-run",
]


class Browser:
    """One window. Use as a context."""

    def __init__(self, folder):
        self.folder = folder
        self.driver = self.session = None

    def __enter__(self):
        port = free_port()
        log = (self.folder / "chromedriver.log").open("wb")
        self.driver = subprocess.Popen(["chromedriver", f"--port={port}"], stdout=log, stderr=log)
        self.url = f"http://127.0.0.1:{port}"
        try:
            until(lambda: self.ask("GET", f"{self.url}/status")["ready"], "chromedriver")
            options = {"args": [*ARGUMENTS, f"--user-data-dir={self.folder / 'profile'}"]}
            logged = {"performance": "ALL", "browser": "ALL"}
            wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": logged}
            made = self.ask("POST", f"{self.url}/session", {"capabilities": {"alwaysMatch": wanted}})
            self.session = f"{self.url}/session/{made['sessionId']}"
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self.session:
            self.ask("DELETE", self.session)
        self.driver.terminate()
        self.driver.wait(timeout=20)

    @staticmethod
    def ask(method, url, body=None):
        """One command of the protocol."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data=data, method=method)
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise OSError(json.load(error)["value"]["message"]) from error

    def _post(self, path, **body):
        return self.ask("POST", f"{self.session}/{path}", body)

    def open(self, url):
        """Load a page."""
        self._post("url", url=url)

    def script(self, text, *arguments):
        """The value of a JavaScript function body."""
        return self._post("execute/sync", script=text, args=list(arguments))

    def press(self, *keys):
        """Press keys one after the other, wherever the focus is."""
        actions = []
        for key in keys:
            value = KEYS.get(key, key)
            actions += [{"type": "keyDown", "value": value}, {"type": "keyUp", "value": value}]
        self._post("actions", actions=[{"type": "key", "id": "keys", "actions": actions}])

    def develop(self, command, **parameters):
        """A command of the developer tools."""
        return self._post("goog/cdp/execute", cmd=command, params=parameters)

    def size(self, width, height):
        """Show the page in a window of this size."""
        self.develop(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=False,
        )

    def prefer(self, scheme):
        """What the system of the reader prefers: light or dark."""
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.develop("Emulation.setEmulatedMedia", features=[feature])

    def screenshot(self, path, whole=False):
        """The window, or the whole page, as PNG."""
        taken = self.develop("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(taken["data"]))

    def requests(self):
        """URLs that the page asked for since the last call."""
        entries = (json.loads(line["message"])["message"] for line in self._log("performance"))
        sent = (entry for entry in entries if entry["method"] == "Network.requestWillBeSent")
        return [entry["params"]["request"]["url"] for entry in sent]

    def complaints(self):
        """What the page's console says since the last call."""
        return [line["message"] for line in self._log("browser")]

    def _log(self, kind):
        return self._post("se/log", type=kind)
