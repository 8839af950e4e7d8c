"""Pure builders: source texts and command lines of one extension. Nothing here runs or writes anything."""

from __future__ import annotations

import re
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from stitchcuda.tools.build.flags import HOST, LINK, NVCC, check_flags, cpu_flags_of_nvcc, language_standard
from stitchcuda.tools.build.parts import needed_parts
from stitchcuda.tools.build.spec import ExtensionSpec
from stitchcuda.tools.build.toolchain import FACADE_CUDA_DIR, FACADE_DIR, STUB_DIR, Toolchain

__all__ = [
    "CheckedSpec",
    "Emulator",
    "Unit",
    "build_bridge_command",
    "build_cxx_command",
    "build_link_command",
    "build_nvcc_command",
    "build_pch_command",
    "build_runtime_command",
    "build_sanitizer_command",
    "build_units",
    "check_spec",
    "pch_flags",
]

BRIDGE = Path(__file__).parent / "bridge.cpp"
RUNTIME = Path(__file__).parent / "runtime"
EMULATOR_DEFINE = "-DSTITCHCUDA_EMULATOR=1"


@dataclass(frozen=True)
class CheckedSpec:
    """The candidate's flags after the allow-list."""

    host: tuple[str, ...]
    device: tuple[str, ...]
    link: tuple[str, ...]
    notes: tuple[str, ...]
    problems: tuple[str, ...]
    """Why the spec cannot be built at all; empty when it can."""
    own_architecture: bool = False
    """The candidate asked for ``sm_90a`` or the like: wgmma and TMA exist only there."""


@dataclass(frozen=True)
class Emulator:
    """What the ``cpu`` target's compile lines take from the emulator."""

    include_dir: Path
    flags: tuple[str, ...]


@dataclass(frozen=True)
class Unit:
    """One file to compile."""

    file: str
    text: str
    is_cuda: bool

    def parts(self) -> list[str]:
        """The facade's parts, as defines."""
        return ["-DSTITCH_LEAN", *(f"-DSTITCH_PART_{name}=1" for name in needed_parts([self.text]))]


def check_spec(spec: ExtensionSpec) -> CheckedSpec:
    """Check the name and the flags of ``spec``."""
    problems: list[str] = []
    if not re.fullmatch(r"[A-Za-z_]\w{0,200}", spec.name):
        problems.append(f"extension name {spec.name!r} is not an identifier")
    if not spec.cpp_sources and not spec.cuda_sources:
        problems.append("no sources were given")
    if not spec.inline and spec.functions:
        problems.append("functions= belongs to load_inline")
    host = check_flags(spec.extra_cflags, HOST, "extra_cflags")
    device = check_flags(spec.extra_cuda_cflags, NVCC, "extra_cuda_cflags")
    link = check_flags(spec.extra_ldflags, LINK, "extra_ldflags")
    for where, checked in (("extra_cflags", host), ("extra_cuda_cflags", device), ("extra_ldflags", link)):
        problems.extend(f"flag {flag!r} of {where} is not allowed" for flag in checked.refused)
    notes = [*host.notes, *device.notes, *link.notes]
    notes.extend(f"extra_include_paths: {path} is ignored" for path in spec.extra_include_paths)
    own = any(re.search(r"(?:sm|compute)_\d+a\b", flag) for flag in spec.extra_cuda_cflags)
    return CheckedSpec(host.kept, device.kept, link.kept, tuple(notes), tuple(problems), own)


def _joined(sources: Sequence[str], names: Sequence[str]) -> str:
    return "".join(f'#line 1 "{name}"\n{source}\n' for source, name in zip(sources, names, strict=True))


def _bindings(spec: ExtensionSpec) -> str:
    """The module that ``load_inline`` writes for ``functions``."""
    docs = spec.docs or spec.functions
    lines = [
        f'm.def("{name}", &{name}, R"stitch_doc({doc})stitch_doc");'
        for name, doc in zip(spec.functions, docs, strict=True)
    ]
    return f'#line 1 "functions"\nPYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {{ {" ".join(lines)} }}\n'


