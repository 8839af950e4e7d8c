"""`langgraph dev`, for real: started offline and without a key, driven through its SDK to the end of a run."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import BadRequestError

from stitchcuda.traces import read_trace, tree

pytestmark = pytest.mark.xdist_group("dev_server")

REPOSITORY = Path(__file__).parents[2]
START_S = 90


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """The dev server on a copy of ``langgraph.json`` elsewhere, so that its state does not land in the checkout."""
    home = tmp_path_factory.mktemp("dev")
    shutil.copy(REPOSITORY / "langgraph.json", home)
    (home / ".env").write_text("")
    (home / "pyproject.toml").write_text(
        '[project]\nname = "served"\nversion = "0"\n[tool.setuptools]\npackages = []\n'
    )
    port = free_port()
    log = home / "server.log"
    environment = os.environ | {"LANGSMITH_TRACING": "false", "LANGGRAPH_CLI_NO_ANALYTICS": "1", "NO_COLOR": "1"}
    # As a user's server: it has no way yet to be told which types a checkpoint may hold.
    environment["LANGGRAPH_STRICT_MSGPACK"] = "false"
    command = [
        str(Path(sys.executable).parent / "langgraph"),
        "dev",
        "--no-browser",
        "--no-reload",
        "--port",
        str(port),
    ]
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, cwd=home, env=environment, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
        )
    url = f"http://127.0.0.1:{port}"
    try:
        _wait(url, process, log)
        yield url, log
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    # Of all that was done with it: nothing held up the event loop.
    text = log.read_text()
    assert not re.search(r"BlockingError|Blocking call", text), text[-2000:]
    assert "Blocked deserialization" not in text


def _wait(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        try:
            if httpx.get(f"{url}/ok", timeout=2).status_code == 200:
                return
        except httpx.HTTPError:
            time.sleep(0.3)
    raise AssertionError(f"the dev server did not start:\n{log.read_text()[-3000:]}")


@pytest.fixture
async def client(server: tuple[str, Path]) -> AsyncIterator[LangGraphClient]:
    async with get_client(url=server[0], api_key=None) as one:
        yield one


def assert_traced(run_dir: Path) -> None:
    """The run's trace lies in its folder, from the first step on, although the folder was not known then."""
    records = read_trace(run_dir / "trace.jsonl")
    (root,) = tree(records)
    assert root.run.status == "success"
    by_name = {record.name: record for record in records}
    assert by_name["describe"].dotted_order.startswith(by_name["load_problem"].dotted_order + ".")
    show = [Path(sys.executable).parent / "stitchcuda", "trace", "show", run_dir]
    shown = subprocess.run(show, capture_output=True, text=True, check=True).stdout
    for name in ("load_problem", "describe", "engine.planner", "engine.coder", "evaluator.build", "diagnose", "report"):
        assert re.search(rf"─ {re.escape(name)}  ", shown), shown
    assert "passed" in shown


@pytest.mark.timeout(280)
async def test_a_run_streams_to_its_end(client: LangGraphClient, tmp_path: Path) -> None:
    thread = await client.threads.create()
    steps: list[str] = []
    messages: list[str] = []
    async for part in client.runs.stream(
        thread["thread_id"],
        "stitchcuda",
        input={"problem_path": str(REPOSITORY / "examples" / "03_softmax_temperature.py")},
        context={"device": "cpu", "runs_dir": str(tmp_path), "trials": 2, "cross_compile": None},
        stream_mode=["updates", "custom"],
        stream_subgraphs=True,
    ):
        kind = part.event.partition("|")[0]
        assert kind != "error", part.data
        if kind == "updates":
            steps += part.data.keys()
        elif kind == "custom":
            messages.append(part.data["message"])
    assert steps[:3] == ["load_problem", "profile_reference", "planner"]
    assert steps[-2:] == ["route", "report"]
    assert {"build", "screen", "check", "diagnose"} <= set(steps)
    assert messages

    state = await client.threads.get_state(thread["thread_id"])
    best = state["values"]["best"]
    assert best["evaluation"]["status"] == "passed"
    assert best["evaluation"]["check"]["own_kernel_launches"] >= 1
    run_dir = Path(state["values"]["run_dir"])
    assert run_dir.parent == tmp_path
    assert "load_inline" in (run_dir / "best.py").read_text()
    assert "**passed**" in (run_dir / "report.md").read_text()
    await asyncio.to_thread(assert_traced, run_dir)


