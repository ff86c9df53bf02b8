"""The HTTP port by which the test drives a stand-in: POST /NAME with JSON calls a function of that name."""

import json
import signal
import sys
import traceback
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    calls = {}

    def do_GET(self):
        self.answer({})

    def do_POST(self):
        length = int(self.headers.get("Content-Length", 0))
        self.answer(json.loads(self.rfile.read(length)))

    def answer(self, arguments):
        call = self.calls.get(self.path.lstrip("/"))
        try:
            status, value = (404, self.path) if call is None else (200, call(**arguments))
        except Exception:
            status, value = 500, traceback.format_exc()
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


def serve(port, calls):
    """Serves until SIGTERM; as a pod's first process it would not hear that without a handler."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    Handler.calls = calls
    ThreadingHTTPServer(("0.0.0.0", port), Handler).serve_forever()
