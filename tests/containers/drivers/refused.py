"""Prints what the kernel answers to io_uring_setup(1, NULL): a profile that refuses it says EPERM, otherwise it is EFAULT."""

import ctypes
import errno

IO_URING_SETUP = 425
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall(IO_URING_SETUP, 1, None)
print("io_uring_setup", errno.errorcode[ctypes.get_errno()])
