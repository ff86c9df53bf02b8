"""What calls of `tent` raise."""

from __future__ import annotations

from typing import NoReturn


class TentException(Exception):
    """A call of `tent` that failed."""


class InvalidArgumentError(TentException):
    """An argument has no meaning."""


class AddressNotRegisteredError(TentException):
    """Memory is not registered, or registered twice."""


class DeviceNotFoundError(TentException):
    """There is no such device."""


class InvalidEntryError(TentException):
    """There is no such segment or batch."""


class RdmaError(TentException):
    """RDMA failed."""


class CudaError(TentException):
    """CUDA failed."""


class MetadataError(TentException):
    """The metadata server failed."""


class RpcServiceError(TentException):
    """A peer does not answer."""


class InternalError(TentException):
    """Anything else."""


class NotImplementedError(TentException):
    """This engine does not have it."""


_OF_CODES = {
    -3: AddressNotRegisteredError,
    -7: AddressNotRegisteredError,
    -101: InvalidEntryError,
    -102: RpcServiceError,
    -200: MetadataError,
    -303: NotImplementedError,
}


def fail(where: str, code: int) -> NoReturn:
    """Raise the exception of a code of the engine."""
    raise _OF_CODES.get(code, InternalError)(f"{where} answered {code}; the log says why")
