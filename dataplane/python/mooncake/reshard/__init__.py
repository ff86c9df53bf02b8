"""Plans that move model weights from one parallel layout to another.

`contracts` holds what every resource shares, `geometry` the arithmetic of boxes, `weight` the
placements of model weights and the planner. Everything here is checked data and arithmetic: it
moves no bytes and loads no native code. The JSON forms and identities equal Mooncake's.
"""

from .contracts import (
    PlacementManifest,
    ResourceKind,
    ResourceManifest,
    RuntimeBindingManifest,
)

__all__ = [
    "ResourceKind",
    "ResourceManifest",
    "PlacementManifest",
    "RuntimeBindingManifest",
]
