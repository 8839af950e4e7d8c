"""Inline PTX → calls of ``stitch::ptx`` functions, for the snippets that candidates use.

In: the tokens of one ``asm`` statement. Out: C++ text for the same place, or ``UnsupportedOnCpu``. Operands stay the
candidate's own expressions. Known: asynchronous copies, ``ldmatrix``, ``mma.sync``, approximate math, conversions,
loads and stores with hints, special registers and predicates around them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from stitchcuda.tools.emulator.brackets import close_of
from stitchcuda.tools.emulator.scanner import Token

__all__ = ["AsmStatement", "parse_asm", "translate"]

_SPECIAL = {"laneid": "::stitch::ptx::lane()", "warpid": "::stitch::ptx::warp()", "smid": "0u", "clock": "0u"}
_SPECIAL |= {f"{name}.{axis}": f"{variable}.{axis}" for axis in "xyz" for name, variable in
             (("tid", "threadIdx"), ("ctaid", "blockIdx"), ("ntid", "blockDim"), ("nctaid", "gridDim"))}  # fmt: skip
_UNARY = {"ex2": "ex2", "lg2": "lg2", "rcp": "rcp", "rsqrt": "rsqrt", "sqrt": "sqrt", "tanh": "tanh", "sin": "sin",
          "cos": "cos", "neg": "neg", "abs": "abs"}  # fmt: skip
_BINARY = {"add": "+", "sub": "-", "mul": "*", "and": "&", "or": "|", "xor": "^"}
_COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_TYPES = {"f32": "float", "f64": "double", "b32": "unsigned", "u32": "unsigned", "s32": "int",
          "b64": "unsigned long long",
          "u64": "unsigned long long", "s64": "long long", "b16": "unsigned short", "u16": "unsigned short",
          "s16": "short", "pred": "bool", "u8": "unsigned char", "s8": "signed char"}  # fmt: skip


@dataclass(frozen=True)
class AsmStatement:
    """``template`` is the joined text; ``operands`` are expressions in order, ``end`` is the last token's index."""

    template: str
    operands: tuple[str, ...]
    end: int
    names: dict[str, int] = field(default_factory=dict)


class _Unknown(Exception):
    pass


def parse_asm(tokens: Sequence[Token], index: int, source: str) -> AsmStatement | None:
    """The statement whose ``asm`` is at ``index``; ``None`` when it is no statement with a text."""
    at = index + 1
    while at < len(tokens) and tokens[at].text in ("volatile", "__volatile__", "goto", "inline"):
        at += 1
    if at + 1 >= len(tokens) or tokens[at].text != "(" or tokens[at + 1].kind != "string":
        return None
    end = close_of(tokens, at)
    if end is None:
        return None
    at += 1
    template = ""
    while tokens[at].kind == "string":
        template += _unquoted(tokens[at].text)
        at += 1
    if at < end and tokens[at].text != ":":
        template += f" {tokens[at].text}"  # a macro makes part of the text: left to be unknown
    operands: list[str] = []
    names: dict[str, int] = {}
    while at < end and len(operands) < 64:
        if tokens[at].text == "[" and tokens[at + 2].text == "]":
            names[tokens[at + 1].text] = len(operands)
            at += 3
            continue
        if tokens[at].kind == "string" and tokens[at + 1].text == "(":
            closed = close_of(tokens, at + 1)
            if closed is None:
                return None
            inside = source[tokens[at + 1].end : tokens[closed].start]
            operands.append(" ".join(inside.replace("\\\n", " ").split()) if "//" not in inside else inside)
            at = closed
        at += 1
    return AsmStatement(template, tuple(operands), end, names)


def _unquoted(text: str) -> str:
    if text.startswith(("R", "u", "U", "L")):
        opened = text.index("(")
        return text[opened + 1 : text.rindex(")")]
    return (
        text[1:-1].replace("\\n", "\n").replace("\\t", " ").replace("\\r", "").replace('\\"', '"').replace("\\\\", "\\")
    )


