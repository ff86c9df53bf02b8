"""A collector of OpenTelemetry: OTLP over HTTP, decoded by OpenTelemetry's own messages."""

from __future__ import annotations

import gzip
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

#: Kinds of values that a metric may have.
KINDS = {"sum", "gauge", "histogram"}


class Collector:
    """What came in. Use as a context; `status` is what requests are answered with."""

    def __init__(self):
        self.spans, self.metrics, self.headers = [], {}, []
        self.status = 200
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                if collector.status == 200:
                    collector.take(self.path, dict(self.headers), body)
                self.send_response(collector.status)
                self.send_header("content-type", "application/x-protobuf")
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def take(self, path, headers, body):
        self.headers.append({name.lower(): value for name, value in headers.items()})
        if path == "/v1/traces":
            request = ExportTraceServiceRequest.FromString(body)
            self.spans += [
                (attributes(process.resource), span)
                for process in request.resource_spans
                for scope in process.scope_spans
                for span in scope.spans
            ]
        elif path == "/v1/metrics":
            (resource,) = ExportMetricsServiceRequest.FromString(body).resource_metrics
            found = {metric.name: metric for scope in resource.scope_metrics for metric in scope.metrics}
            assert all(metric.WhichOneof("data") in KINDS for metric in found.values())
            self.metrics = found | {"": attributes(resource.resource)}
        else:
            raise AssertionError(f"unknown path {path}")


def attributes(resource):
    """Attributes by name."""
    values = {pair.key: pair.value for pair in resource.attributes}
    return {key: getattr(value, value.WhichOneof("value")) for key, value in values.items()}
