"""What a candidate asked to be built: the arguments of one ``load_inline`` or ``load`` call."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["ExtensionSpec"]


@dataclass(frozen=True)
class ExtensionSpec:
    """One extension, as text: no path of the candidate's machine is needed to build it.

    ``inline`` tells the two forms apart: ``load_inline`` joins the sources of a kind into one file and binds
    ``functions``; ``load`` compiles each file on its own, and the files bind themselves.
    """

    name: str
    cpp_sources: tuple[str, ...] = ()
    cuda_sources: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    extra_cflags: tuple[str, ...] = ()
    extra_cuda_cflags: tuple[str, ...] = ()
    extra_ldflags: tuple[str, ...] = ()
    extra_include_paths: tuple[str, ...] = ()
    inline: bool = True
    cpp_names: tuple[str, ...] = ()
    """File names to show in diagnostics, one per source; made from ``name`` when empty."""
    cuda_names: tuple[str, ...] = ()
    docs: tuple[str, ...] = ()
    """Docstrings of ``functions``; empty, or one each."""
    python_module: bool = True
    """False: loaded for its ``TORCH_LIBRARY`` registrations only."""

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self), ensure_ascii=False, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> ExtensionSpec:
        """Read ``to_json``'s form back.

        Raises:
            ValueError: the text is not of this form; it may come from an untrusted process.
        """
        value = json.loads(text)
        if not isinstance(value, dict):
            raise ValueError("an extension spec is a JSON object")
        fields = {field.name: field.type for field in dataclasses.fields(cls)}
        if unknown := sorted(set(value) - set(fields)):
            raise ValueError(f"unknown field in an extension spec: {unknown[0]}")
        checked: dict[str, Any] = {}
        for name, given in value.items():
            kind = fields[name]
            if (kind == "str" and isinstance(given, str)) or (kind == "bool" and isinstance(given, bool)):
                checked[name] = given
            elif str(kind).startswith("tuple") and isinstance(given, list) and all(isinstance(x, str) for x in given):
                checked[name] = tuple(given)
            else:
                raise ValueError(f"field {name} of an extension spec has the wrong type")
        if "name" not in checked:
            raise ValueError("an extension spec needs a name")
        return cls(**checked)

    def digest(self, target: str, toolchain: Mapping[str, str]) -> str:
        """Hex SHA-256 over everything that the built file depends on.

        Args:
            toolchain: versions of compiler, torch and headers, as ``Toolchain.identity`` gives them.
        """
        text = json.dumps([self.to_json(), target, sorted(toolchain.items())])
        return hashlib.sha256(text.encode()).hexdigest()

    def shown_cpp_names(self) -> tuple[str, ...]:
        return self.cpp_names or _numbered(self.name, ".cpp", len(self.cpp_sources))

    def shown_cuda_names(self) -> tuple[str, ...]:
        return self.cuda_names or _numbered(self.name, ".cu", len(self.cuda_sources))


def _numbered(name: str, suffix: str, count: int) -> tuple[str, ...]:
    return tuple(f"{name}{suffix}" if i == 0 else f"{name}_{i}{suffix}" for i in range(count))
