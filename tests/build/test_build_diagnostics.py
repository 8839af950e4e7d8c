"""Parsers on recorded output of g++ 12, nvcc 13.0 and ptxas, made from small sources of our own."""

from __future__ import annotations

import pytest

from stitchcuda.tools.build.diagnostics import KernelUse, curable, parse_diagnostics, parse_ptxas
from stitchcuda.tools.build.toolchain import parse_nvcc_version

FILES = ("scale.cu", "scale.cpp")
MEMBERS = frozenset({"cummax"})


def test_gxx_template_noise_is_cut_to_the_candidates_lines(recorded: dict[str, str]) -> None:
    found = parse_diagnostics(recorded["gxx_template"], FILES)
    assert [(item.severity, item.line) for item in found] == [("error", 10), ("error", 8), ("warning", 9)]
    assert found[0].message == "‘missing’ was not declared in this scope"
    assert found[1].message.startswith("no match for ‘operator<’")
    assert found[2].code == "-Wunused-variable"
    assert all(item.file == "scale.cpp" for item in found)


def test_nvcc_errors_carry_the_candidates_lines(recorded: dict[str, str]) -> None:
    found = parse_diagnostics(recorded["nvcc_errors"], FILES)
    assert [(item.file, item.line) for item in found] == [("scale.cu", 6), ("scale.cu", 11), ("scale.cu", 12)]
    assert found[0].message == 'identifier "undeclared" is undefined'
    assert found[1].message.endswith("argument types are: (float *, const char [5])")


def test_an_error_in_a_header_is_told_at_the_candidates_line(recorded: dict[str, str]) -> None:
    (found,) = parse_diagnostics(recorded["nvcc_template"], FILES)
    assert (found.file, found.line) == ("scale.cu", 15)
    assert found.message.startswith("incomplete type")
    assert found.message.endswith("(in tensor.h:127)")


def test_ptxas_and_linker_errors(recorded: dict[str, str]) -> None:
    (shared,) = parse_diagnostics(recorded["ptxas_error"], FILES)
    assert "uses too much shared data (0x13880 bytes" in shared.message
    (undefined,) = parse_diagnostics(recorded["link_error"], FILES)
    assert (undefined.message, undefined.code) == ("undefined reference to `missing(int)'", "link")


def test_registers_shared_memory_and_spills(recorded: dict[str, str]) -> None:
    assert parse_ptxas(recorded["ptxas_use"]) == {
        "_Z5smallPf": KernelUse(registers=8),
        "_Z8spillingPfi": KernelUse(
            registers=32, shared_bytes=4096, spill_store_bytes=1372, spill_load_bytes=1804, stack_bytes=952
        ),
    }


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("gxx_missing_header", True),  # torch may have the header
        ("gxx_facade", False),  # a syntax error stays one
        ("gxx_template", False),
        ("nvcc_errors", False),  # an undeclared name stays one, although cummax could be had
        ("ptxas_error", False),
        ("link_error", False),
    ],
)
def test_only_what_torchs_headers_could_mend_is_built_again(
    recorded: dict[str, str], name: str, expected: bool
) -> None:
    assert curable(parse_diagnostics(recorded[name], FILES), members=MEMBERS) is expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("scale.cpp:3:12: error: ‘class at::Tensor’ has no member named ‘cummax’", True),
        ("scale.cpp:3:12: error: ‘class at::Tensor’ has no member named ‘cumax’", False),
        ('scale.cu(3): error: class "at::Tensor" has no member "cummax"', True),
        ('scale.cu(3): error: class "at::Tensor" has no member "sizee"', False),
        ('scale.cu(3): error: namespace "at::native" has no member "softmax"', True),
        ("scale.cpp:3:12: error: ‘softmax’ is not a member of ‘torch’", True),
        ('scale.cu(3): error: identifier "AT_DISPATCH_V2" is undefined', True),
        ("scale.cpp:3:12: error: ‘softmax’ was not declared in this scope", True),
        ("scale.cpp:3:12: error: ‘sotfmax’ was not declared in this scope", False),
        (
            'scale.cu(3): error: no operator "+" matches these operands; operand types are: at::Tensor + at::Tensor',
            True,
        ),
        ("scale.cpp:3:2: error: no match for ‘operator+’ (operand types are ‘at::Tensor’ and ‘int’)", True),
        ("x.h:3:2: error: static assertion failed: stitch: no light binding for this argument type", True),
        ('scale.cu(3): error: a value of type "float *" cannot be used to initialize an entity of type "int"', False),
    ],
)
def test_which_messages_are_worth_a_second_build(line: str, expected: bool) -> None:
    found = parse_diagnostics(line, FILES)
    assert len(found) == 1
    assert curable(found, names={"softmax"}, members=MEMBERS) is expected


def test_nvcc_version() -> None:
    assert parse_nvcc_version("Cuda compilation tools, release 13.0, V13.0.88\nBuild x") == "13.0.88"
    assert parse_nvcc_version("not a compiler") == ""
