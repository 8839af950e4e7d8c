"""Worker side: turn a built shared object into a module-like object with the candidate's functions.

An extension against torch's own headers is an ordinary Python module. One against the facade has a small C
interface (``include/stitch_torch/binding.h``): here its signatures are checked, tensors are handed over as handles of
torch's C interface, and C++ exceptions become Python ones.
"""

from __future__ import annotations

import ast
import ctypes
import functools
import importlib.machinery
import importlib.util
import struct
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from stitchcuda.tools.build.spec import ExtensionSpec

__all__ = ["load_extension"]


class _Value(ctypes.Structure):
    _fields_ = (("code", ctypes.c_int64), ("count", ctypes.c_int64), ("payload", ctypes.c_int64))


class _Function(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("doc", ctypes.c_char_p),
        ("signature", ctypes.c_char_p),
        ("arguments", ctypes.c_char_p),
        ("entry", ctypes.c_void_p),
        ("target", ctypes.c_void_p),
    )


# PYFUNCTYPE keeps the interpreter's lock during the call, as a plain binding does.
_ENTRY = ctypes.PYFUNCTYPE(
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.POINTER(_Value),
    ctypes.POINTER(ctypes.POINTER(_Value)),
    ctypes.POINTER(ctypes.c_int64),
    ctypes.POINTER(ctypes.c_void_p),
)
_RAISES = {2: ValueError, 3: IndexError, 4: TypeError, 5: NotImplementedError}
_NAMES = {
    "T": "Tensor", "O": "Tensor | None", "L": "list[Tensor]", "i": "int", "d": "float", "b": "bool", "s": "str",
    "I": "int | None", "D": "float | None", "B": "bool | None", "v": "list[int]", "w": "list[float]", "h": "dtype",
}  # fmt: skip
_DTYPES = {
    torch.uint8: 0, torch.int8: 1, torch.int16: 2, torch.int32: 3, torch.int64: 4, torch.float16: 5,
    torch.float32: 6, torch.float64: 7, torch.bool: 11, torch.bfloat16: 15,
}  # fmt: skip


class _Mismatch(TypeError):
    """The arguments do not fit this signature; another overload may."""


def load_extension(build: dict[str, Any], spec: ExtensionSpec) -> Any:
    """Load what ``Builder.build`` made.

    Args:
        build: the ``ExtensionBuild`` as a dict.

    Returns:
        A module-like object with the bound functions; for ``python_module=False`` the path, as torch returns it.

    Raises:
        ImportError: the shared object cannot be loaded, for example for an undefined symbol.
    """
    path = str(build["path"])
    if not spec.python_module:
        torch.ops.load_library(path)  # type: ignore[no-untyped-call]
        return path
    if build["headers"] == "torch":
        loader = importlib.machinery.ExtensionFileLoader(spec.name, path)
        found = importlib.util.spec_from_file_location(spec.name, path, loader=loader)
        assert found is not None
        native = importlib.util.module_from_spec(found)
        loader.exec_module(native)
        return native
    return _load_facade(path, spec.name)


def _load_facade(path: str, name: str) -> types.ModuleType:
    try:
        library = ctypes.PyDLL(path)
    except OSError as error:
        raise ImportError(f"cannot load extension {name}: {error}", name=name, path=path) from None
    module = types.ModuleType(name)
    module.__file__ = path
    listed = library.stitch_functions
    listed.restype = ctypes.POINTER(_Function)
    listed.argtypes = (ctypes.POINTER(ctypes.c_int64),)
    count = ctypes.c_int64()
    table = listed(ctypes.byref(count))
    overloads: dict[str, list[_Bound]] = {}
    for index in range(count.value):
        bound = _Bound.read(table[index], ctypes.addressof(table[index]), library)
        overloads.setdefault(bound.name, []).append(bound)
    for function, bounds in overloads.items():
        setattr(module, function, _fast(function, bounds, _callable(function, bounds), library))
    return module


def _fast(name: str, bounds: Sequence[_Bound], slow: Callable[..., Any], library: ctypes.PyDLL) -> Callable[..., Any]:
    """The native caller (``bridge.cpp``) over ``slow``, where the extension has it and the signature suits it."""
    if len(bounds) != 1 or not hasattr(library, "stitch_bridge"):
        return slow
    make = library.stitch_bridge
    make.restype = ctypes.py_object
    make.argtypes = (ctypes.c_size_t, *[ctypes.py_object] * 4)
    aoti = torch._C._aoti
    native: Any = make(
        bounds[0].address,
        slow,
        torch.Tensor,
        aoti.unsafe_alloc_void_ptrs_from_tensors,
        aoti.alloc_tensor_by_stealing_from_void_ptr,
    )
    if native is None:
        return slow
    native.__name__, native.__qualname__, native.__doc__ = name, name, slow.__doc__
    native.library = library  # its code lives in there
    return native  # type: ignore[no-any-return]


