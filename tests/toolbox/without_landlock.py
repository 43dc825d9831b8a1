"""Run the command on a machine without Landlock: the kernel answers its first call with ENOSYS, to all children too."""

import ctypes
import runpy
import struct

# `seccomp_data.nr` is loaded; landlock_create_ruleset gives ENOSYS, and everything else is allowed.
_FILTER = struct.pack("=HBBI", 0x20, 0, 0, 0) + struct.pack("=HBBI", 0x15, 0, 1, 444)
_FILTER += struct.pack("=HBBI", 0x06, 0, 0, 0x50000 | 38) + struct.pack("=HBBI", 0x06, 0, 0, 0x7FFF0000)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


if __name__ == "__main__":
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    # PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP with SECCOMP_MODE_FILTER.
    assert prctl(38, 1, 0, 0, 0) == 0
    assert prctl(22, 2, ctypes.byref(_Program(len(_FILTER) // 8, _FILTER)), 0, 0) == 0
    runpy.run_module("tooldispatchd", run_name="__main__")
