"""Worker side: values and tensors on their way between Python and an extension's C interface (through ctypes)."""

from __future__ import annotations

import ctypes
import functools
import struct
from pathlib import Path
from typing import Any

import torch

__all__ = ["ENTRY", "Function", "Value", "drop_untaken", "free", "handles_of", "pack", "taken_text", "unpack"]


class Value(ctypes.Structure):
    _fields_ = (("code", ctypes.c_int64), ("count", ctypes.c_int64), ("payload", ctypes.c_int64))


class Function(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("doc", ctypes.c_char_p),
        ("signature", ctypes.c_char_p),
        ("arguments", ctypes.c_char_p),
        ("entry", ctypes.c_void_p),
        ("target", ctypes.c_void_p),
    )


# PYFUNCTYPE keeps the interpreter's lock during the call, as a plain binding does.
ENTRY = ctypes.PYFUNCTYPE(
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.POINTER(Value),
    ctypes.POINTER(ctypes.POINTER(Value)),
    ctypes.POINTER(ctypes.c_int64),
    ctypes.POINTER(ctypes.c_void_p),
)
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_void_p
_capsule_pointer.argtypes = (ctypes.py_object, ctypes.c_char_p)
_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
free = ctypes.CDLL(None).free
free.argtypes = (ctypes.c_void_p,)
free.restype = None


def handles_of(tensors: list[torch.Tensor]) -> list[int]:
    """One new owning handle per tensor."""
    if not tensors:
        return []
    capsules = torch._C._aoti.unsafe_alloc_void_ptrs_from_tensors(tensors)
    return [_capsule_pointer(capsule, None) for capsule in capsules]


def pack(slot: Value, code: str, value: Any, alive: list[Any]) -> None:
    if value is None:
        slot.code = ord("N")
        return
    if code == "S":
        code = "b" if isinstance(value, bool) else "i" if isinstance(value, int) else "d"
    slot.code = ord(code)
    if code in "ibhIB":
        slot.payload = int(value)
    elif code in "dD":
        slot.payload = struct.unpack("q", struct.pack("d", value))[0]
    else:
        kind: Any = {"s": ctypes.c_char, "v": ctypes.c_int64, "w": ctypes.c_double}[code]
        row = (kind * max(1, len(value)))(*value)
        alive.append(row)
        slot.count, slot.payload = len(value), ctypes.addressof(row)


def unpack(values: Any) -> Any:
    head = next(values)
    code = chr(head.code)
    if code == "T":
        return torch._C._aoti.alloc_tensor_by_stealing_from_void_ptr(_new_capsule(head.payload, None, None))
    if code == "N":
        return None
    if code == "i":
        return head.payload
    if code == "b":
        return bool(head.payload)
    if code == "d":
        return struct.unpack("d", struct.pack("q", head.payload))[0]
    if code == "s":
        try:
            return ctypes.string_at(head.payload, head.count).decode()
        finally:
            free(head.payload)
    items = [unpack(values) for _ in range(head.count)]
    return tuple(items) if code == "(" else items


def taken_text(address: int | None) -> str:
    if address is None:
        return "unknown error"
    try:
        return ctypes.string_at(address).decode(errors="replace")
    finally:
        free(address)


def drop_untaken(packed: Any) -> None:
    """Delete the handles that the callee had not taken over when it raised."""
    for slot in packed:
        if slot.code == ord("T") and slot.payload:
            _delete_tensor()(slot.payload)
        elif slot.code == ord("L"):
            for handle in (ctypes.c_void_p * slot.count).from_address(slot.payload):
                if handle:
                    _delete_tensor()(handle)


@functools.cache
def _delete_tensor() -> Any:
    library = ctypes.PyDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
    delete = library.aoti_torch_delete_tensor_object
    delete.argtypes = (ctypes.c_void_p,)
    delete.restype = ctypes.c_int32
    return delete
