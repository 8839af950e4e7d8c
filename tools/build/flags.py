"""Which of a candidate's compiler flags are honoured: an allow-list, everything else is refused by name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

__all__ = ["HOST", "LINK", "NVCC", "CheckedFlags", "check_flags", "cpu_flags_of_nvcc", "language_standard"]

# ptxas and cudafe++ can be told to read and write files; only what tunes code or quiets messages passes.
_PTXAS_ONE = (
    r"-O[0-4]|--?opt-level=?[0-4]|-v|--?verbose|-dlcm=\w+|-dscm=\w+|--?def-(load|store)-cache=\w+|--?fmad=?(true|false)"
    r"|--?allow-expensive-optimizations=?(true|false)?|--?warn-(on-)?(spills|lmem-usage|double-usage|local-memory-usage)"
    r"|--?maxrregcount=?\d+|-w|--?disable-warnings|--?preserve-relocs|--?suppress-\w+-warning|--?register-usage-level=?\d+"
)
_PTXAS = rf"\"?(?:{_PTXAS_ONE})(?:,(?:{_PTXAS_ONE}))*\"?"
_CUDAFE = r"\"?--(diag_(suppress|warning|error)=[\w,]+|display_error_number)\"?"
# -march/-mtune change host code only; -I is ignored because headers come from the toolkit and torch alone.
HOST = (
    r"-O[0-3sg]|-Ofast|-O",
    r"-std=(c|gnu)\+\+(17|20|2a|23|2b)",
    r"-D[A-Za-z_]\w*(=[\w.+\-*/ ()\"':<>,]*)?",
    r"-U[A-Za-z_]\w*",
    r"-W(no-)?[a-z][\w=+-]*|-w",
    r"-g[0-3]?",
    r"-fPIC|-fopenmp|-ffast-math|-funroll-loops|-fno-math-errno|-fno-strict-aliasing|-fstrict-aliasing",
    r"-fno-exceptions|-ffp-contract=(fast|off|on)|-fvisibility=(default|hidden)|-fpermissive|-fomit-frame-pointer",
    r"-march=[\w.+-]+|-mtune=[\w.+-]+|-mavx2?|-mavx512[a-z]*|-mfma|-mf16c|-msse[\d.]*",
    r"-pthread|-pipe",
)
NVCC = (
    r"-O[0-3]|--optimize=[0-3]",
    r"(-std=|--std=)c\+\+(17|20)",
    r"-D[A-Za-z_]\w*(=[\w.+\-*/ ()\"':<>,]*)?",
    r"-U[A-Za-z_]\w*",
    r"-?-use_fast_math|-?-ftz=(true|false)|-?-prec-(div|sqrt)=(true|false)|-?-fmad=(true|false)",
    r"-?-extra-device-vectorization",
    r"-lineinfo|--generate-line-info|-g|-G|-?-device-debug",
    r"-?-expt-(relaxed-constexpr|extended-lambda)|-?-extended-lambda",
    r"-?-maxrregcount(=\d+)?",
    r"-?-default-stream(=(legacy|null|per-thread))?",
    r"-?-restrict|-w|-?-disable-warnings|-?-Wno-deprecated-gpu-targets|-?-diag-suppress(=[\d,]+)?",
    rf"(-?-ptxas-options|-Xptxas)(=({_PTXAS}))?|-Xcudafe(=({_CUDAFE}))?|(-Xcompiler|--compiler-options)(=.*)?",
    r"-?-threads(=\d+)?|-t=?\d*|-?-split-compile(=\d+)?",
    r"-?-resource-usage|-res-usage|-keep|--keep",
    r"-rdc=(true|false)|--relocatable-device-code=(true|false)",
)
LINK = (
    r"-l(cuda|cudart|cudart_static|cublas|cublasLt|cudnn|cufft|curand|cusparse|cusolver|nvrtc|c10|torch|torch_cpu"
    r"|torch_cuda|c10_cuda|torch_python|m|pthread|gomp|dl|stdc\+\+)",
    r"-O[0-3]|-fopenmp|-pthread|-Wl,--no-as-needed|-Wl,--as-needed",
)
_WITH_VALUE = {
    "-Xptxas": _PTXAS,
    "--ptxas-options": _PTXAS,
    "-Xcudafe": _CUDAFE,
    "-Xcompiler": "",
    "--compiler-options": "",
    "-maxrregcount": r"\d+",
    "--maxrregcount": r"\d+",
    "-default-stream": r"legacy|null|per-thread",
    "--default-stream": r"legacy|null|per-thread",
    "-diag-suppress": r"[\d,]+",
    "--diag-suppress": r"[\d,]+",
    "-threads": r"\d+",
    "--threads": r"\d+",
    "-t": r"\d+",
    "--split-compile": r"\d+",
    "-std": r"c\+\+(17|20)",
    "--std": r"c\+\+(17|20)",
}
# Architecture is the builder's to choose; search paths would reach out of the store.
_IGNORED = re.compile(
    r"-gencode.*|--generate-code.*|-arch(=.*)?|--gpu-architecture(=.*)?|-code=.*|-I.*|-L.*|-isystem.*|--compiler-bindir.*|-ccbin.*"
)
_IGNORED_WITH_VALUE = {
    "-gencode", "--generate-code", "-arch", "--gpu-architecture", "-I", "-L", "-isystem", "-ccbin", "--compiler-bindir",
}  # fmt: skip
_DROPPED = re.compile(r"-?-threads.*|-t\d*|-?-split-compile.*|-keep|--keep|-?-resource-usage|-res-usage")


@dataclass(frozen=True)
class CheckedFlags:
    kept: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    refused: tuple[str, ...] = field(default=())


def check_flags(flags: Sequence[str], allowed: Iterable[str], where: str) -> CheckedFlags:
    """Sort ``flags`` into kept, ignored with a note, and refused.

    Args:
        where: the argument's name, for the notes.
    """
    pattern = re.compile("|".join(f"(?:{rule})" for rule in allowed))
    host = re.compile("|".join(f"(?:{rule})" for rule in HOST))
    words = [word for flag in flags for word in ([flag] if flag.startswith("-D") else flag.split())]
    kept: list[str] = []
    notes: list[str] = []
    refused: list[str] = []
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        value: str | None = None
        if at < len(words) and (word in _WITH_VALUE or word in _IGNORED_WITH_VALUE):
            value = words[at]
            at += 1
        if _IGNORED.fullmatch(word):
            notes.append(f"{where}: {word if value is None else f'{word} {value}'} is ignored")
        elif not pattern.fullmatch(word) and not (
            value is not None and word in ("-std", "--std") and "std" in str(allowed)
        ):
            refused.append(word)
        elif _DROPPED.fullmatch(word):
            continue
        elif word.startswith(("-Xcompiler", "--compiler-options")):
            passed = (value if value is not None else word.partition("=")[2]).strip("\"'").split(",")
            bad = [part for part in passed if part and not host.fullmatch(part)]
            refused.extend(bad)
            if not bad:
                kept.extend(["-Xcompiler", ",".join(part for part in passed if part)])
        elif value is not None and not re.fullmatch(_WITH_VALUE[word], value):
            refused.append(f"{word} {value}")
        else:
            kept.append(word)
            if value is not None:
                kept.append(value)
    return CheckedFlags(tuple(kept), tuple(notes), tuple(refused))


def cpu_flags_of_nvcc(kept: Sequence[str]) -> list[str]:
    """The part of checked nvcc flags that means something to the host compiler of the emulator."""
    return [flag for flag in kept if flag.startswith(("-D", "-U", "-std=")) or flag == "-g"]


def language_standard(flags: Sequence[str]) -> str | None:
    """The last ``-std=`` among ``flags``, for example ``c++17``."""
    found = None
    for at, flag in enumerate(flags):
        if match := re.fullmatch(r"-{1,2}std=(.+)", flag):
            found = match[1]
        elif flag in ("-std", "--std") and at + 1 < len(flags):
            found = flags[at + 1]
    return found
