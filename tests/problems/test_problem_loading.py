"""Problems from files, folders, a checkout and the data set; and one clear line for each kind of bad file."""

from __future__ import annotations

import os
import subprocess
import sys
import types
from pathlib import Path

import pytest

from stitchcuda.core.errors import ProblemError, SettingsError, StitchError, ToolchainError
from stitchcuda.problems import Problem, load_folder, load_huggingface, load_kernelbench, load_problem

GOOD = """\
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x)

batch_size = 4096

def get_inputs():
    return [torch.rand(batch_size, 16)]

def get_init_inputs():
    return []
"""


def write(path: Path, text: str | bytes = GOOD) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for level, names in {
        1: ["1_Add_", "2_Mul", "10_Softmax"],
        2: ["1_Conv"],
        3: ["9_ResNet18", "11_VGG", "12_X", "40_Y"],
    }.items():
        for name in names:
            write(tmp_path / "bench" / "KernelBench" / f"level{level}" / f"{name}.py", GOOD + f"# {name}\n")
    write(tmp_path / "bench" / "KernelBench" / "level1" / "__init__.py", "")
    write(tmp_path / "bench" / "README.md", "# a benchmark")
    return tmp_path / "bench"


# --- one file ---------------------------------------------------------------------------------------------------


def test_a_file(tmp_path):
    path = write(tmp_path / "12_Gemm_Multiply_.py")
    assert load_problem(path) == Problem(id=12, name="Gemm_Multiply", source=GOOD, origin=str(path))


def test_a_file_without_a_number(tmp_path):
    problem = load_problem(write(tmp_path / "mine.py"))
    assert (problem.id, problem.name, problem.slug) == (None, "mine", "mine")


def test_own_small_sizes_are_read(tmp_path):
    path = write(tmp_path / "a.py", GOOD + 'REDUCED: dict[str, int] = {"batch_size": 2}\n')
    assert load_problem(path).reduced == {"batch_size": 2}


def test_get_init_inputs_may_be_missing(tmp_path):
    assert load_problem(write(tmp_path / "a.py", GOOD.split("def get_init_inputs")[0])).name == "a"


def test_a_model_may_be_defined_conditionally_or_imported(tmp_path):
    conditional = "if True:\n    class Model: ...\nelse:\n    Model = None\ndef get_inputs(): ...\n"
    assert load_problem(write(tmp_path / "a.py", conditional))
    assert load_problem(write(tmp_path / "b.py", "from net import Net as Model\ndef get_inputs(): ...\n"))


def test_byte_order_mark_and_windows_line_ends(tmp_path):
    path = write(tmp_path / "a.py", b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode())
    assert load_problem(path).source == GOOD


BAD_FILES = {
    "binary": (b"\x7fELF\x00\x00\x01", "binary file, not a Python program"),
    "not_utf8": (GOOD.encode() + b"# caf\xe9\n", "line 15: the file is not UTF-8"),
    "syntax": (GOOD + "x = = 3\n", "line 15, column 5: not valid Python"),
    "prose": ("Dear reader, this is no program.\n", "line 1, column 6: not valid Python"),
    "indentation": ("def f():\npass\n", "line 2"),
    "empty": ("  \n", "the file is empty"),
    "no_model": (GOOD.replace("class Model", "class Net"), "no class Model; name the reference"),
    "candidate": (GOOD.replace("class Model", "class ModelNew"), "looks like a candidate"),
    "no_inputs": (GOOD.replace("get_inputs", "inputs"), "no function get_inputs"),
    "deep": ("x = " + "(" * 5000 + ")" * 5000 + "\n", "not valid Python"),
    "computed_reduced": (GOOD + "REDUCED = dict(batch_size=2)\n", "line 15: REDUCED must be a literal"),
    "unknown_reduced": (GOOD + 'REDUCED = {"batch": 2}\n', "no module-level number 'batch'"),
    "text_reduced": (GOOD + 'REDUCED = {"batch_size": "few"}\n', "only numbers can be exchanged"),
}


@pytest.mark.parametrize("kind", BAD_FILES)
def test_bad_files(tmp_path, kind):
    text, message = BAD_FILES[kind]
    path = write(tmp_path / f"{kind}.py", text)
    told(message, load_problem, path, naming=str(path))


def test_missing_file(tmp_path):
    told("no such file", load_problem, tmp_path / "no.py", naming="no.py")


def test_folder_where_a_file_is_needed(tmp_path):
    told("this is a folder; give one .py file", load_problem, tmp_path, naming=str(tmp_path))


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_unreadable_file(tmp_path):
    path = write(tmp_path / "a.py")
    path.chmod(0)
    told("cannot be read", load_problem, path, naming=str(path))


def test_huge_file(tmp_path):
    told("larger than 4 MB", load_problem, write(tmp_path / "a.py", b"#" * 5_000_000), naming="a.py")


# --- folders ----------------------------------------------------------------------------------------------------


def test_a_folder_is_loaded_by_id_then_name(tmp_path):
    for name in ["10_c.py", "9_b.py", "z.py", "a.py", "_hidden.py", "notes.txt"]:
        write(tmp_path / name)
    assert [problem.slug for problem in load_folder(tmp_path)] == ["9_b", "10_c", "a", "z"]


