"""Progress on stderr: a bar on a terminal, otherwise one line per tenth."""

import os
import sys

BAR_CELLS = 40


class Progress:
    """Shows how much of `total` is done."""

    def __init__(self, total, stream=None):
        self.total = max(1, total)
        self.stream = stream or sys.stderr
        self.is_terminal = self.stream.isatty() and os.environ.get("TERM") != "dumb"
        self.shown = -1

    def update(self, done):
        """Redraws if that would show anything new."""
        steps = 1000 if self.is_terminal else 10
        step = min(done, self.total) * steps // self.total
        if step == self.shown:
            return
        self.shown = step
        if self.is_terminal:
            filled = min(done, self.total) * BAR_CELLS // self.total
            bar = "#" * filled + "." * (BAR_CELLS - filled)
            self.stream.write(f"\r[{bar}] {step / 10:5.1f} %  {done}/{self.total} requests")
        elif step:
            self.stream.write(f"{step * 10} % ({done}/{self.total} requests)\n")
        self.stream.flush()

    def finish(self):
        """Leaves the bar's line."""
        if self.is_terminal and self.shown >= 0:
            self.stream.write("\n")
            self.stream.flush()
