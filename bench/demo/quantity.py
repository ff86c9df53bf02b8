"""Sizes as people write and read them. Powers of two, as the store's own flags."""

import re

UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
PATTERN = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?\s*", re.IGNORECASE)


def parse_bytes(text):
    """Number of bytes in `text`, such as 65536, 64k, 1.5G or 512MiB; ValueError otherwise."""
    match = PATTERN.fullmatch(text)
    if not match:
        raise ValueError(f"{text!r} is not a size such as 65536, 64k, 512MiB or 1.5G")
    size = int(float(match[1]) * UNITS[match[2].lower()])
    if size <= 0:
        raise ValueError("a size must be at least 1 byte")
    return size


def format_bytes(count):
    """`count` bytes in the largest binary unit below it, with three significant digits."""
    for unit, name in ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if count >= unit:
            return f"{count / unit:.4g} {name}"
    return f"{count} B"