def build_units(
    spec: ExtensionSpec, cuda_texts: Sequence[str], cpp_texts: Sequence[str], prelude: str = ""
) -> tuple[Unit, ...]:
    """The files to compile, with ``#line`` directives that keep the candidate's own line numbers.

    Args:
        cuda_texts: the CUDA sources, rewritten for the emulator or as they are.
        cpp_texts: the same of the C++ sources.
        prelude: include lines on top of each file (the emulator's).
    """
    cpp_names, cuda_names = spec.shown_cpp_names(), spec.shown_cuda_names()
    if not spec.inline:
        device = zip(cuda_texts, cuda_names, strict=True)
        host = zip(cpp_texts, cpp_names, strict=True)
        return (
            *(Unit(f"{i}_{name}.cu", prelude + _joined([text], [name]), True) for i, (text, name) in enumerate(device)),
            *(Unit(f"{i}_{name}.cpp", prelude + _joined([text], [name]), False) for i, (text, name) in enumerate(host)),
        )
    units: list[Unit] = []
    if cuda_texts:
        head = prelude + "#include <torch/types.h>\n#include <cuda.h>\n#include <cuda_runtime.h>\n"
        units.append(Unit("cuda.cu", head + _joined(cuda_texts, cuda_names), True))
    if cpp_texts or spec.functions:
        body = prelude + "#include <torch/extension.h>\n" + _joined(cpp_texts, cpp_names)
        units.append(Unit("main.cpp", body + (_bindings(spec) if spec.functions else ""), False))
    return tuple(units)


def _defines(spec_name: str) -> list[str]:
    return [f"-DTORCH_EXTENSION_NAME={spec_name}", "-DTORCH_API_INCLUDE_EXTENSION_H"]


def _facade_includes(toolchain: Toolchain) -> list[str]:
    return [f"-DSTITCH_TORCH_MINOR={toolchain.torch_minor}", "-isystem", str(FACADE_DIR)]


# Dropped on the emulator, which says nothing about speed: so that all candidates share one precompiled header.
_TUNING = re.compile(
    r"-O.*|-g\d?|-march=.*|-mtune=.*|-m(avx|fma|f16c|sse).*|-funroll-loops|-pipe|-fomit-frame-pointer|-fPIC"
)


def _host_flags(checked: CheckedSpec, toolchain: Toolchain, *, target: str, is_cuda_source: bool) -> list[str]:
    flags = [*checked.host, *(cpu_flags_of_nvcc(checked.device) if is_cuda_source else ())]
    if target == "cpu":
        flags = [flag for flag in flags if not _TUNING.fullmatch(flag)]
    standard = language_standard(flags) or toolchain.standard
    # torch's headers need at least their own standard; a candidate that asks for less gets it, as from torch's builder.
    standard = max(standard.replace("gnu", "c").replace("2a", "20").replace("2b", "23"), toolchain.standard)
    kept = [flag for flag in flags if not flag.startswith("-std=")]
    return [f"-std={standard}", "-O2", "-fPIC", "-fno-gnu-unique", *kept]