async def test_the_form_shows_every_setting(client: LangGraphClient) -> None:
    """Studio builds its forms from these schemas: each setting with its description."""
    assistants = await client.assistants.search(graph_id="stitchcuda")
    schemas = await client.assistants.get_schemas(assistants[0]["assistant_id"])
    settings = schemas["context_schema"]["properties"]
    assert {"device", "policy", "coder", "max_attempts", "review_plan"} <= settings.keys()
    assert all(setting.get("description") for setting in settings.values())
    assert {"problem_path", "kernelbench", "level", "id"} <= schemas["input_schema"]["properties"].keys()


async def test_a_bad_problem_is_one_clear_line(client: LangGraphClient, tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("class Model(:\n")
    thread = await client.threads.create()
    errors = [
        part.data
        async for part in client.runs.stream(
            thread["thread_id"],
            "stitchcuda",
            input={"problem_path": str(broken)},
            context={"device": "cpu", "runs_dir": str(tmp_path)},
            stream_mode=["updates"],
        )
        if part.event == "error"
    ]
    assert len(errors) == 1
    assert errors[0]["error"] == "ProblemError"
    assert "broken.py" in errors[0]["message"]


# Stepping through a run, as Studio does.

EXAMPLE = str(REPOSITORY / "examples" / "03_softmax_temperature.py")
GONE_S = 2.0


def settings(runs_dir: Path, **more: Any) -> dict[str, Any]:
    return {"device": "cpu", "runs_dir": str(runs_dir), "trials": 2, "cross_compile": None, "retrieval": False, **more}


@pytest.mark.timeout(280)
async def test_a_plan_is_edited_and_a_run_forked(client: LangGraphClient, tmp_path: Path) -> None:
    """Interrupt, edit the plan, resume; then fork from before the Coder with another plan, and both branches stay."""
    thread_id = (await client.threads.create())["thread_id"]
    context = settings(tmp_path, review_plan=True)
    await client.runs.wait(thread_id, "stitchcuda", input={"problem_path": EXAMPLE}, context=context)
    waiting = await client.threads.get_state(thread_id)
    assert waiting["next"] == ["review_plan"]
    (question,) = waiting["interrupts"]
    plan = question["value"]["plan"]
    assert plan["subtasks"]

    plan["summary"] = "edited while it waited"
    await client.runs.wait(thread_id, "stitchcuda", command={"resume": plan}, context=context)
    done = await client.threads.get_state(thread_id)
    assert done["next"] == []
    values = done["values"]
    assert values["plan"]["summary"] == "edited while it waited"
    assert values["best"]["evaluation"]["status"] == "passed"
    plan_file = Path(values["run_dir"]) / "plans" / "00.json"
    assert "edited while it waited" in await asyncio.to_thread(plan_file.read_text)

    history = await client.threads.get_history(thread_id, limit=50)
    before_coder = next(one for one in reversed(history) if one["next"] == ["coder"])
    forked_plan = before_coder["values"]["plan"] | {"summary": "another way", "rationale": "forked"}
    forked = await client.threads.update_state(
        thread_id, {"plan": forked_plan}, checkpoint=before_coder["checkpoint"], as_node="review_plan"
    )
    await client.runs.wait(thread_id, "stitchcuda", input=None, checkpoint=forked["checkpoint"], context=context)
    end = await client.threads.get_state(thread_id)
    assert end["next"] == []
    assert end["values"]["plan"]["summary"] == "another way"
    assert [attempt["status"] for attempt in end["values"]["attempts"]] == ["passed"]
    old = await client.threads.get_state(thread_id, checkpoint=done["checkpoint"])
    assert old["values"]["plan"]["summary"] == "edited while it waited"
    # Both branches are in the trace: the review before the edit, the edit's run and the fork's.
    assert len(tree(read_trace(Path(values["run_dir"]) / "trace.jsonl"))) == 3


@pytest.mark.timeout(280)
async def test_other_records_are_edited_too(client: LangGraphClient, tmp_path: Path) -> None:
    """A verdict's consequences, changed by hand, are followed; what is no record is refused in one line."""
    thread_id = (await client.threads.create())["thread_id"]
    context = settings(tmp_path)
    await client.runs.wait(thread_id, "stitchcuda", input={"problem_path": EXAMPLE}, context=context)
    history = await client.threads.get_history(thread_id, limit=50)
    before_route = next(one for one in reversed(history) if one["next"] == ["route"])
    edits = {
        "feedback": before_route["values"]["feedback"] | {"instruction": "asked for by a person"},
        "decision": {"kind": "stop", "reason": "nothing_left"},
        "evaluation": before_route["values"]["evaluation"] | {"message": "looked at by a person"},
        "candidate": before_route["values"]["candidate"],
        "best": before_route["values"]["best"],
        "device": before_route["values"]["device"],
    }
    forked = await client.threads.update_state(thread_id, edits, checkpoint=before_route["checkpoint"], as_node="route")
    await client.runs.wait(thread_id, "stitchcuda", input=None, checkpoint=forked["checkpoint"], context=context)
    end = await client.threads.get_state(thread_id)
    assert end["next"] == []
    assert end["values"]["feedback"]["instruction"] == "asked for by a person"
    assert end["values"]["decision"]["reason"] == "nothing_left"
    report = Path(end["values"]["report_path"])
    assert "sees nothing left to gain" in await asyncio.to_thread(report.read_text)

    with pytest.raises(BadRequestError) as refused:
        await client.threads.update_state(thread_id, {"decision": {"kind": "dance", "reason": "x"}}, as_node="route")
    told = str(refused.value.body)
    assert "'decision' cannot be set to this: kind: Input should be 'repair', 'optimise'" in told
    assert (await client.threads.get_state(thread_id))["values"] == end["values"]


SLOW = '''
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <torch/extension.h>

template <int A, int B> struct Deep {{
  static constexpr long value = Deep<A - 1, B>::value + Deep<A, B - 1>::value % 7;
}};
template <int B> struct Deep<0, B> {{ static constexpr long value = B; }};
template <int A> struct Deep<A, 0> {{ static constexpr long value = A; }};

__global__ void k(float* x, int n) {{
  int i = threadIdx.x;
  if (i < n) x[i] = Deep<400, 400>::value;
}}

torch::Tensor slow(torch::Tensor x) {{ k<<<1, 32>>>(x.data_ptr<float>(), 32); return x; }}
"""

kernels = load_inline(
    name="{name}", cpp_sources="torch::Tensor slow(torch::Tensor x);", cuda_sources=CUDA, functions=["slow"]
)


class ModelNew(nn.Module):
    def forward(self, x):
        return kernels.slow(x)
'''


def compilers(name: str) -> list[str]:
    """Command lines of compilers at work on the extension ``name``."""
    found = []
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        try:
            command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            folder = (process / "cwd").readlink().name if "cc1plus" in command else ""
        except OSError:  # it ended meanwhile
            continue
        if "cc1plus" in command and name in command + folder:
            found.append(command)
    return found


@pytest.mark.timeout(280)
async def test_a_run_is_cancelled_in_the_middle_of_a_build(client: LangGraphClient, tmp_path: Path) -> None:
    name = f"slow_{os.urandom(4).hex()}"
    script = tmp_path / "script.json"
    answer = f"Summary: slow.\n```python\n{SLOW.format(name=name)}\n```"
    script.write_text(json.dumps({"roles": {"coder": [answer] * 3}}))
    thread_id = (await client.threads.create())["thread_id"]
    context = settings(tmp_path, coder=f"scripted:{script}")
    run = await client.runs.create(thread_id, "stitchcuda", input={"problem_path": EXAMPLE}, context=context)
    deadline = time.monotonic() + 150
    while not compilers(name):
        assert time.monotonic() < deadline, "no compiler was started"
        assert (await client.runs.get(thread_id, run["run_id"]))["status"] in ("pending", "running")
        await asyncio.sleep(0.1)
    await client.runs.cancel(thread_id, run["run_id"], wait=False)
    cancelled = time.monotonic()
    while compilers(name):
        assert time.monotonic() - cancelled < GONE_S, compilers(name)
        await asyncio.sleep(0.05)
    await client.runs.join(thread_id, run["run_id"])
    assert (await client.runs.get(thread_id, run["run_id"]))["status"] == "interrupted"
    state = await client.threads.get_state(thread_id)
    assert state["values"]["candidate"]["id"] == 1  # what was reached before the cancel is kept
