"""``kernel<<<grid, block, shared, stream>>>(arguments)`` → a call of ``stitch::launcher``.

The order of the parts stays, only text between them is put in, so that every part keeps its line.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from stitchcuda.tools.emulator.brackets import angle_open, close_of, open_of
from stitchcuda.tools.emulator.scanner import Lines, Token
from stitchcuda.tools.emulator.splice import Splices
from stitchcuda.tools.emulator.unsupported import UnsupportedOnCpu

__all__ = ["Kernel", "find_kernels", "rewrite_launches"]

# Words between `__global__` and a kernel's name that are followed by `(`.
_BY_POINTER = ("cudaLaunchKernel", "cudaLaunchCooperativeKernel")
_ATTRIBUTES = {"__launch_bounds__", "__attribute__", "__maxnreg__", "__cluster_dims__", "__block_size__", "alignas"}


@dataclass(frozen=True, slots=True)
class Kernel:
    """A ``__global__`` function; ``body`` are the token indices of its braces, or ``None`` for a declaration."""

    name: str
    body: tuple[int, int] | None


def find_kernels(tokens: Sequence[Token]) -> list[Kernel]:
    kernels = []
    for index, token in enumerate(tokens):
        if token.kind == "name" and token.text == "__global__":
            kernel = _kernel_at(tokens, index + 1)
            if kernel is not None:
                kernels.append(kernel)
    return kernels


def _kernel_at(tokens: Sequence[Token], at: int) -> Kernel | None:
    name = ""
    while at < len(tokens):
        token = tokens[at]
        if token.text in (";", "{", "}"):
            return None
        if (
            token.kind == "name"
            and token.text in _ATTRIBUTES
            and tokens[at + 1 : at + 2]
            and tokens[at + 1].text == "("
        ):
            closed = close_of(tokens, at + 1)
            if closed is None:
                return None
            at = closed + 1
            continue
        if token.kind == "name":
            name = "*" if tokens[at - 1].text == "#" else token.text  # pasted in a macro: known to its users only
        elif token.text == "(" and name:
            closed = close_of(tokens, at)
            if closed is None:
                return None
            if closed + 1 < len(tokens) and tokens[closed + 1].text == "{":
                end = close_of(tokens, closed + 1)
                return Kernel(name, None if end is None else (closed + 1, end))
            return Kernel(name, None)
        elif token.text == "<" and name:  # an explicit specialisation: the arguments are not the name
            depth = 0
            while at < len(tokens):
                depth += (tokens[at].text == "<") - (tokens[at].text == ">")
                if depth == 0:
                    break
                at += 1
        at += 1
    return None


def rewrite_launches(tokens: Sequence[Token], lines: Lines, kernels: Sequence[Kernel], splices: Splices) -> None:
    names = {kernel.name for kernel in kernels} - {"*"}
    bodies = [kernel.body for kernel in kernels if kernel.body is not None]
    for index in range(len(tokens) - 2):
        if _adjacent(tokens, index, "<"):
            if any(begin < index < end for begin, end in bodies):
                raise UnsupportedOnCpu(
                    "a launch from inside a kernel (dynamic parallelism)", lines(tokens[index].start)
                )
            _rewrite_launch(tokens, index, lines, names, splices)
        elif tokens[index].text == "cudaFuncSetAttribute" and tokens[index + 1].text == "(":
            name = _base_name(tokens, index + 2, names)
            splices.replace(tokens[index].start, tokens[index].end, "::stitch::set_function_attribute")
            splices.insert(tokens[index + 1].end, f'"{name}", ')
        elif tokens[index].text in _BY_POINTER and tokens[index + 1].text == "(":
            _rewrite_pointer_launch(tokens, index, lines(tokens[index].start), names, splices)


def _rewrite_pointer_launch(
    tokens: Sequence[Token], index: int, line: int, names: Collection[str], splices: Splices
) -> None:
    """``cudaLaunchKernel((void*)kernel, …)``: without the cast, which would lose the kernel's type."""
    at = index + 2
    texts = [token.text for token in tokens[at : at + 6]]
    for cast in (["(", "void", "*", ")"], ["(", "const", "void", "*", ")"]):
        if texts[: len(cast)] == cast:
            splices.replace(tokens[at].start, tokens[at + len(cast) - 1].end, "")
            at += len(cast)
            break
    else:
        if texts[:5] == ["reinterpret_cast", "<", "void", "*", ">"]:
            splices.replace(tokens[at].start, tokens[at + 4].end, "")
    name = _base_name(tokens, at + (tokens[at].text == "&"), names)
    cooperative = "true" if "Cooperative" in tokens[index].text else "false"
    splices.replace(tokens[index].start, tokens[index].end, "::stitch::launch_kernel")
    splices.insert(tokens[index + 1].end, f'{cooperative}, "{name}", {line}, ')


