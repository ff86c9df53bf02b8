"""Perigee's Python package, importable under Mooncake's name.

Submodules: `store` (the store client), `engine` (the transfer engine), `async_store`,
`buffer_pool`, `mooncake_config`, `mooncake_store_service` (REST service), `http_metadata_server`,
`transfer_engine_topology_dump`, `cli`, `reshard` (plans of weight transfers),
`structured_object_store` and `dataproto_catalog` (arrays, tensors and rows as objects).
Importing the package itself loads no native code.
"""

from importlib import metadata as _metadata
from pkgutil import extend_path

import perigee_mooncake.guard as _guard  # also where no `.pth` file is read

from .buffer_pool import BufferPool, RegisteredBufferPool

# Other distributions may add submodules in folders of their own, as Mooncake allows.
__path__ = extend_path(__path__, __name__)

__all__ = ["BufferPool", "RegisteredBufferPool"]

#: The version of Mooncake whose modules and programs these are; `__version__` is Perigee's own.
MOONCAKE_VERSION = "0.3.13"

try:
    __version__ = _metadata.version("perigee-mooncake")
except _metadata.PackageNotFoundError:  # a source tree that was never installed
    __version__ = "0.0.0"