def test_empty_and_missing_folders(tmp_path):
    told("no .py files", load_folder, tmp_path, naming=str(tmp_path))
    told("no such folder", load_folder, tmp_path / "no", naming="no")
    told("a file, not a folder", load_folder, write(tmp_path / "a.py"), naming="a.py")


# --- KernelBench ------------------------------------------------------------------------------------------------


def test_a_level_of_a_checkout(checkout):
    problems = load_kernelbench(checkout, 1)
    assert [problem.slug for problem in problems] == ["1_1_Add", "1_2_Mul", "1_10_Softmax"]
    assert problems[0].origin.endswith("level1/1_Add_.py")


def test_chosen_ids_keep_their_order(checkout):
    assert [problem.id for problem in load_kernelbench(checkout, 3, [40, 9])] == [40, 9]


def test_the_inner_folder_can_be_given(checkout):
    inner = checkout / "KernelBench"
    assert load_kernelbench(inner, 3, [9]) == load_kernelbench(checkout, 3, [9])


def test_wrong_checkout_level_and_id(checkout, tmp_path):
    told("no such folder", load_kernelbench, tmp_path / "no", 1)
    told("no level folders here", load_kernelbench, checkout / "KernelBench" / "level1", 1)
    told("there is no level 4; it has levels 1-3", load_kernelbench, checkout, 4)
    told("there is no problem 10; ids are 9, 11-12, 40", load_kernelbench, checkout, 3, [10])


def test_many_ids_are_shortened(tmp_path):
    for number in range(1, 60, 2):
        write(tmp_path / "level1" / f"{number}_a.py")
    told("ids are 1, 3, 5, 7, 9, 11, … 59", load_kernelbench, tmp_path, 1, [2])


def test_an_empty_level(tmp_path):
    (tmp_path / "level1").mkdir()
    told("no problems here", load_kernelbench, tmp_path, 1)


# --- Hugging Face -----------------------------------------------------------------------------------------------


@pytest.fixture
def data_set(monkeypatch):
    """A module named ``datasets`` that holds a small copy of the format; its ``failure`` is raised when set."""
    rows = {
        "level_1": [
            {"code": GOOD, "level": 1, "name": "2_Mul", "problem_id": 2},
            {"code": GOOD, "level": 1, "name": "1_Add_", "problem_id": 1},
        ]
    }
    module = types.SimpleNamespace(failure=None, rows=rows)

    def load_dataset(name, *, split):
        assert name == "ScalingIntelligence/KernelBench"
        if module.failure:
            raise module.failure
        if split not in rows:
            raise ValueError(f"Unknown split {split!r}. Should be one of {list(rows)}.")
        return rows[split]

    module.load_dataset = load_dataset
    monkeypatch.setitem(sys.modules, "datasets", module)
    return module


@pytest.mark.usefixtures("data_set")
def test_the_data_set_gives_what_a_checkout_gives(tmp_path):
    write(tmp_path / "level1" / "1_Add_.py")
    write(tmp_path / "level1" / "2_Mul.py")
    fields = {"level", "id", "name", "source"}
    from_files = [problem.model_dump(include=fields) for problem in load_kernelbench(tmp_path, 1)]
    from_rows = load_huggingface(1)
    assert [problem.model_dump(include=fields) for problem in from_rows] == from_files
    assert from_rows[0].origin == "ScalingIntelligence/KernelBench:level_1/1"
    assert [problem.id for problem in load_huggingface(1, [2])] == [2]


def test_what_the_data_set_does_not_have(data_set):
    told("Unknown split 'level_7'", load_huggingface, 7, error=SettingsError)
    told("there is no problem 5; ids are 1-2", load_huggingface, 1, [5])
    data_set.rows["level_1"] = [{"text": "x"}]
    told("no column 'problem_id'", load_huggingface, 1)


def test_offline(data_set):
    data_set.failure = ConnectionError("Couldn't reach\nthe hub")
    told("cannot be fetched (Couldn't reach the hub); check the network", load_huggingface, 1, error=ToolchainError)


def test_without_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    told("needs the 'datasets' package", load_huggingface, 1, error=ToolchainError)


# --- nothing is executed ----------------------------------------------------------------------------------------


def test_loading_executes_nothing_and_imports_no_torch(tmp_path):
    path = write(tmp_path / "a.py", GOOD + f"open({str(tmp_path / 'ran')!r}, 'w')\nraise SystemExit(9)\n")
    program = (
        "import sys, pathlib\n"
        "from stitchcuda.problems import load_problem\n"
        f"load_problem(pathlib.Path({str(path)!r})).at('reduced')\n"
        "import stitchcuda.problems.describe, stitchcuda.problems.reduce\n"
        "print(sorted({'torch', 'numpy', 'datasets'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr
    assert not (tmp_path / "ran").exists()


def told(message, function, *arguments, error: type[StitchError] = ProblemError, naming: str = "") -> None:
    """The call fails with one line that contains ``message`` and names the thing at fault."""
    with pytest.raises(error) as caught:
        function(*arguments)
    line = str(caught.value)
    assert message in line
    assert naming in line
    assert "\n" not in line
    assert caught.value.exit_code in (2, 3)