def _adjacent(tokens: Sequence[Token], index: int, text: str) -> bool:
    three = tokens[index : index + 3]
    return (
        len(three) == 3
        and all(token.kind == "punct" and token.text == text for token in three)
        and three[0].end == three[1].start
        and three[1].end == three[2].start
        and not (index > 0 and tokens[index - 1].text == text and tokens[index - 1].end == three[0].start)
    )


def _rewrite_launch(
    tokens: Sequence[Token], index: int, lines: Lines, names: Collection[str], splices: Splices
) -> None:
    line = lines(tokens[index].start)
    begin = _expression_begin(tokens, index - 1)
    close = _config_end(tokens, index + 3)
    if begin is None or close is None or close + 3 >= len(tokens) or tokens[close + 3].text != "(":
        raise UnsupportedOnCpu("this form of a kernel launch", line)
    end = close_of(tokens, close + 3)
    if end is None:
        raise UnsupportedOnCpu("this form of a kernel launch", line)
    name = _base_name(tokens, begin, names, index)
    shown = " ".join(token.text for token in tokens[begin:index] if token.kind != "string").replace(" :: ", "::")
    shown = shown.replace(" < ", "<").replace(" >", ">").replace(" ,", ",").replace("\\", "")
    if name == "*" and tokens[index].directive:
        # In a macro the kernel may be a parameter, and so a template without an address.
        pasted = " ".join(token.text for token in tokens[begin:index] if token.text != "\\")
        splices.insert(
            tokens[begin].start, f'::stitch::launcher("*" STITCH_TEXT({pasted.replace("# #", "##")}), {line}, '
        )
    elif name == "*":
        # Through a variable: its address tells which kernel cudaFuncSetAttribute meant.
        variable = " ".join(token.text for token in tokens[begin:index])
        splices.insert(tokens[begin].start, f'::stitch::launcher("{shown}", {line}, (const void*)({variable}), ')
    else:
        splices.insert(tokens[begin].start, f'::stitch::launcher("{name}", {line}, ')
    splices.insert(tokens[begin].start, "[&](auto&... stitch_a) { ")
    splices.replace(tokens[index].start, tokens[index + 2].end, "(stitch_a...); }).config(")
    splices.replace(tokens[close].start, tokens[close + 2].end, ")")
    for token in tokens[close + 4 : end]:
        if token.kind == "name" and token.text == "NULL":
            splices.replace(token.start, token.end, "nullptr")


def _config_end(tokens: Sequence[Token], at: int) -> int | None:
    """The index of the first ``>`` of the ``>>>`` that ends a launch configuration begun before ``at``."""
    while at < len(tokens):
        token = tokens[at]
        if token.kind == "punct" and token.text in "([{":
            closed = close_of(tokens, at)
            if closed is None:
                return None
            at = closed
        elif token.kind == "punct" and token.text in ")]};":
            return None
        elif (
            token.text == ">"
            and at + 3 < len(tokens)
            and tokens[at + 1].text == ">"
            and tokens[at + 2].text == ">"
            and tokens[at + 3].text == "("
            and token.end == tokens[at + 1].start
            and tokens[at + 1].end == tokens[at + 2].start
        ):
            return at
        at += 1
    return None


def _expression_begin(tokens: Sequence[Token], at: int) -> int | None:
    """The first token of the expression that ends at ``at``: ``ns::kernel<T, 4>``, ``table[i]``, ``(*pointer)``."""
    while at >= 0:
        token = tokens[at]
        if token.text == ">":
            opened = angle_open(tokens, at)
            if opened is None or opened == 0:
                return None
            at = opened - 1
            continue
        if token.text in ("]", ")"):
            opened = open_of(tokens, at)
            if opened is None:
                return None
            if token.text == ")":
                return opened
            at = opened - 1
            continue
        if token.kind != "name":
            return None
        if at >= 1 and tokens[at - 1].text == "template":
            at -= 1
        if at >= 3 and token.directive and tokens[at - 1].text == "#" and tokens[at - 2].text == "#":  # NAME##_kernel
            at -= 3
            continue
        if at >= 2 and tokens[at - 1].text == ":" and tokens[at - 2].text == ":":
            if (
                at >= 3
                and (tokens[at - 3].kind == "name" or tokens[at - 3].text == ">")
                and tokens[at - 3].text
                not in (
                    "return",
                    "else",
                    "do",
                )
            ):
                at -= 3
                continue
            return at - 2
        if at >= 1 and tokens[at - 1].text == ".":
            at -= 2
            continue
        if at >= 2 and tokens[at - 1].text == ">" and tokens[at - 2].text == "-":
            at -= 3
            continue
        return at
    return None


def _base_name(tokens: Sequence[Token], begin: int, names: Collection[str], end: int | None = None) -> str:
    """The name of the kernel that an expression begins with, ``*`` if it is none of this file's kernels."""
    at = begin
    stop = len(tokens) if end is None else end
    while at < stop and tokens[at].text not in (",", ";", "<"):
        if tokens[at].kind == "name" and tokens[at].text in names:
            return tokens[at].text
        at += 1
    return "*"
