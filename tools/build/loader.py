"""Worker side: turn a built shared object into a module-like object with the candidate's functions.

An extension against torch's own headers is an ordinary Python module. One against the facade has a small C
interface (``include/stitch_torch/binding.h``): here its signatures are checked, tensors are handed over as handles of
torch's C interface, and C++ exceptions become Python ones.
"""

from __future__ import annotations

import ast
import ctypes
import importlib.machinery
import importlib.util
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from stitchcuda.tools.build.crossing import (
    ENTRY,
    Function,
    Value,
    drop_untaken,
    free,
    handles_of,
    pack,
    taken_text,
    unpack,
)
from stitchcuda.tools.build.signatures import NAMES, Mismatch, checked
from stitchcuda.tools.build.spec import ExtensionSpec

__all__ = ["load_extension"]

_RAISES: dict[int, type[Exception]] = {
    2: ValueError, 3: IndexError, 4: TypeError, 5: NotImplementedError, 6: torch.OutOfMemoryError,
}  # fmt: skip


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
    listed.restype = ctypes.POINTER(Function)
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
    make.argtypes = (ctypes.c_size_t, *[ctypes.py_object] * 5)
    aoti = torch._C._aoti
    native: Any = make(
        bounds[0].address,
        slow,
        torch.Tensor,
        aoti.unsafe_alloc_void_ptrs_from_tensors,
        aoti.alloc_tensor_by_stealing_from_void_ptr,
        torch.OutOfMemoryError,
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
            except Mismatch as error:
                raise _wrong_arguments(name, bounds, error) from None
            return only.call(values)
    else:

        def call(*args: Any, **kwargs: Any) -> Any:
            for bound in bounds:
                try:
                    values = bound.bind(args, kwargs)
                except Mismatch:
                    continue
                return bound.call(values)
            raise _wrong_arguments(name, bounds, None)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = doc
    return call


def _wrong_arguments(name: str, bounds: Sequence[_Bound], error: Mismatch | None) -> TypeError:
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
    def read(cls, raw: Function, address: int, library: ctypes.PyDLL) -> _Bound:
        codes, _, result = raw.signature.decode().partition(">")
        given = [line.partition("=") for line in raw.arguments.decode().splitlines()]
        names = tuple(name for name, _, _ in given) or tuple(f"arg{i}" for i in range(len(codes)))
        defaults = {name: _literal(value) for name, equals, value in given if equals}
        return cls(
            raw.name.decode(), raw.doc.decode(), codes, result, names, defaults, ENTRY(raw.entry), address, library
        )

    def describe(self) -> str:
        parts = [
            f"{name}: {NAMES[code]}" + (f" = {self.defaults[name]!r}" if name in self.defaults else "")
            for name, code in zip(self.arguments, self.codes, strict=False)
        ]
        return f"{self.name}({', '.join(parts)})"

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """One checked Python value per argument, in order."""
        if kwargs or len(args) != len(self.codes):
            args = self._arranged(args, kwargs)
        return checked(self.codes, self.arguments, args)

    def _arranged(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        if len(args) > len(self.codes) or len(self.arguments) != len(self.codes):
            raise Mismatch(f"{len(args)} arguments were given, {len(self.codes)} are expected")
        values = list(args)
        left = dict(kwargs)
        for name in self.arguments[len(args) :]:
            if name in left:
                values.append(left.pop(name))
            elif name in self.defaults:
                values.append(self.defaults[name])
            else:
                raise Mismatch(f"argument {name!r} is missing")
        if left:
            raise Mismatch(f"argument {next(iter(left))!r} is unknown or given twice")
        return tuple(values)

    def call(self, values: list[Any]) -> Any:
        """Call the C++ function; every tensor in ``values`` gets a handle that the callee takes over."""
        tensors = [value for value, code in zip(values, self.codes, strict=True) if code in "TO" and value is not None]
        for value, code in zip(values, self.codes, strict=True):
            if code == "L":
                tensors.extend(value)
        handles = iter(handles_of(tensors))
        packed = (Value * max(1, len(values)))()
        alive: list[Any] = []
        for slot, code, value in zip(packed, self.codes, values, strict=False):
            if code in "TO" and value is not None:
                slot.code, slot.payload = ord("T"), next(handles)
            elif code != "L":
                pack(slot, code, value, alive)
        for slot, code, value in zip(packed, self.codes, values, strict=False):
            if code == "L":
                row = (ctypes.c_void_p * max(1, len(value)))(*[next(handles) for _ in value])
                alive.append(row)
                slot.code, slot.count, slot.payload = ord("L"), len(value), ctypes.addressof(row)
        results, count, error = ctypes.POINTER(Value)(), ctypes.c_int64(), ctypes.c_void_p()
        status = self.entry(self.address, packed, ctypes.byref(results), ctypes.byref(count), ctypes.byref(error))
        if status != 0:
            drop_untaken(packed)
            raise _RAISES.get(status, RuntimeError)(taken_text(error.value))
        try:
            return unpack(iter(results[: count.value]))
        finally:
            free(results)


def _literal(text: str) -> Any:
    if text.startswith("float('"):
        return float(text[7:-2])
    return ast.literal_eval(text)
