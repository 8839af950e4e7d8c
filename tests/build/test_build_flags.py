"""A candidate's compiler flags: honoured, ignored with a note, or refused by name."""

from __future__ import annotations

import pytest

from stitchcuda.tools.build.commands import check_spec
from stitchcuda.tools.build.flags import HOST, LINK, NVCC, check_flags, language_standard
from stitchcuda.tools.build.spec import ExtensionSpec


def test_usual_flags_of_candidates_are_kept() -> None:
    given = [
        "-O3", "--use_fast_math", "-std=c++17", "-lineinfo", "-DTILE=32", "-Xptxas", "-O3,-v", "-Xptxas=-dlcm=ca",
        "--expt-relaxed-constexpr", "--expt-extended-lambda", "-U__CUDA_NO_HALF_OPERATORS__", "--maxrregcount=64",
        "-Xcompiler", "-O3,-march=native",
    ]  # fmt: skip
    checked = check_flags(given, NVCC, "extra_cuda_cflags")
    assert checked.refused == ()
    assert list(checked.kept) == given
    assert check_flags(["-O3", "-Wall", "-march=native", "-DX"], HOST, "extra_cflags").refused == ()
    assert check_flags(["-lcublas", "-lcudnn"], LINK, "extra_ldflags").kept == ("-lcublas", "-lcudnn")


def test_the_architecture_and_search_paths_are_ignored_with_a_note() -> None:
    checked = check_flags(
        ["-gencode=arch=compute_80,code=sm_80", "-arch=sm_80", "-gencode", "arch=compute_90,code=sm_90", "-I/usr/x"],
        NVCC,
        "extra_cuda_cflags",
    )
    assert checked.kept == ()
    assert checked.refused == ()
    assert len(checked.notes) == 4
    assert checked.notes[2] == "extra_cuda_cflags: -gencode arch=compute_90,code=sm_90 is ignored"


@pytest.mark.parametrize(
    ("flags", "allowed", "refused"),
    [
        (["-fplugin=evil.so"], HOST, "-fplugin=evil.so"),
        (["-include", "/etc/passwd"], HOST, "-include"),
        (["@response"], HOST, "@response"),
        (["-B/tmp"], HOST, "-B/tmp"),
        (["-Xcompiler", "-fplugin=x.so"], NVCC, "-fplugin=x.so"),
        (["-Xcompiler=-O2,-wrapper,sh"], NVCC, "-wrapper"),
        (["--run"], NVCC, "--run"),
        (["-Xptxas=-o,/tmp/x"], NVCC, "-Xptxas=-o,/tmp/x"),
        (["-Xptxas", "-v,--output-file,x"], NVCC, "-Xptxas -v,--output-file,x"),
        (["-Xcudafe=--preinclude,/etc/passwd"], NVCC, "-Xcudafe=--preinclude,/etc/passwd"),
        (["-Xptxas", "$(sh)"], NVCC, "-Xptxas $(sh)"),
        (["-Wl,-rpath,/tmp"], LINK, "-Wl,-rpath,/tmp"),
        (["/tmp/other.so"], LINK, "/tmp/other.so"),
        (["-O2 -fplugin=x"], HOST, "-fplugin=x"),
    ],
)
def test_flags_that_reach_further_are_refused_by_name(flags: list[str], allowed: tuple[str, ...], refused: str) -> None:
    assert refused in check_flags(flags, allowed, "flags").refused


def test_a_refused_flag_names_its_argument() -> None:
    spec = ExtensionSpec(name="x", cpp_sources=("int a;",), extra_cflags=("-fplugin=p",))
    assert check_spec(spec).problems == ("flag '-fplugin=p' of extra_cflags is not allowed",)
    assert check_spec(ExtensionSpec(name="not a name", cpp_sources=("",))).problems
    assert check_spec(ExtensionSpec(name="empty")).problems == ("no sources were given",)


def test_language_standard() -> None:
    assert language_standard(["-O2", "-std=c++17", "--std=c++20"]) == "c++20"
    assert language_standard(["-std", "c++17"]) == "c++17"
    assert language_standard(["-O2"]) is None


def test_a_spec_survives_json_and_refuses_a_forged_one() -> None:
    spec = ExtensionSpec(name="x", cuda_sources=("a", "b"), functions=("f",), inline=False)
    assert ExtensionSpec.from_json(spec.to_json()) == spec
    for forged in ('{"name": 3}', '{"name": "x", "cpp_sources": "abc"}', '{"name": "x", "shell": "sh"}', "[]", "{}"):
        with pytest.raises(ValueError):
            ExtensionSpec.from_json(forged)


def test_the_digest_depends_on_everything_that_matters() -> None:
    base = ExtensionSpec(name="x", cuda_sources=("a",))
    tools = {"torch": "2.9", "nvcc": "12.8"}
    digests = {
        base.digest("cpu", tools),
        base.digest("sm_90", tools),
        base.digest("cpu", tools | {"torch": "2.10"}),
        base.digest("cpu", tools | {"nvcc": "13.0"}),
        ExtensionSpec(name="y", cuda_sources=("a",)).digest("cpu", tools),
        ExtensionSpec(name="x", cuda_sources=("b",)).digest("cpu", tools),
        ExtensionSpec(name="x", cpp_sources=("a",)).digest("cpu", tools),
        ExtensionSpec(name="x", cuda_sources=("a",), extra_cuda_cflags=("-O1",)).digest("cpu", tools),
    }
    assert len(digests) == 8
    assert base.digest("cpu", tools) == base.digest("cpu", dict(reversed(tools.items())))
