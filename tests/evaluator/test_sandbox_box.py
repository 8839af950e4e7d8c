"""Compilers see headers and libraries, and nothing of the user's."""

from __future__ import annotations

import os
import shutil
import sys

import pytest

from stitchcuda.core.process import run_command
from stitchcuda.tools.build import Builder, ExtensionSpec
from stitchcuda.tools.sandbox import boxed, sandbox_features

pytestmark = pytest.mark.skipif(not sandbox_features()["landlock"], reason="this machine has no landlock")


def _compile(folder, text: str, **limits: int):
    (folder / "source.cpp").write_text(text)
    command = boxed(["g++", "-c", "source.cpp", "-o", "source.o"], folder=folder, **limits)
    return run_command(command, timeout_s=60, cwd=folder)


def test_a_program_compiles_links_and_runs_in_the_box(tmp_path):
    (tmp_path / "source.cpp").write_text("#include <vector>\n#include <cstdio>\nint main() { std::puts(__FILE__); }")
    command = boxed(["g++", "source.cpp", "-o", "program"], folder=tmp_path)
    assert run_command(command, timeout_s=60, cwd=tmp_path).output == ""
    assert run_command([str(tmp_path / "program")], timeout_s=5).output == "source.cpp\n"


@pytest.mark.parametrize("how", ['#include "{path}"', 'asm(".incbin \\"{path}\\"");', '#embed "{path}"'])
def test_a_source_cannot_pull_in_files_of_this_machine(tmp_path, how):
    secret = tmp_path / "home" / "secret"
    secret.parent.mkdir()
    secret.write_text("key=1234567")
    folder = tmp_path / "work"
    folder.mkdir()
    for path in ("/etc/passwd", str(secret)):
        done = _compile(folder, how.replace("{path}", path))
        assert done.returncode != 0
        assert "1234567" not in done.output
        assert "root:" not in done.output


def test_the_compiler_sees_no_keys_and_writes_nowhere_else(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1234567")
    folder = tmp_path / "work"
    folder.mkdir()
    script = 'env; echo x > ../left; : > "$TMPDIR/mine"; cat /etc/hostname'
    done = run_command(boxed(["sh", "-c", script], folder=folder), timeout_s=10, cwd=folder)
    assert "sk-1234567" not in done.output
    assert f"TMPDIR={folder}" in done.output
    assert (folder / "mine").exists()
    assert not (tmp_path / "left").exists()
    assert "hostname: Permission denied" in done.output


def test_the_compilers_memory_and_files_are_limited(tmp_path):
    assert _compile(tmp_path, "#include <vector>", memory_bytes=32 << 20).returncode != 0
    assert _compile(tmp_path, "char a[1 << 24] = {1};", file_bytes=1 << 20).returncode != 0
    assert _compile(tmp_path, "char a[1 << 24] = {1};").returncode == 0


def test_a_compiler_that_is_missing_says_so(tmp_path):
    done = run_command(boxed(["no-such-compiler"], folder=tmp_path), timeout_s=10, cwd=tmp_path)
    assert (done.returncode, done.output) == (127, "cannot run no-such-compiler: No such file or directory\n")


def test_the_box_has_no_network(tmp_path):
    program = "import socket; socket.socket()"
    done = run_command(boxed([sys.executable, "-I", "-c", program], folder=tmp_path), timeout_s=10, cwd=tmp_path)
    assert "PermissionError" in done.output


def test_an_extension_cannot_leak_through_its_diagnostics(tmp_path):
    """The whole way of a candidate: its source, our builder, the messages that are shown."""
    secret = tmp_path / "secret"
    secret.write_text("key=1234567;\n")
    if shutil.which("g++") is None:
        pytest.skip("no g++")
    spec = ExtensionSpec(
        name="leaky",
        cpp_sources=(f'#include "{secret}"\nat::Tensor f(at::Tensor x) {{ return x; }}',),
        cuda_sources=(),
        functions=("f",),
        extra_cflags=(),
        extra_cuda_cflags=(),
        extra_ldflags=(),
        extra_include_paths=(),
    )
    built = Builder(tmp_path / "store", timeout_s=300).build(spec, "cpu")
    assert not built.ok
    assert "1234567" not in built.model_dump_json()
    assert os.fspath(secret) in built.model_dump_json()  # the message says which file, not what is in it