def build_cxx_command(
    name: str,
    checked: CheckedSpec,
    toolchain: Toolchain,
    source: Path,
    output: Path,
    *,
    target: str,
    facade: bool,
    is_cuda_source: bool,
    parts: Sequence[str] = (),
    emulator: Emulator | None = None,
    pch: Path | None = None,
    object_wanted: bool = True,
) -> list[str]:
    """g++ for a ``.cpp``, or for a rewritten ``.cu`` on the emulator; without an object it only checks."""
    command = [
        toolchain.cxx,
        *_host_flags(checked, toolchain, target=target, is_cuda_source=is_cuda_source),
        *_defines(name),
    ]
    if target == "cpu":
        assert emulator is not None
        command += [EMULATOR_DEFINE, *emulator.flags]
        if pch is not None:
            command += ["-Winvalid-pch", "-include", str(pch)]
        command += ["-I", str(emulator.include_dir)]
    if facade:
        command += _facade_includes(toolchain)
    if target != "cpu":
        if facade:
            command += [*parts, "-isystem", str(FACADE_CUDA_DIR)]
        command += _cuda_host_includes(toolchain)
    if not facade:
        command += _torch_includes(toolchain)
    if not object_wanted:
        return [*command, "-x", "c++", "-fsyntax-only", str(source)]
    return [*command, "-x", "c++", "-c", str(source), "-o", str(output)]


def build_pch_command(
    toolchain: Toolchain, flags: Sequence[str], emulator: Emulator, header: Path, output: Path, *, facade: bool
) -> list[str]:
    """g++ for the precompiled form of the facade's or of torch's own headers, on the emulator's target."""
    includes = ["-I", str(emulator.include_dir)]
    includes += _facade_includes(toolchain) if facade else _torch_includes(toolchain)
    return [toolchain.cxx, *flags, *includes, "-x", "c++-header", str(header), "-o", str(output)]


def pch_flags(
    checked: CheckedSpec, toolchain: Toolchain, emulator: Emulator, *, is_cuda_source: bool
) -> list[str] | None:
    """The flags that a precompiled header depends on; ``None`` when the candidate's defines may change the header."""
    flags = _host_flags(checked, toolchain, target="cpu", is_cuda_source=is_cuda_source)
    if any(re.match(r"-[DU]_*(CUDA|TORCH|C10|AT|STITCH|GLIBCXX|GNU|NDEBUG)", flag) for flag in flags):
        return None
    return [flag for flag in flags if not flag.startswith(("-D", "-U", "-W", "-w"))] + [
        EMULATOR_DEFINE,
        *emulator.flags,
    ]


def build_nvcc_command(
    name: str,
    checked: CheckedSpec,
    toolchain: Toolchain,
    source: Path,
    output: Path,
    *,
    target: str,
    facade: bool,
    parts: Sequence[str] = (),
    object_wanted: bool = True,
) -> list[str]:
    """nvcc for a ``.cu``, with ptxas' figures.

    Without an object only the device half is compiled: its front end reads the host code too and reports the same
    errors, at a third of the cost (measured: 1.4 instead of 4.7 s of CPU time).
    """
    # nvcc's -O is about host code alone, which here is launches: more than -O1 costs time and brings none.
    device = [flag for flag in checked.device if not re.match(r"-{1,2}std=|-O\d|--optimize", flag)]
    standard = max(language_standard(checked.device) or toolchain.standard, toolchain.standard)
    number = target.removeprefix("sm_")
    if checked.own_architecture and number in ("90", "100", "120"):
        number += "a"
    command = [
        toolchain.nvcc,
        f"-gencode=arch=compute_{number},code=sm_{number}",
        f"-std={standard}",
        *_defines(name),
        "-O1",
        "-Xptxas",
        "-v",
        "-Xcompiler",
        "-fPIC,-fno-gnu-unique",
        "-ccbin",
        toolchain.cxx,
        "--expt-relaxed-constexpr",
        # What torch's own builder sets, so that a candidate sees the same operators on both paths; it may undo them.
        "-D__CUDA_NO_HALF_OPERATORS__",
        "-D__CUDA_NO_HALF_CONVERSIONS__",
        "-D__CUDA_NO_BFLOAT16_CONVERSIONS__",
        "-D__CUDA_NO_HALF2_OPERATORS__",
        *device,
    ]
    if facade:
        command += [*parts, *_facade_includes(toolchain), "-isystem", str(FACADE_CUDA_DIR)]
    else:
        command += _torch_includes(toolchain)
    if not toolchain.torch_has_cuda:
        command += ["-DC10_CUDA_NO_CMAKE_CONFIGURE_FILE", "-isystem", str(STUB_DIR)]
    return [*command, "-c" if object_wanted else "-cubin", str(source), "-o", str(output)]