def translate(statement: AsmStatement, line: int) -> str | None:
    """C++ for the statement, without its ``;``; ``None`` when an instruction is unknown."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", " ", statement.template, flags=re.DOTALL)
    for name, number in statement.names.items():
        text = text.replace(f"%[{name}]", f"%{number}")
    code: list[str] = []
    # Braces around operands are not blocks.
    for part in re.sub(r"^\s*\{|\}\s*$", " ", text.strip()).split(";"):
        part = part.strip()
        while part.startswith("{") and part.count("{") > part.count("}"):
            part = part[1:].strip()
        if part in ("", "}"):
            continue
        try:
            code.append(_instruction(part, statement, line))
        except (_Unknown, IndexError, ValueError):
            return None
    return "{ " + " ".join(code) + " }"


def _instruction(text: str, statement: AsmStatement, line: int) -> str:
    if text.startswith(".reg"):
        _, kind, *names = text.replace(",", " ").split()
        if kind[1:] not in _TYPES or any("<" in name for name in names):
            raise _Unknown(text)
        return " ".join(f"[[maybe_unused]] {_TYPES[kind[1:]]} stitch_{name.lstrip('%')}{{}};" for name in names)
    guard = ""
    if text.startswith("@"):
        predicate, _, text = text[1:].strip().partition(" ")
        negated = predicate.startswith("!")
        guard = f"if ({'!' if negated else ''}{_operand(predicate.lstrip('!'), statement)}) "
    opcode, _, rest = text.strip().partition(" ")
    operands = [part.strip() for part in re.split(r",(?![^{\[]*[}\]])", rest.strip()) if part.strip()]
    return guard + "{ " + _statement(opcode, operands, statement, line) + "; }"


def _operand(text: str, statement: AsmStatement) -> str:
    text = text.strip()
    if match := re.fullmatch(r"%(\d+)", text):
        return f"({statement.operands[int(match[1])]})"
    if match := re.fullmatch(r"%?%([a-z][a-z_]*(?:\.[xyz])?)", text):
        if match[1] in _SPECIAL:
            return _SPECIAL[match[1]]
        return f"stitch_{match[1]}"
    if re.fullmatch(r"-?\d+|0[xX][0-9a-fA-F]+U?", text):
        return text
    if match := re.fullmatch(r"0[fF]([0-9a-fA-F]{8})", text):
        return f"::stitch::bits_as<float>(0x{match[1]}u)"
    if re.fullmatch(r"[A-Za-z_]\w*", text):
        return f"stitch_{text}"
    raise _Unknown(text)


def _list(text: str, statement: AsmStatement) -> list[str]:
    inner = text.strip()
    parts = inner[1:-1].split(",") if inner.startswith("{") else [inner]
    return [_operand(part, statement) for part in parts]


def _address(text: str, statement: AsmStatement, space: str) -> str:
    match = re.fullmatch(r"\[\s*(%?\w+)\s*(?:\+\s*(-?\d+|%\d+)\s*)?\]", text.strip())
    if match is None:
        raise _Unknown(text)
    offset = _operand(match[2], statement) if match[2] else "0"
    return f"::stitch::ptx::{space}_address({_operand(match[1], statement)}, {offset})"


def _statement(opcode: str, operands: list[str], statement: AsmStatement, line: int) -> str:
    words = opcode.split(".")
    head = words[0]

    def value(i: int) -> str:
        return _operand(operands[i], statement)

    if opcode.startswith("cp.async"):
        return _copy(opcode, words, operands, statement, line)
    if head == "ldmatrix" and "m8n8" in words and "b16" in words:
        outputs = _list(operands[0], statement)
        count = next((int(word[1:]) for word in words if re.fullmatch(r"x[124]", word)), 0)
        if count != len(outputs):
            raise _Unknown(opcode)
        trans = "true" if "trans" in words else "false"
        pointers = ", ".join(f"::stitch::ptx::pointer({output})" for output in outputs)
        address = _address(operands[1], statement, "shared")
        call = f"::stitch::ptx::ldmatrix<{count}, {trans}>(stitch_d, {address}, {line})"
        return f"unsigned* stitch_d[] = {{{pointers}}}; {call}"
    if head == "mma" and "sync" in words:
        return _mma(words, operands, statement, line)
    if head in ("ld", "st", "ldu"):
        return _memory(head, words, operands, statement)
    if head == "bar" and words[1:2] == ["sync"] and [o.strip() for o in operands] == ["0"]:
        return f"__syncthreads({line})"
    if head == "barrier" and "sync" in words and [o.strip() for o in operands] == ["0"]:
        return f"__syncthreads({line})"
    if opcode == "bar.warp.sync":
        return f"__syncwarp({value(0)}, {line})"
    if head in ("membar", "fence"):
        if "proxy" in opcode or "cluster" in opcode or "mbarrier" in opcode:
            raise _Unknown(opcode)
        return "__threadfence_block()" if "cta" in words else "__threadfence()"
    if head in ("prefetch", "prefetchu", "griddepcontrol", "discard"):
        return "(void)0"
    if head == "setp" and words[1] in _COMPARE and len(words) == 3:
        kind = _TYPES[words[2]]
        return f"{value(0)} = static_cast<{kind}>({value(1)}) {_COMPARE[words[1]]} static_cast<{kind}>({value(2)})"
    if head in ("mov", "cvta"):
        if head == "cvta" and "shared" in words:
            if "to" not in words:
                raise _Unknown(opcode)
            return f"{value(0)} = __cvta_generic_to_shared(reinterpret_cast<const void*>({value(1)}))"
        return f"::stitch::ptx::move({value(0)}, {value(1)})"
    if head == "cvt":
        return _convert(words[1:], operands, statement)
    kind = words[-1]
    if head in _UNARY and kind == "f32":
        return f"::stitch::ptx::put({value(0)}, ::stitch::ptx::{_UNARY[head]}(::stitch::ptx::as_float({value(1)})))"
    if head in ("fma", "mad") and kind in ("f32", "f64"):
        return f"{value(0)} = fma({value(1)}, {value(2)}, {value(3)})"
    if (
        head in ("add", "sub", "mul")
        and kind in ("f32", "f64", "u32", "s32", "b32", "u64", "s64")
        and "wide" not in words
    ):
        if "hi" in words or "cc" in words:
            raise _Unknown(opcode)
        cast = _TYPES[kind]
        return f"{value(0)} = static_cast<{cast}>({value(1)}) {_BINARY[head]} static_cast<{cast}>({value(2)})"
    if head in ("and", "or", "xor") and kind in ("b32", "b64"):
        return f"{value(0)} = {value(1)} {_BINARY[head]} {value(2)}"
    if head in ("min", "max") and kind in ("f32", "s32", "u32") and len(words) == 2:
        return f"{value(0)} = {head}({value(1)}, {value(2)})"
    if head == "shl" and kind == "b32":
        return f"{value(0)} = {value(1)} << {value(2)}"
    if head == "lop3" and kind == "b32":
        return f"{value(0)} = ::stitch::ptx::lop3({value(1)}, {value(2)}, {value(3)}, {value(4)})"
    if opcode == "prmt.b32":
        return f"{value(0)} = __byte_perm({value(1)}, {value(2)}, {value(3)})"
    if head == "red" and "add" in words and kind in ("f32", "u32", "s32") and "global" in words:
        address = _address(operands[0], statement, "global")
        return f"atomicAdd(reinterpret_cast<{_TYPES[kind]}*>({address}), {value(1)})"
    raise _Unknown(opcode)


def _copy(opcode: str, words: list[str], operands: list[str], statement: AsmStatement, line: int) -> str:
    if opcode == "cp.async.commit_group":
        return "::stitch::commit_copies()"
    if opcode == "cp.async.wait_group":
        return f"::stitch::wait_for_copies({_operand(operands[0], statement)})"
    if opcode == "cp.async.wait_all":
        return "::stitch::commit_copies(); ::stitch::wait_for_copies(0)"
    if words[2] not in ("ca", "cg") or "global" not in words or "bulk" in words:
        raise _Unknown(opcode)
    to, source = _address(operands[0], statement, "shared"), _address(operands[1], statement, "global")
    size = _operand(operands[2], statement)
    # A fourth operand is how many bytes are read, unless it is a cache policy.
    if len(operands) > 3 and "cache_hint" not in opcode:
        zeros = f"{size} - static_cast<int>({_operand(operands[3], statement)})"
    else:
        zeros = "0"
    return f"::stitch::copy_later({to}, {source}, {size}, {zeros}, {line})"


def _mma(words: list[str], operands: list[str], statement: AsmStatement, line: int) -> str:
    shape = next(word for word in words if re.fullmatch(r"m\d+n\d+k\d+", word))
    if words[-6:-4] != ["row", "col"]:
        raise _Unknown("mma layout")
    to, a, b, c = words[-4:]
    depths = {"f16": (8, 16), "bf16": (8, 16), "tf32": (4, 8)}
    depth = int(shape.partition("k")[2])
    if not shape.startswith("m16n8k") or a != b or to != c or a not in depths or depth not in depths[a]:
        raise _Unknown(shape)
    if to not in ("f32", "f16") or (to == "f16" and a != "f16"):
        raise _Unknown(to)
    lists = [_list(operand, statement) for operand in operands]
    per_lane = depth // 8 if a != "tf32" else depth // 4
    if [len(part) for part in lists] != [4 if to == "f32" else 2, 2 * per_lane, per_lane, 4 if to == "f32" else 2]:
        raise _Unknown("mma operands")
    kind = {"f16": "Half", "bf16": "Bfloat", "tf32": "Tf32"}[a]
    outputs = ", ".join(f"::stitch::ptx::pointer({output})" for output in lists[0])
    inputs = [", ".join(f"::stitch::ptx::bits({value})" for value in part) for part in lists[1:]]
    return (
        f"unsigned* stitch_d[] = {{{outputs}}}; "
        f"const unsigned stitch_a[] = {{{inputs[0]}}}, stitch_b[] = {{{inputs[1]}}}, "
        f"stitch_c[] = {{{inputs[2]}}}; ::stitch::ptx::mma<::stitch::ptx::{kind}, {depth}, {str(to == 'f32').lower()}>"
        f"(stitch_d, stitch_a, stitch_b, stitch_c, {line})"
    )


def _memory(head: str, words: list[str], operands: list[str], statement: AsmStatement) -> str:
    kind = _TYPES.get(words[-1])
    if kind is None or kind == "bool" or "acquire" in words or "release" in words:
        raise _Unknown(head)
    space = "shared" if any(word.startswith("shared") for word in words) else "global"
    if space == "global" and not {"global", "nc"} & set(words):
        raise _Unknown("generic address")
    address = _address(operands[1 if head != "st" else 0], statement, space)
    values = _list(operands[0 if head != "st" else 1], statement)
    count = next((int(word[1:]) for word in words if word in ("v2", "v4")), 1)
    if count != len(values):
        raise _Unknown("vector")
    whole = f"auto* stitch_at = ::stitch::ptx::aligned<{kind}, {count}>({address}); "
    if head == "st":
        return whole + "; ".join(f"::stitch::ptx::put(stitch_at[{i}], {value})" for i, value in enumerate(values))
    return whole + "; ".join(f"::stitch::ptx::put({value}, stitch_at[{i}])" for i, value in enumerate(values))


def _convert(words: list[str], operands: list[str], statement: AsmStatement) -> str:
    names = [_operand(operand, statement) for operand in operands]
    kinds = [word for word in words if word not in ("rn", "rna", "rz", "satfinite", "ftz", "relu")]
    if kinds == ["tf32", "f32"] and "rna" in words:
        return f"::stitch::ptx::put({names[0]}, ::stitch::ptx::to_tf32({names[1]}))"
    if kinds in (["f16x2", "f32"], ["bf16x2", "f32"]) and "rn" in words:
        pack = "Half" if kinds[0] == "f16x2" else "Bfloat"
        return f"{names[0]} = ::stitch::ptx::pack<::stitch::ptx::{pack}>({names[2]}, {names[1]})"
    if len(kinds) == 2 and all(kind in _TYPES and kind[0] in "us" for kind in kinds):
        return f"{names[0]} = static_cast<{_TYPES[kinds[0]]}>(static_cast<{_TYPES[kinds[1]]}>({names[1]}))"
    raise _Unknown("cvt")
