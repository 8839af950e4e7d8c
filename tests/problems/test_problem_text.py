"""Exchanging sizes in a problem's text changes those numbers and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stitchcuda.core.errors import ProblemError
from stitchcuda.problems import Problem
from stitchcuda.problems.constants import find_sites

SOURCE = '''\
"""Größen: 64 heißt hier nichts."""
import torch

batch_size   =  64   # batch_size = 64
dim: int = 1024 * 2  # annotated
height = width = 256
heads, depth = 8, 3
shape = (
    batch_size,
    224,  # pixels
    224,
)
layers = [512, 512]
half = dim // 2
rate = 0.5
name = "64"


class Model(torch.nn.Module):
    def forward(self, x):
        batch_size = 64
        return x[:64]


def get_inputs():
    n = 64
    return [torch.rand(*shape), torch.rand(n, 64)]
'''


def problem(**reduced: float) -> Problem:
    return Problem(name="p", source=SOURCE, origin="test", reduced=reduced)


def test_full_is_the_text_as_it_was_read():
    assert problem(batch_size=2).at("full") == SOURCE


def test_without_reduced_sizes_both_texts_are_the_same():
    assert problem().at("reduced") == SOURCE


@pytest.mark.parametrize(
    ("sizes", "before", "after"),
    [
        ({"batch_size": 4}, "batch_size   =  64   # batch_size = 64", "batch_size   =  4   # batch_size = 64"),
        ({"dim": 16}, "dim: int = 1024 * 2  # annotated", "dim: int = 16  # annotated"),
        ({"height": 8, "width": 8}, "height = width = 256", "height = width = 8"),
        ({"height": 8}, "height = width = 256", "height = width = 8"),
        ({"heads": 2, "depth": 1}, "heads, depth = 8, 3", "heads, depth = 2, 1"),
        ({"shape[1]": 32}, "    224,  # pixels\n    224,\n", "    32,  # pixels\n    224,\n"),
        ({"layers[0]": 9, "layers[1]": 10}, "layers = [512, 512]", "layers = [9, 10]"),
        ({"half": 7}, "half = dim // 2", "half = 7"),
        ({"rate": 0.25}, "rate = 0.5", "rate = 0.25"),
        (
            {"get_inputs:64": 3},
            "    n = 64\n    return [torch.rand(*shape), torch.rand(n, 64)]",
            "    n = 3\n    return [torch.rand(*shape), torch.rand(n, 3)]",
        ),
    ],
)
def test_only_the_named_number_changes(sizes, before, after):
    assert SOURCE.count(before) == 1
    assert problem(**sizes).at("reduced") == SOURCE.replace(before, after)


def test_several_at_once_and_windows_line_ends():
    source = SOURCE.replace("\n", "\r\n")
    changed = Problem(name="p", source=source, origin="t", reduced={"batch_size": 1000, "dim": 5, "shape[2]": 7})
    expected = source.replace("=  64   #", "=  1000   #").replace("1024 * 2", "5").replace("224,\r\n)", "7,\r\n)")
    assert changed.at("reduced") == expected


def test_a_size_that_names_nothing_is_one_clear_line():
    with pytest.raises(ProblemError, match="no module-level number 'batchsize'") as caught:
        problem(batchsize=4).at("reduced")
    assert "\n" not in str(caught.value)


def test_two_names_of_one_value_cannot_differ():
    with pytest.raises(ProblemError, match=r"'height' and 'width' share the value on line 6"):
        problem(height=8, width=16).at("reduced")


def test_sequences_can_be_given_whole():
    reduced = problem().with_reduced({"shape": (2, 32, 16), "layers": [8, 4], "dim": 6})
    assert reduced.reduced == {"shape[0]": 2, "shape[1]": 32, "shape[2]": 16, "layers[0]": 8, "layers[1]": 4, "dim": 6}
    namespace: dict[str, object] = {}
    exec(reduced.at("reduced").split("class Model")[0].replace("import torch", ""), namespace)
    assert (namespace["shape"], namespace["layers"], namespace["half"]) == ((2, 32, 16), [8, 4], 3)


def test_something_else_than_a_number_is_refused():
    with pytest.raises(ProblemError, match="'rate' is 'fast'"):
        problem().with_reduced({"rate": "fast"})


def test_sites_know_which_numbers_follow_others():
    sites = {site.key: site for site in find_sites(SOURCE)}
    assert sites["dim"].value == 2048
    assert sites["half"].derived
    assert sites["shape[0]"].derived
    assert "name" not in sites


def test_huge_powers_are_not_computed():
    assert find_sites("x = 10 ** 10 ** 10 ** 10\n")[0].value is None


def test_slug_and_digest():
    one = Problem(level=3, id=1, name="MLP", source=SOURCE, origin="x")
    assert one.slug == "3_1_MLP"
    assert Problem(name="../a b\n/c", source=SOURCE, origin="x").slug == "a_b_c"
    assert len(one.sha256) == 64
    assert one.sha256 != Problem(name="MLP", source=SOURCE + "\n", origin="x").sha256


NAMES = st.sampled_from(["n", "batch", "dim", "d_model", "größe", "x1", "seq_len"])
NUMBERS = st.integers(0, 10**6)


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(NAMES, NUMBERS, min_size=1, max_size=6), st.data())
def test_any_constants_become_what_was_asked_for(constants, data):
    noise = data.draw(st.lists(st.sampled_from(["", "# π = 3", "'''\n7 = é\n'''", "if True:\n    é = 5"]), min_size=1))
    lines = [
        f"{name}{data.draw(st.sampled_from(['=', ' = ', ': int = ', '  =(']))}{n}" for name, n in constants.items()
    ]
    lines = [f"{line})  # {line}" if "(" in line else f"{line}; é = 'ü'" for line in lines]
    source = "\n".join([*noise, *lines, *noise])
    wanted = data.draw(st.fixed_dictionaries({}, optional=dict.fromkeys(constants, NUMBERS)))
    namespace: dict[str, object] = {}
    exec(Problem(name="p", source=source, origin="t", reduced=wanted).at("reduced"), namespace)
    assert {name: namespace[name] for name in constants} == constants | wanted
