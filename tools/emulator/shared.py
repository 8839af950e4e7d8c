"""``__shared__`` declarations → references into the memory of the running block.

``__shared__ float a[32], b;`` becomes a typedef of the same shape, ``typedef float stitch_shared_a[32],
stitch_shared_b;``, followed on the same line by one reference per name; so a declarator keeps its meaning.
"""

from __future__ import annotations

from collections.abc import Sequence

from stitchcuda.tools.emulator.brackets import close_of
from stitchcuda.tools.emulator.scanner import Lines, Token
from stitchcuda.tools.emulator.splice import Splices
from stitchcuda.tools.emulator.unsupported import UnsupportedOnCpu

__all__ = ["rewrite_shared"]

_DROPPED = {"__shared__", "extern", "static", "inline", "constexpr"}
_ALIGNMENTS = {"__align__", "alignas", "__builtin_align__"}
_TYPE_WORDS = {
    "const",
    "volatile",
    "unsigned",
    "signed",
    "char",
    "short",
    "int",
    "long",
    "float",
    "double",
    "bool",
    "auto",
    "struct",
    "union",
    "class",
    "typename",
}
_FORM = "this form of a __shared__ declaration"


def rewrite_shared(tokens: Sequence[Token], lines: Lines, splices: Splices) -> None:
    for index, token in enumerate(tokens):
        if token.kind == "name" and token.text == "__shared__":
            if _is_macro_name(tokens, index):
                raise UnsupportedOnCpu(_FORM, lines(token.start))
            _rewrite_declaration(tokens, index, lines, splices)


def _is_macro_name(tokens: Sequence[Token], index: int) -> bool:
    """``#define __shared__`` or ``#ifdef __shared__``."""
    return (
        tokens[index].directive != 0 and index > 0 and tokens[index - 1].text in ("define", "undef", "ifdef", "ifndef")
    )


def _rewrite_declaration(tokens: Sequence[Token], index: int, lines: Lines, splices: Splices) -> None:
    line = lines(tokens[index].start)
    directive = tokens[index].directive
    begin = index
    while begin > 0 and tokens[begin - 1].directive == directive and tokens[begin - 1].kind == "name":
        if directive and tokens[begin - 2].text == "define":
            break  # `#define NAME __shared__ …`
        if tokens[begin - 1].text in ("else", "do", "return"):
            break
        begin -= 1
    semicolon = _declaration_end(tokens, begin, directive)
    if semicolon is None:
        raise UnsupportedOnCpu(_FORM, line)
    is_extern = any(token.text == "extern" for token in tokens[begin : index + 1])
    alignment = "0"
    names: list[Token] = []
    at, previous = begin, None
    angle = 0
    while at < semicolon:
        token = tokens[at]
        if token.kind == "name" and token.text in _DROPPED:
            splices.replace(token.start, token.end, "")
        elif token.kind == "name" and token.text in (*_ALIGNMENTS, "__attribute__"):
            closed = close_of(tokens, at + 1) if tokens[at + 1].text == "(" else None
            if closed is None:
                raise UnsupportedOnCpu(_FORM, line)
            if token.text in _ALIGNMENTS:
                alignment = " ".join(part.text for part in tokens[at + 2 : closed])
                if alignment and tokens[at + 2].kind == "name":
                    alignment = f"alignof({alignment})" if tokens[at + 2].text in _TYPE_WORDS else alignment
            splices.replace(token.start, tokens[closed].end, "")
            at = closed
        elif token.text in ("(", "{"):
            closed = close_of(tokens, at)
            if closed is None or (
                token.text == "(" and angle == 0 and (previous is None or previous.text != "decltype")
            ):
                raise UnsupportedOnCpu(_FORM, line)
            at, previous = closed, tokens[closed]
        elif token.text == "[":
            closed = close_of(tokens, at)
            if closed is None:
                raise UnsupportedOnCpu(_FORM, line)
            if previous is not None and angle == 0:
                _add_name(names, previous, line)
            at, previous = closed, None
        elif token.text == "<":
            angle += 1
            previous = None
        elif token.text == ">":
            angle -= 1
            previous = None
        elif token.text == "," and angle == 0:
            if previous is not None:
                _add_name(names, previous, line)
            previous = None
        elif token.text == "=" and angle == 0:
            raise UnsupportedOnCpu("an initialised __shared__ variable", line)
        else:
            previous = token
        at += 1
    if previous is not None:
        _add_name(names, previous, line)
    if not names:
        raise UnsupportedOnCpu(_FORM, line)
    # In a macro the name may be a parameter: pasted, it is still replaced.
    prefix = "stitch_shared_##" if directive else "stitch_shared_"
    for name in names:
        splices.insert(name.start, prefix)
    splices.insert(tokens[begin].start, "typedef ")
    references = "; ".join(_reference(name.text, prefix, alignment, line, is_extern=is_extern) for name in names)
    if semicolon < len(tokens) and tokens[semicolon].text == ";":
        splices.insert(tokens[semicolon].end, f" {references};")
    else:
        splices.insert(tokens[semicolon - 1].end, f"; {references}")


def _reference(name: str, prefix: str, alignment: str, line: int, *, is_extern: bool) -> str:
    if is_extern:
        return f"[[maybe_unused]] auto& {name} = ::stitch::DynamicShared<{prefix}{name}>::get()"
    return (
        f"auto& {name} = []() -> auto& {{ static ::stitch::Slot stitch_slot;"
        f' return stitch_slot.template get<{prefix}{name}>({alignment}, "{name}", {line}); }}()'
    )


def _declaration_end(tokens: Sequence[Token], at: int, directive: int) -> int | None:
    """The index of the declaration's ``;``, or just behind a macro's text that leaves it to the macro's user."""
    while at < len(tokens) and tokens[at].directive == directive:
        if tokens[at].text in ("(", "[", "{"):
            closed = close_of(tokens, at)
            if closed is None:
                return None
            at = closed
        elif tokens[at].text == ";":
            return at
        elif tokens[at].text in (")", "]", "}"):
            return None
        at += 1
    return at if directive else None


def _add_name(names: list[Token], token: Token, line: int) -> None:
    if token.kind != "name" or token.text in _TYPE_WORDS:
        raise UnsupportedOnCpu(_FORM, line)
    names.append(token)
