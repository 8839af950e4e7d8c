"""Kernel names as compilers mangle them and as profilers print them, reduced to what both share. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = ["count_own", "kernel_base_name"]

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")


def count_own(ran: Iterable[str], own: set[str]) -> int:
    """How many of the kernels that ``ran`` (as the profiler names them) have a base name in ``own``."""
    return sum(kernel_base_name(name) in own for name in ran)


def kernel_base_name(name: str) -> str:
    """The bare function name of a mangled or demangled kernel name.

    >>> kernel_base_name("_ZN3foo8add_rowsIfLi4EEEvPKfPfi")
    'add_rows'
    >>> kernel_base_name("void foo::add_rows<float, 4>(float const*, float*, int)")
    'add_rows'
    """
    if name.startswith("_Z"):
        parts: list[str] = []
        at = 2 + (name[2:3] == "L")
        while at < len(name) and name[at] in "NKrVLS":
            at += 1
        while match := re.match(r"L?(\d+)", name[at:]):
            start = at + match.end()
            end = start + int(match.group(1))
            parts.append(name[start:end])
            at = end
        return parts[-1] if parts else name
    head = name.partition("(anonymous namespace)::")
    text = head[2] if head[1] else name
    text = text.partition("(")[0]
    text = _without_templates(text).strip()
    found = _IDENTIFIER.findall(text)
    return str(found[-1]) if found else name


def _without_templates(text: str) -> str:
    depth, kept = 0, []
    for character in text:
        depth += character == "<"
        if depth == 0:
            kept.append(character)
        depth -= character == ">" and depth > 0
    return "".join(kept)