def _callable(name: str, bounds: Sequence[_Bound]) -> Callable[..., Any]:
    doc = "\n".join(f"{bound.describe()}\n\n{bound.doc}" for bound in bounds)
    if len(bounds) == 1:
        only = bounds[0]

        def call(*args: Any, **kwargs: Any) -> Any:
            try:
                values = only.bind(args, kwargs)
            except _Mismatch as error:
                raise _wrong_arguments(name, bounds, error) from None
            return only.call(values)
    else:

        def call(*args: Any, **kwargs: Any) -> Any:
            for bound in bounds:
                try:
                    values = bound.bind(args, kwargs)
                except _Mismatch:
                    continue
                return bound.call(values)
            raise _wrong_arguments(name, bounds, None)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = doc
    return call


def _wrong_arguments(name: str, bounds: Sequence[_Bound], error: _Mismatch | None) -> TypeError:
    supported = "".join(f"\n    {number}. {bound.describe()}" for number, bound in enumerate(bounds, start=1))
    detail = f"\n{error}" if error is not None else ""
    return TypeError(
        f"{name}(): incompatible function arguments. The following argument types are supported:{supported}{detail}"
    )


@dataclass(frozen=True)
class _Bound:
    """One overload of one function."""

    name: str
    doc: str
    codes: str
    result: str
    arguments: tuple[str, ...]
    defaults: dict[str, Any]
    entry: Any
    address: int
    library: ctypes.PyDLL
    """Kept so that the code is never unloaded."""

    @classmethod
    def read(cls, raw: _Function, address: int, library: ctypes.PyDLL) -> _Bound:
        codes, _, result = raw.signature.decode().partition(">")
        given = [line.partition("=") for line in raw.arguments.decode().splitlines()]
        names = tuple(name for name, _, _ in given) or tuple(f"arg{i}" for i in range(len(codes)))
        defaults = {name: _literal(value) for name, equals, value in given if equals}
        return cls(
            raw.name.decode(), raw.doc.decode(), codes, result, names, defaults, _ENTRY(raw.entry), address, library
        )

    def describe(self) -> str:
        parts = [
            f"{name}: {_NAMES[code]}" + (f" = {self.defaults[name]!r}" if name in self.defaults else "")
            for name, code in zip(self.arguments, self.codes, strict=False)
        ]
        return f"{self.name}({', '.join(parts)})"

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """One checked Python value per argument, in order."""
        if kwargs or len(args) != len(self.codes):
            args = self._arranged(args, kwargs)
        return [
            _CHECKS[code](value, index, self) for index, (code, value) in enumerate(zip(self.codes, args, strict=True))
        ]

    def _arranged(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        if len(args) > len(self.codes) or len(self.arguments) != len(self.codes):
            raise _Mismatch(f"{len(args)} arguments were given, {len(self.codes)} are expected")
        values = list(args)
        left = dict(kwargs)
        for name in self.arguments[len(args) :]:
            if name in left:
                values.append(left.pop(name))
            elif name in self.defaults:
                values.append(self.defaults[name])
            else:
                raise _Mismatch(f"argument {name!r} is missing")
        if left:
            raise _Mismatch(f"argument {next(iter(left))!r} is unknown or given twice")
        return tuple(values)

    def call(self, values: list[Any]) -> Any:
        """Call the C++ function; every tensor in ``values`` gets a handle that the callee takes over."""
        tensors = [value for value, code in zip(values, self.codes, strict=True) if code in "TO" and value is not None]
        for value, code in zip(values, self.codes, strict=True):
            if code == "L":
                tensors.extend(value)
        handles = iter(_handles_of(tensors))
        packed = (_Value * max(1, len(values)))()
        alive: list[Any] = []
        for slot, code, value in zip(packed, self.codes, values, strict=False):
            if code in "TO" and value is not None:
                slot.code, slot.payload = ord("T"), next(handles)
            elif code != "L":
                _pack(slot, code, value, alive)
        for slot, code, value in zip(packed, self.codes, values, strict=False):
            if code == "L":
                row = (ctypes.c_void_p * max(1, len(value)))(*[next(handles) for _ in value])
                alive.append(row)
                slot.code, slot.count, slot.payload = ord("L"), len(value), ctypes.addressof(row)
        results, count, error = ctypes.POINTER(_Value)(), ctypes.c_int64(), ctypes.c_void_p()
        status = self.entry(self.address, packed, ctypes.byref(results), ctypes.byref(count), ctypes.byref(error))
        if status != 0:
            _drop_untaken(packed)
            raise _RAISES.get(status, RuntimeError)(_taken_text(error.value))
        try:
            return _unpack(iter(results[: count.value]))
        finally:
            _free(results)


def _literal(text: str) -> Any:
    if text.startswith("float('"):
        return float(text[7:-2])
    return ast.literal_eval(text)


# --- checking ---------------------------------------------------------------------------------------------------


def _reject(value: Any, index: int, bound: _Bound) -> _Mismatch:
    wanted = _NAMES[bound.codes[index]]
    return _Mismatch(f"argument {index + 1} ({bound.arguments[index]}) is {type(value).__name__}, expected {wanted}")


def _tensor(value: Any, index: int, bound: _Bound) -> Any:
    if not isinstance(value, torch.Tensor):
        raise _reject(value, index, bound)
    return value


def _tensors(value: Any, index: int, bound: _Bound) -> Any:
    if not isinstance(value, (list, tuple)) or not all(isinstance(item, torch.Tensor) for item in value):
        raise _reject(value, index, bound)
    return list(value)


def _integer(value: Any, index: int, bound: _Bound) -> int:
    if isinstance(value, (float, torch.Tensor)) or not hasattr(value, "__index__"):
        raise _reject(value, index, bound)
    number = int(value.__index__())
    if not -(2**63) <= number < 2**63:
        raise _reject(value, index, bound)
    return number


def _real(value: Any, index: int, bound: _Bound) -> float:
    if not (hasattr(value, "__float__") or hasattr(value, "__index__")):
        raise _reject(value, index, bound)
    return float(value)


def _boolean(value: Any, index: int, bound: _Bound) -> bool:
    if isinstance(value, torch.Tensor) or not hasattr(value, "__bool__"):
        raise _reject(value, index, bound)
    return bool(value)


def _text(value: Any, index: int, bound: _Bound) -> bytes:
    if not isinstance(value, (str, bytes)):
        raise _reject(value, index, bound)
    return value.encode() if isinstance(value, str) else value


def _dtype(value: Any, index: int, bound: _Bound) -> int:
    if not isinstance(value, torch.dtype) or value not in _DTYPES:
        raise _reject(value, index, bound)
    return _DTYPES[value]


def _many(check: Callable[[Any, int, _Bound], Any]) -> Callable[[Any, int, _Bound], Any]:
    def checked(value: Any, index: int, bound: _Bound) -> Any:
        if isinstance(value, (str, bytes, torch.Tensor)) or not hasattr(value, "__iter__"):
            raise _reject(value, index, bound)
        return [check(item, index, bound) for item in value]

    return checked


def _maybe(check: Callable[[Any, int, _Bound], Any]) -> Callable[[Any, int, _Bound], Any]:
    def checked(value: Any, index: int, bound: _Bound) -> Any:
        return None if value is None else check(value, index, bound)

    return checked


_CHECKS: dict[str, Callable[[Any, int, _Bound], Any]] = {
    "T": _tensor,
    "O": _maybe(_tensor),
    "L": _tensors,
    "i": _integer,
    "d": _real,
    "b": _boolean,
    "s": _text,
    "h": _dtype,
    "I": _maybe(_integer),
    "D": _maybe(_real),
    "B": _maybe(_boolean),
    "v": _many(_integer),
    "w": _many(_real),
}


# --- crossing ---------------------------------------------------------------------------------------------------

_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_void_p
_capsule_pointer.argtypes = (ctypes.py_object, ctypes.c_char_p)
_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_free = ctypes.CDLL(None).free
_free.argtypes = (ctypes.c_void_p,)
_free.restype = None


def _handles_of(tensors: list[torch.Tensor]) -> list[int]:
    """One new owning handle per tensor."""
    if not tensors:
        return []
    capsules = torch._C._aoti.unsafe_alloc_void_ptrs_from_tensors(tensors)
    return [_capsule_pointer(capsule, None) for capsule in capsules]


def _pack(slot: _Value, code: str, value: Any, alive: list[Any]) -> None:
    if value is None:
        slot.code = ord("N")
        return
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


def _unpack(values: Any) -> Any:
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
            _free(head.payload)
    items = [_unpack(values) for _ in range(head.count)]
    return tuple(items) if code == "(" else items


def _taken_text(address: int | None) -> str:
    if address is None:
        return "unknown error"
    try:
        return ctypes.string_at(address).decode(errors="replace")
    finally:
        _free(address)


def _drop_untaken(packed: Any) -> None:
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
