"""The few parts of torch that the tensor calls use, over numpy, where torch is not installed."""

import numpy


class DType:
    def __init__(self, name):
        self.name = name
        self.numpy = numpy.dtype(name)

    def __repr__(self):
        return f"torch.{self.name}"


class Tensor:
    def __init__(self, array, dtype):
        self.array = array
        self.dtype = dtype

    shape = property(lambda self: self.array.shape)

    def dim(self):
        return self.array.ndim

    def numel(self):
        return self.array.size

    def element_size(self):
        return self.array.itemsize

    def data_ptr(self):
        return self.array.ctypes.data

    def detach(self):
        return self

    def cpu(self):
        return self

    def contiguous(self):
        return Tensor(numpy.ascontiguousarray(self.array), self.dtype)

    def reshape(self, shape):
        return Tensor(self.array.reshape(shape), self.dtype)

    def tensor_split(self, count, dim):
        if dim >= self.array.ndim:
            raise IndexError(dim)
        return [Tensor(part, self.dtype) for part in numpy.array_split(self.array, count, dim)]

    def copy_(self, other):
        self.array[...] = other.array


float32, float64, int64, uint8, complex64 = map(
    DType, ("float32", "float64", "int64", "uint8", "complex64")
)


def empty(shape, dtype):
    return Tensor(numpy.empty(shape, dtype.numpy), dtype)


def frombuffer(buffer, dtype, offset, count):
    return Tensor(numpy.frombuffer(buffer, dtype.numpy, count, offset), dtype)


def arange(count, dtype):
    return Tensor(numpy.arange(count).astype(dtype.numpy), dtype)


def equal(first, second):
    return first.dtype is second.dtype and numpy.array_equal(first.array, second.array)


def cat(tensors, dim):
    return Tensor(numpy.concatenate([it.array for it in tensors], dim), tensors[0].dtype)
