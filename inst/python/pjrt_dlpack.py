"""The Python half of R package pjrt's DLPack: buffers of R as Python objects, and Python's arrays for R.

Functions of the package's library do the work. They are called by address and do not need R, so buffers can be used on any
thread.
"""

import ctypes
import threading
import weakref
from ctypes import c_char_p, c_int, c_size_t, c_void_p, py_object

_HOST = (1, 3, 11)
_CPU = (1, 0)

_ARRAY = b"arrow_array"
_SCHEMA = b"arrow_schema"

_capi = ctypes.pythonapi
_new = ctypes.PYFUNCTYPE(py_object, c_void_p, c_void_p, c_void_p)(("PyCapsule_New", _capi))
_is_valid = ctypes.PYFUNCTYPE(c_int, py_object, c_void_p)(("PyCapsule_IsValid", _capi))
_get_pointer = ctypes.PYFUNCTYPE(c_void_p, py_object, c_void_p)(("PyCapsule_GetPointer", _capi))
_set_name = ctypes.PYFUNCTYPE(c_int, py_object, c_void_p)(("PyCapsule_SetName", _capi))


class _Library:
    """The functions of the package's library, and the names of capsules."""


def connect(addresses):
    """Takes the addresses of the library's functions and strings."""
    export, release, tell, destroy, *names = map(int, addresses)
    arguments = (c_void_p, c_void_p, c_int, c_int, c_char_p, c_size_t)
    # On the thread that R runs on, a wait may run code of R, which expects to have Python's lock. Others wait without it.
    _Library.export_locked = ctypes.PYFUNCTYPE(*arguments)(export)
    _Library.export = ctypes.CFUNCTYPE(*arguments)(export)
    _Library.release = ctypes.CFUNCTYPE(None, c_void_p)(release)
    _Library.destroy = destroy
    _Library.names, _Library.used = names[:2], names[2:]
    _Library.take = ctypes.PYFUNCTYPE(c_size_t, py_object)(_take_quietly)
    functions = _Library.take, _capi.PyCapsule_IsValid, _capi.PyCapsule_GetPointer
    ctypes.CFUNCTYPE(None, *[c_size_t] * 3)(tell)(*[ctypes.cast(function, c_void_p).value for function in functions])


class Buffer:
    """A buffer of R package pjrt. Any library that knows DLPack can use it: numpy.from_dlpack(buffer)."""

    def __init__(self, address, dtype, shape, device):
        self._address = address
        self._device = device
        self.dtype = dtype
        self.shape = shape
        release = weakref.finalize(self, _Library.release, address)
        release.atexit = False

    def __dlpack_device__(self):
        if not self._device:
            raise BufferError("DLPack has no devices of the buffer's platform.")
        return self._device

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        # The content is complete when the array is returned, so `stream` does not matter.
        versioned = max_version is not None and max_version[0] >= 1
        elsewhere = dl_device is not None and tuple(dl_device) != self._device
        if elsewhere and tuple(dl_device) != _CPU:
            raise BufferError("A buffer can only be copied to the CPU.")
        if elsewhere and copy is False:
            raise BufferError("The buffer is not in the CPU's memory, so it must be copied.")
        if copy and not elsewhere and self._device != _CPU:
            raise BufferError("A buffer can only be copied to the CPU: pass dl_device=(1, 0), too.")
        message = ctypes.create_string_buffer(2048)
        on_main_thread = threading.current_thread() is threading.main_thread()
        export = _Library.export_locked if on_main_thread else _Library.export
        array = export(self._address, versioned, bool(copy or elsewhere), message, len(message))
        if not array:
            text = message.value.decode("utf-8", "replace")
            raise KeyboardInterrupt() if text == "Interrupted." else BufferError(text)
        return _capsule(array, versioned)

    def __array__(self, dtype=None, copy=None):
        import numpy

        array = numpy.from_dlpack(self)
        if dtype is not None and array.dtype != dtype:
            if copy is False:
                raise ValueError("A buffer of %s cannot be an array of %s without a copy." % (self.dtype, dtype))
            return array.astype(dtype)
        return array.copy() if copy else array

    # It cannot be changed, and only one object may release its address.
    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        raise TypeError("A buffer of R cannot be pickled: make an array of it first, as with numpy.from_dlpack().")

    def __repr__(self):
        return "<pjrt buffer %s[%s]>" % (self.dtype, "x".join(map(str, self.shape)))


def _capsule(array, versioned):
    return _new(array, _Library.names[versioned], _Library.destroy)


def lend(described):
    """A buffer of R as a Python object: its address, type, device and dimensions."""
    address, dtype, kind, device, *shape = described.split()
    return Buffer(int(address), dtype, tuple(map(int, shape)), None if kind == "-" else (int(kind), int(device)))


def give(address, versioned):
    """An array of R as a capsule."""
    return _capsule(int(address), versioned)


def take(array, stream=None):
    """Takes over an array: "v" and its address, or "o" for the older struct; or "device" and where it is, to be called again
    with a stream."""
    capsule = array
    if type(array).__name__ != "PyCapsule":
        if getattr(array, "is_neg", bool)():
            # PyTorch lends its memory as if it were not.
            raise BufferError("The tensor has the negative bit: use x.resolve_neg().")
        kind, device = array.__dlpack_device__()
        if int(kind) not in _HOST and not stream:
            return "device %d %d" % (kind, device)
        options = {"stream": int(stream)} if stream else {}
        try:
            capsule = array.__dlpack__(max_version=(1, 1), **options)
        except TypeError:
            # It does not know versions.
            capsule = array.__dlpack__(**options)
    for versioned, name in enumerate(_Library.names):
        if _is_valid(capsule, name):
            address = _get_pointer(capsule, name)
            _set_name(capsule, _Library.used[versioned])
            return "%s%d" % ("v" if versioned else "o", address)
    raise BufferError("The capsule has no DLPack array, or was used already.")


def lend_arrow(array):
    """The addresses of an Arrow array and its schema, and the capsules that own them."""
    schema, data = array.__arrow_c_array__()
    addresses = [_get_pointer(capsule, name) for capsule, name in ((data, _ARRAY), (schema, _SCHEMA))]
    return [str(address) for address in addresses] + [schema, data]


def _take_quietly(array):
    """The same for a call by address: the array's address, plus one for the struct with a version. Zero after any exception."""
    try:
        taken = take(array)
        return 0 if taken.startswith("device") else int(taken[1:]) + taken.startswith("v")
    except BaseException:
        return 0
