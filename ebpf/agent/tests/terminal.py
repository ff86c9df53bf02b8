"""A program in a terminal of its own, and what a reader sees on its screen."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import threading

import pyte
from cluster import DEADLINE_S, until

KEYS = {
    "Enter": "\r", "Escape": "\x1b", "Tab": "\t", "Backspace": "\x7f",
    "Up": "\x1b[A", "Down": "\x1b[B", "Right": "\x1b[C", "Left": "\x1b[D",
}


class Screen(pyte.Screen):
    """A screen that knows whether the program is on the alternate one and hides the cursor."""

    alternate = False

    def set_mode(self, *modes, **options):
        self.alternate |= bool(options.get("private") and 1049 in modes)
        super().set_mode(*modes, **options)

    def reset_mode(self, *modes, **options):
        self.alternate &= not (options.get("private") and 1049 in modes)
        super().reset_mode(*modes, **options)


class Terminal:
    """Use as a context: leaving it kills the program."""

    def __init__(self, *words, columns=80, lines=24, **options):
        self.controller, self.line = pty.openpty()
        self.screen = Screen(columns, lines)
        self.stream = pyte.ByteStream(self.screen)
        self._set_size(columns, lines)
        self.settings = termios.tcgetattr(self.line)
        ends = {"stdin": self.line, "stdout": self.line, "stderr": self.line}
        self.process = subprocess.Popen([str(word) for word in words], **ends, **options)
        self.guard = threading.Lock()
        self.closing = threading.Event()
        self.reading = threading.Thread(target=self._read, daemon=True)
        self.reading.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.closing.set()
        self.reading.join()
        os.close(self.controller)
        os.close(self.line)

    def _set_size(self, columns, lines):
        size = struct.pack("HHHH", lines, columns, 0, 0)
        fcntl.ioctl(self.line, termios.TIOCSWINSZ, size)

    def _read(self):
        while not self.closing.is_set():
            if select.select([self.controller], [], [], 0.1)[0]:
                data = os.read(self.controller, 1 << 16)
                with self.guard:
                    self.stream.feed(data)

    def resize(self, columns, lines):
        """Make the window larger or smaller."""
        with self.guard:
            self.screen.resize(lines, columns)
        self._set_size(columns, lines)
        self.process.send_signal(signal.SIGWINCH)

    def press(self, *keys):
        """Type keys or text."""
        for key in keys:
            os.write(self.controller, KEYS.get(key, key).encode())

    def lines(self):
        """The screen."""
        with self.guard:
            return list(self.screen.display)

    def wait_for(self, *parts, absent=()):
        """Wait until the screen shows these texts and not those; return its lines."""
        def shown():
            text = "\n".join(self.lines())
            found = all(part in text for part in parts)
            return found and not any(part in text for part in absent) and self.lines()

        try:
            return until(shown, f"screen with {parts} without {absent}")
        except AssertionError as error:
            raise AssertionError(str(error) + "\n" + "\n".join(self.lines())) from None

    def ends_with(self):
        """The exit code, once the program has ended."""
        return self.process.wait(timeout=DEADLINE_S)

    def is_restored(self):
        """Whether the line echoes again, the cursor shows, and the program has left its screen."""
        with self.guard:
            screen_is = not self.screen.alternate and not self.screen.cursor.hidden
        return screen_is and termios.tcgetattr(self.line)[:4] == self.settings[:4]