def build_link_command(
    checked: CheckedSpec, toolchain: Toolchain, objects: Sequence[Path], output: Path, *, target: str, facade: bool
) -> list[str]:
    """g++ as the linker of the shared object."""
    command = [toolchain.cxx, "-shared", *map(str, objects), "-o", str(output), "-Wl,-Bsymbolic"]
    command += [f"-L{toolchain.torch_lib}", "-Wl,--no-as-needed", "-ltorch_cpu", "-ltorch", "-lc10"]
    if not facade:
        command += ["-ltorch_python"]
    if target != "cpu":
        if toolchain.torch_has_cuda:
            command += ["-ltorch_cuda", "-lc10_cuda"]
        for folder in _cuda_lib_dirs(toolchain):
            command += [f"-L{folder}", f"-Wl,-rpath,{folder}"]
        command += ["-lcudart", *checked.link]
    else:
        command += [flag for flag in checked.link if not re.match(r"-l(cu|nvrtc|torch|c10)", flag)]
    return command


def build_bridge_command(toolchain: Toolchain, output: Path) -> list[str]:
    """g++ for the fast caller that is linked into each extension against the facade; needs Python's headers."""
    python = sysconfig.get_path("include")
    flags = ["-std=c++17", "-O2", "-fPIC", "-fvisibility=hidden", "-fno-gnu-unique"]
    return [toolchain.cxx, *flags, "-I", str(FACADE_DIR), "-I", python, "-c", str(BRIDGE), "-o", str(output)]


def build_sanitizer_command(toolchain: Toolchain, emulator: Emulator, output: Path) -> list[str]:
    """g++ for the checks that are linked into each extension of a sanitized build; against c10's own headers."""
    from stitchcuda.tools.emulator import sanitizer_source

    command = [toolchain.cxx, f"-std={toolchain.standard}", *emulator.flags, "-I", str(emulator.include_dir)]
    return [*command, *_torch_includes(toolchain), "-c", str(sanitizer_source()), "-o", str(output)]


def build_runtime_command(toolchain: Toolchain, output_dir: Path, *, emulated: bool) -> list[list[str]]:
    """g++ for the facade's own code, one command per object file; linked into every extension against the facade."""
    flags = [f"-std={toolchain.standard}", "-O2", "-fPIC", "-fno-gnu-unique", "-DSTITCH_LEAN", "-DSTITCH_PART_STRING=1"]
    if emulated:
        flags.append(EMULATOR_DEFINE)
    return [
        [toolchain.cxx, *flags, *_facade_includes(toolchain), "-c", str(file), "-o", str(output_dir / f"{file.stem}.o")]
        for file in sorted(RUNTIME.glob("*.cpp"))
    ]


def _torch_includes(toolchain: Toolchain) -> list[str]:
    return [part for folder in toolchain.torch_includes for part in ("-isystem", str(folder))]


def _cuda_host_includes(toolchain: Toolchain) -> list[str]:
    assert toolchain.cuda_home is not None
    include = toolchain.cuda_home / "include"
    if not include.exists():
        include = toolchain.cuda_home / "targets" / "x86_64-linux" / "include"
    return ["-isystem", str(include), "-isystem", str(include / "cccl"), "-isystem", str(STUB_DIR)]


def _cuda_lib_dirs(toolchain: Toolchain) -> list[Path]:
    assert toolchain.cuda_home is not None
    places = [
        toolchain.cuda_home / "lib64",
        toolchain.cuda_home / "lib",
        toolchain.cuda_home / "targets/x86_64-linux/lib",
    ]
    return [place for place in places if place.exists()]
