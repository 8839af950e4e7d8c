"""Pure parsers of what g++, nvcc's front end and ptxas print.

Comes in: text of a compiler. Goes out: ``Diagnostic`` records in the candidate's own lines, the first cause first,
each message once, without the trail of template instantiations; registers, shared memory and spills per kernel.
"""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from dataclasses import dataclass

from stitchcuda.core.records import Diagnostic

__all__ = ["KernelUse", "curable", "parse_diagnostics", "parse_ptxas"]

LIMIT = 20
"""Messages kept of one build; compilers repeat themselves after the first few."""

_GCC = re.compile(
    r"^(?P<file>[^\s:][^:\n]*):(?P<line>\d+):(?:\d+:)? (?P<kind>fatal error|error|warning): (?P<text>.*)$"
)
_CUDAFE = re.compile(
    r"^(?P<file>[^\s(][^(\n]*)\((?P<line>\d+)\): (?P<kind>error|warning|catastrophic error)"
    r"(?: #(?P<code>\d+)(?:-D)?)?: (?P<text>.*)$"
)
_PTXAS = re.compile(
    r"^ptxas (?:(?P<file>[^,\n]+), line (?P<line>\d+); )?(?P<kind>fatal|error|warning)\s*: (?P<text>.*)$"
)
_LINK = re.compile(r"^.*?: (?:undefined reference to|multiple definition of) .*$")
_NVCC = re.compile(r"^nvcc (?P<kind>fatal|error|warning)\s*: (?P<text>.*)$")
_REQUIRED_FROM = re.compile(
    r"^(?P<file>[^\s:][^:\n]*):(?P<line>\d+):(?:\d+:)?\s+(?:required from(?: here)?|recursively required from)"
)
_DETECTED_DURING = re.compile(r"at line (?P<line>\d+)(?: of (?P<file>\S+))?")
_IN_HEADER = re.compile(r" \(in [^()]+:\d+\)$")
_FLAG = re.compile(r" \[(-W[\w=+-]+|-fpermissive)\]$")


@dataclass(frozen=True)
class KernelUse:
    """What ptxas says about one kernel, by its mangled name."""

    registers: int
    shared_bytes: int = 0
    spill_store_bytes: int = 0
    spill_load_bytes: int = 0
    stack_bytes: int = 0


def parse_diagnostics(text: str, files: Sequence[str]) -> tuple[Diagnostic, ...]:
    """Parse a compiler's output.

    Args:
        files: names of the candidate's files as its ``#line`` directives give them. A message about another file
            (a header) is told at the candidate's line that led there, when the compiler names one.
    """
    own = set(files)
    found: list[Diagnostic] = []
    seen: set[tuple[str, str, int | None]] = set()
    lines = text.splitlines()
    pending: tuple[str, int] | None = None  # the candidate's line in g++'s trail above its message
    for at, line in enumerate(lines):
        if match := _REQUIRED_FROM.match(line):
            if _base(match["file"]) in own:
                pending = (_base(match["file"]), int(match["line"]))
            continue
        match = _GCC.match(line) or _CUDAFE.match(line) or _PTXAS.match(line) or _NVCC.match(line)
        if match is None:
            if _LINK.match(line) and not line.startswith("collect2"):
                _add(found, seen, Diagnostic(severity="error", message=_undefined(line), code="link"))
            continue
        groups = match.groupdict()
        message, code = groups["text"].strip(), groups.get("code") or ""
        if flag := _FLAG.search(message):
            code, message = flag[1], message[: flag.start()]
        if match.re is _CUDAFE:
            message = _continued(message, lines[at + 1 : at + 3])
        file, number = _base(groups.get("file") or ""), groups.get("line")
        where: int | None = int(number) if number else None
        if file and file not in own:
            led = pending or _detected_during(lines[at + 1 : at + 12], own, files)
            if led is not None:
                message = f"{message} (in {file}:{where})"
                file, where = led
        pending = None
        severity = "warning" if groups["kind"] == "warning" else "error"
        _add(
            found,
            seen,
            Diagnostic(
                severity="warning" if severity == "warning" else "error",
                message=_short(message),
                file=file,
                line=where,
                code=code,
            ),
        )
    errors = [item for item in found if item.severity == "error"]
    warnings = [item for item in found if item.severity == "warning" and item.file in own]
    return tuple((errors + warnings)[:LIMIT])


def _add(found: list[Diagnostic], seen: set[tuple[str, str, int | None]], item: Diagnostic) -> None:
    key = (_IN_HEADER.sub("", item.message), item.file, item.line)
    if key not in seen:
        seen.add(key)
        found.append(item)


def _base(file: str) -> str:
    return file.rsplit("/", 1)[-1]


def _short(message: str, limit_chars: int = 500) -> str:
    message = " ".join(message.split())
    return message if len(message) <= limit_chars else message[: limit_chars - 1] + "…"


def _continued(message: str, following: Sequence[str]) -> str:
    """nvcc breaks long messages; a broken one goes on indented by more than the quoted source line's two blanks."""
    for line in following:
        if not re.match(r"^ {12}\S", line):
            break
        message += " " + line.strip()
    return message


