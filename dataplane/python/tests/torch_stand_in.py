"""The few parts of torch that the tensor calls use, over numpy, where torch is not installed."""

import numpy


#: What holds the bits of a dtype that numpy does not have.
HOLDERS = {"bfloat16": "uint16", "float8_e4m3fn": "uint8", "float8_e5m2": "uint8"}


class DType:
    def __init__(self, name):
        self.name = name
        self.numpy = numpy.dtype(HOLDERS.get(name, name))

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
        array = numpy.ascontiguousarray(self.array).reshape(self.array.shape)
        return Tensor(array, self.dtype)

    def reshape(self, shape):
        return Tensor(self.array.reshape(shape), self.dtype)

    def tensor_split(self, count, dim):
        if dim >= self.array.ndim:
            raise IndexError(dim)
        return [Tensor(part, self.dtype) for part in numpy.array_split(self.array, count, dim)]

    def is_contiguous(self):
        return self.array.flags.c_contiguous

    def view(self, dtype):
        return Tensor(self.array.view(dtype.numpy), dtype)

    def copy_(self, other):
        self.array[...] = other.array


DTYPES = (
    "float32 float64 int8 uint8 int16 uint16 int32 uint32 int64 uint64 bool float16 bfloat16 "
    "float8_e4m3fn float8_e5m2 complex64"
).split()
globals().update({name: DType(name) for name in DTYPES})


def empty(shape, dtype):
    return Tensor(numpy.empty(shape, dtype.numpy), dtype)


def frombuffer(buffer, dtype, offset, count):
    return Tensor(numpy.frombuffer(buffer, dtype.numpy, count, offset), dtype)


def from_numpy(array):
    return Tensor(array, globals()[str(array.dtype)])


def arange(count, dtype):
    return Tensor(numpy.arange(count).astype(dtype.numpy), dtype)


def equal(first, second):
    return first.dtype is second.dtype and numpy.array_equal(first.array, second.array)


def cat(tensors, dim):
    return Tensor(numpy.concatenate([it.array for it in tensors], dim), tensors[0].dtype)
