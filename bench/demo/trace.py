"""Request traces in the published JSONL form.

Each line is an object with `timestamp` (ms), `input_length` and `output_length` (tokens) and
`hash_ids`: one number per 512-token block of the prompt; equal numbers mean equal prefixes.
"""

import json

#: More blocks than any model's context; bounds what one line can make a client allocate.
BLOCKS_PER_REQUEST_MAX = 65536


class TraceError(ValueError):
    """A trace that cannot be used; the text names file and line."""


def read_trace(path, requests_max=None):
    """The `hash_ids` of the first `requests_max` requests (all if None) of the file at `path`."""
    requests = []
    try:
        with open(path, encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if requests_max is not None and len(requests) >= requests_max:
                    break
                if line.strip():
                    requests.append(read_line(line, f"{path}:{number}"))
    except OSError as error:
        raise TraceError(f"cannot read trace {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise TraceError(f"{path}: not a text file in UTF-8 ({error.reason})") from error
    if not requests:
        raise TraceError(f"{path}: no requests in this file")
    return requests


def read_line(line, where):
    """Block numbers of one request; `where` names the line in errors."""
    try:
        record = json.loads(line)
    except ValueError as error:
        raise TraceError(f"{where}: not JSON: {error}") from error
    if not isinstance(record, dict):
        raise TraceError(f"{where}: an object is expected, not {type(record).__name__}")
    for field in ("timestamp", "input_length", "output_length"):
        value = record.get(field, 0)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0:
            raise TraceError(f"{where}: {field} must be a number of at least 0")
    blocks = record.get("hash_ids")
    if not isinstance(blocks, list) or not blocks:
        raise TraceError(f"{where}: hash_ids must be a list with at least one number")
    if len(blocks) > BLOCKS_PER_REQUEST_MAX:
        raise TraceError(f"{where}: {len(blocks)} blocks, {BLOCKS_PER_REQUEST_MAX} at most")
    if any(isinstance(block, bool) or not isinstance(block, int) for block in blocks):
        raise TraceError(f"{where}: hash_ids must hold whole numbers only")
    return blocks