def _detected_during(following: Sequence[str], own: set[str], files: Sequence[str]) -> tuple[str, int] | None:
    for line in following:
        if _CUDAFE.match(line):
            return None
        for match in _DETECTED_DURING.finditer(line):
            file = _base(match["file"]) if match["file"] else (files[0] if files else "")
            if file in own:
                return file, int(match["line"])
    return None


def _undefined(line: str) -> str:
    return line.split(": ", 1)[-1] if "undefined reference" not in line else line[line.index("undefined reference") :]


def parse_ptxas(text: str) -> dict[str, KernelUse]:
    """Figures of ``ptxas -v``, by mangled kernel name."""
    result: dict[str, KernelUse] = {}
    name = ""
    frame: dict[str, int] = {}
    for line in text.splitlines():
        if match := re.search(r"Compiling entry function '([^']+)'", line):
            name, frame = match[1], {}
        elif match := re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", line):
            frame = dict(
                zip(("stack_bytes", "spill_store_bytes", "spill_load_bytes"), map(int, match.groups()), strict=True)
            )
        elif name and (match := re.search(r"Used (\d+) registers", line)):
            shared = re.search(r"(\d+) bytes smem", line)
            result[name] = KernelUse(int(match[1]), int(shared[1]) if shared else 0, **frame)
            name = ""
    return result


# Namespaces and types whose members the facade may lack although torch has them.
_TORCH_SCOPE = r"(?:::)?(?:torch|at|c10|py|pybind11)(?:::\w+)*"
_CURABLE = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?:torch|ATen|c10|pybind11|caffe2)/\S+: No such file",
        rf"(?:class|struct) [‘\"“']?{_TORCH_SCOPE}\S*[’\"”']? has no member",
        rf"[‘'\"]\w+[’'\"] is not a member of [‘'\"]{_TORCH_SCOPE}",
        rf"[‘'\"]\w+[’'\"] in namespace [‘'\"]{_TORCH_SCOPE}[’'\"] does not name",
        rf"namespace \"?{_TORCH_SCOPE}\"? has no member",
        rf"[‘'\"]\w+[’'\"] has not been declared in [‘'\"]{_TORCH_SCOPE}",
        rf"no matching function for call to [‘'\"]{_TORCH_SCOPE}",
        rf"no instance of (?:overloaded function|function template|constructor) \"{_TORCH_SCOPE}",
        rf"no suitable (?:user-defined conversion|constructor|conversion).*\"{_TORCH_SCOPE}",
        rf"no match for [‘'\"]?operator\S* .*{_TORCH_SCOPE}",
        rf"no operator .* matches these operands.*{_TORCH_SCOPE}",
        r"(?:identifier \"|[‘'\"])(?:AT|TORCH|C10|CUDA|PYBIND11|TH|THC)_\w+[’'\"]? (?:was|is|has) ",
        r"[‘'\"](?:AT|TORCH|C10|PYBIND11)_\w+[’'\"]",
        r"is not a member of [‘'\"]std[’'\"]",
        r"namespace \"std\" has no member",
        r"stitch: no light (?:binding|printing)",
        rf"could not convert .*{_TORCH_SCOPE}|cannot convert [‘'\"].*{_TORCH_SCOPE}|conversion from .*{_TORCH_SCOPE}",
    )
)
_SYNTAX = re.compile(r"^expected |stray ‘|missing terminating|expected an? |unterminated|unbalanced")
_UNKNOWN_NAME = re.compile(r"(?:identifier \"|^[‘'])(\w+)[’'\"]? (?:is undefined|was not declared in this scope)")
_UNKNOWN_MEMBER = re.compile(
    r"(?:class|struct) [‘\"]?(?:at|torch)::Tensor[’\"]?,? has no member (?:named )?[‘\"](\w+)[’\"]"
    r"|[‘']class at::Tensor[’'] has no member named [‘'](\w+)[’']"
)
_MACRO = re.compile(r"(?:AT|TORCH|C10|CUDA|PYBIND11|TH|THC)_\w+")


def curable(diagnostics: Sequence[Diagnostic], names: Container[str] = (), members: Container[str] = ()) -> bool:
    """Whether torch's own headers might mend a build that failed against the facade.

    One mistake that no header mends (a syntax error, a misspelled name) settles it, so that it never costs a second
    build.

    Args:
        names: functions that torch has, for candidates that use its namespaces unqualified.
        members: words of its tensor class.
    """
    hopeful = False
    for item in diagnostics:
        if item.severity != "error":
            continue
        if unknown := _UNKNOWN_NAME.search(item.message):
            if not _MACRO.fullmatch(unknown[1]) and unknown[1] not in names:
                return False
            hopeful = True
        elif member := _UNKNOWN_MEMBER.search(item.message):
            if (member[1] or member[2]) not in members:
                return False
            hopeful = True
        elif _SYNTAX.search(item.message):
            return False
        elif any(pattern.search(item.message) for pattern in _CURABLE):
            hopeful = True
    return hopeful
