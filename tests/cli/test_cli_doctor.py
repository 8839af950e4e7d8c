"""``stitchcuda doctor`` and the choice of a device: what this machine has, and what a lack means."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stitchcuda.core.errors import SettingsError, ToolchainError
from stitchcuda.tools import machine as machine_module
from stitchcuda.tools.machine import (
    Gpu,
    Machine,
    Torch,
    broken_links,
    choose_device,
    inspect_machine,
    inspect_torch,
    resolve_device,
)
from stitchcuda.tools.machine_checks import check_machine, usable_devices
from stitchcuda.tools.programs import Program, find_ncu, find_nsys, find_nvcc

GPU = Gpu(index=0, name="H200", memory_bytes=140 * 2**30, compute_capability="9.0", multiprocessors=132)


def complete(**changes: Any) -> Machine:
    values: dict[str, Any] = {
        "python": "3.12.1",
        "executable": "/usr/bin/python3",
        "platform": "Linux",
        "cpu": "a CPU",
        "cpus": 16,
        "memory_bytes": 2**37,
        "torch": Torch(version="2.11.0+cu130", cuda="13.0"),
        "packages": {},
        "gxx": Program(path="/usr/bin/g++", version="12.2.0"),
        "nvcc": Program(path="/usr/local/cuda/bin/nvcc", version="13.0"),
        "gpus": (GPU,),
        "driver": "580.1",
        "driver_cuda": "13.0",
        "nsys": Program(path="/usr/bin/nsys", version="2025.3"),
        "ncu": Program(path="/usr/bin/ncu", version="2025.3"),
        "counters_restricted": False,
        "sandbox": {"namespaces": True},
        "keys": {"OPENAI_API_KEY": True},
        "cache_dir": "/cache",
        "cache_free_bytes": 2**40,
    }
    return Machine(**{**values, **changes})


def states(machine: Machine) -> dict[str, str]:
    return {check.name: check.state for check in check_machine(machine) if check.state != "ok"}


def test_a_complete_machine_lacks_nothing():
    assert states(complete()) == {}
    assert usable_devices(complete()) == ("cuda:0", "cpu")


@pytest.mark.parametrize(
    ("changes", "lack", "devices"),
    [
        ({"torch": None}, {"torch": "missing"}, ()),
        ({"gxx": None}, {"g++": "missing"}, ()),
        ({"broken_links": ("graph",)}, {"links": "missing"}, ()),
        ({"gpus": ()}, {"gpu": "limited"}, ("cpu",)),
        ({"nvcc": None}, {"nvcc": "limited"}, ("cpu",)),
        ({"torch": Torch(version="2.13.0+cpu", cuda=None)}, {"torch": "limited"}, ("cpu",)),
        ({"nvcc": Program(path="/nvcc", version="12.4")}, {"nvcc": "limited"}, ("cuda:0", "cpu")),
        ({"driver_cuda": "12.4"}, {"gpu": "limited"}, ("cuda:0", "cpu")),
        ({"nsys": None}, {"nsys": "limited"}, ("cuda:0", "cpu")),
        ({"ncu": None}, {"ncu": "limited"}, ("cuda:0", "cpu")),
        ({"counters_restricted": True}, {"ncu": "limited"}, ("cuda:0", "cpu")),
        ({"sandbox": {"namespaces": False}}, {"sandbox": "limited"}, ("cuda:0", "cpu")),
        ({"keys": {"OPENAI_API_KEY": False}}, {"OPENAI_API_KEY": "limited"}, ("cuda:0", "cpu")),
        ({"cache_free_bytes": 2**20}, {"cache": "limited"}, ("cuda:0", "cpu")),
    ],
)
def test_each_lack_has_a_meaning_and_something_to_do(changes, lack, devices):
    machine = complete(**changes)
    assert states(machine) == lack
    assert usable_devices(machine) == devices
    for check in check_machine(machine):
        assert check.state == "ok" or (check.meaning and check.action)


def test_doctor_on_this_machine(cli):
    done = cli("doctor", "--json")
    assert done.code == 0
    assert "cpu" in done.json["devices"]
    facts = done.json["machine"]
    assert facts["torch"]["version"].startswith("2.")
    assert facts["gxx"]["version"]
    shown = cli("doctor")
    assert f"g++ {facts['gxx']['version']}" in " ".join(shown.out.split())
    assert "solve can run on:" in shown.out


def test_doctor_on_a_bare_path_says_what_is_missing(tmp_path):
    code = "import sys; from stitchcuda.cli.main import main; sys.exit(main(['doctor']))"
    environment = {"PATH": str(tmp_path), "HOME": str(tmp_path), "STITCHCUDA_CACHE_DIR": str(tmp_path / "c")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=60)
    assert done.returncode == 3
    assert done.stderr == ""
    assert "!! g++" in done.stdout
    assert "install a C++ compiler" in done.stdout
    assert "solve cannot run here" in done.stdout


def test_looking_at_the_machine_does_not_import_torch():
    code = "import sys; from stitchcuda.tools import inspect_machine; inspect_machine(); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "False"


def test_torch_version_without_importing_it():
    found = inspect_torch()
    assert found is not None
    assert found.version.split("+")[0] == importlib.metadata.version("torch").split("+")[0]
    assert (found.cuda is None) == found.version.endswith("+cpu")


def program(path: Path, text: str = "version 1.2.3") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{text}'\n")
    path.chmod(0o755)
    return path


def test_programs_off_the_path_are_found(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    assert find_nsys(tmp_path) is find_ncu(None, tmp_path) is find_nvcc(None, tmp_path) is None
    inside = program(tmp_path / "opt/nvidia/nsight-compute/2025.3.0/host/target-linux-x64/nsys")
    assert find_nsys(tmp_path) == inside
    newer = program(tmp_path / "opt/nvidia/nsight-compute/2025.10.0/host/target-linux-x64/nsys")
    assert find_nsys(tmp_path) == newer
    alone = program(tmp_path / "opt/nvidia/nsight-systems/2025.1.1/bin/nsys")
    assert find_nsys(tmp_path) == alone
    ncu = program(tmp_path / "opt/nvidia/nsight-compute/2025.3.0/ncu")
    assert find_ncu(None, tmp_path) == ncu
    nvcc = program(tmp_path / "usr/local/cuda/bin/nvcc")
    assert find_nvcc(None, tmp_path) == nvcc
    home = program(tmp_path / "cuda-12/bin/nvcc")
    assert find_nvcc(tmp_path / "cuda-12", tmp_path) == home
    monkeypatch.setenv("PATH", str(program(tmp_path / "bin/nsys").parent))
    assert find_nsys(tmp_path) == tmp_path / "bin/nsys"


def test_versions_are_read_and_a_silent_program_is_still_there(tmp_path, monkeypatch):
    program(tmp_path / "g++", "g++ (Debian 12.2.0-14) 12.2.0")
    program(tmp_path / "nvcc", "Cuda compilation tools, release 13.0, V13.0.48")
    program(tmp_path / "nsys", "NVIDIA Nsight Systems version 2025.3.2.474")
    program(tmp_path / "ncu", "what?")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.delenv("CUDA_HOME", raising=False)
    machine = inspect_machine()
    found = [machine.gxx, machine.nvcc, machine.nsys, machine.ncu]
    assert [one and one.version for one in found] == ["12.2.0", "13.0", "2025.3.2.474", ""]
    assert "does not answer" in next(check.value for check in check_machine(machine) if check.name == "ncu")


def test_a_checkout_without_symbolic_links_is_noticed(tmp_path):
    package = Path(machine_module.__file__).parent.parent
    assert broken_links(package) == ()
    for room in machine_module.ROOMS:
        (tmp_path / room).write_text(f"../../{room}")
    assert broken_links(tmp_path) == machine_module.ROOMS


@pytest.mark.parametrize(
    ("gpus", "torch", "nvcc", "auto", "why"),
    [
        ((GPU,), "13.0", True, "cuda:0", ""),
        ((), "13.0", True, "cpu", "no driver"),
        ((GPU,), None, True, "cpu", "CPU build"),
        ((GPU,), "13.0", False, "cpu", "nvcc"),
    ],
)
def test_auto_takes_a_gpu_only_when_all_of_it_is_there(monkeypatch, gpus, torch, nvcc, auto, why):
    monkeypatch.setattr(machine_module, "inspect_gpus", lambda: (gpus, "" if gpus else "no driver", ""))
    monkeypatch.setattr(machine_module, "inspect_torch", lambda: Torch(version="2.13.0", cuda=torch))
    monkeypatch.setattr(machine_module, "find_nvcc", lambda _home: Path("/nvcc") if nvcc else None)
    device, reason = choose_device("auto")
    assert device == auto
    assert why in reason
    assert resolve_device("cpu") == "cpu"
    if auto == "cpu":
        with pytest.raises(ToolchainError, match=why):
            resolve_device("cuda")
    else:
        assert resolve_device("cuda") == "cuda:0"
        with pytest.raises(ToolchainError, match="shows 1 GPU"):
            resolve_device("cuda:1")


@pytest.mark.parametrize("device", ["", "gpu", "cuda:", "cuda:x", "cuda:-1", "0"])
def test_a_wrong_device_is_a_wrong_setting(device):
    with pytest.raises(SettingsError):
        resolve_device(device)


@pytest.mark.gpu
def test_the_gpu_is_seen():
    machine = inspect_machine()
    assert machine.gpus[0].name
    assert machine.gpus[0].memory_bytes > 2**30
    assert os.environ.get("CUDA_VISIBLE_DEVICES") == "" or resolve_device("auto") == "cuda:0"
