"""Sizes as Mooncake and Kubernetes write them."""

import re

UNITS = {
    "": 1,
    **{unit: 1 << shift for unit, shift in (("kb", 10), ("mb", 20), ("gb", 30), ("tb", 40))},
    **{unit: 1 << shift for unit, shift in (("ki", 10), ("mi", 20), ("gi", 30), ("ti", 40))},
}


def size_bytes(text):
    number, unit = re.fullmatch(r"\s*([\d.]+)\s*([a-zA-Z]*)\s*", str(text)).groups()
    return int(float(number) * UNITS[unit.lower()])
