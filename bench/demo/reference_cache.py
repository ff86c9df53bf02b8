"""What perfect caches would have served of the same requests: the marks to hold a hit rate against."""

import collections


def prefix_hits(requests, capacity_blocks=None):
    """Blocks an exact LRU of `capacity_blocks` (None: without end) serves as prefix hits."""
    cached = collections.OrderedDict()
    hits = 0
    for request in requests:
        for block in request:
            if block not in cached:
                break
            hits += 1
        for block in request:
            cached[block] = True
            cached.move_to_end(block)
        while capacity_blocks is not None and len(cached) > capacity_blocks:
            cached.popitem(last=False)
    return hits
