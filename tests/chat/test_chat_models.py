"""Opening a model, and the scripted one that stands in for it."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from pydantic import SecretStr

from stitchcuda.core.errors import ModelError, SettingsError
from stitchcuda.nodes.engines.chat import (
    CallLimits,
    ChatCoder,
    ChatVerifier,
    FakeOpenAIServer,
    ScriptedChatModel,
    open_chat_model,
)
from stitchcuda.nodes.engines.protocols import EngineFailure
from stitchcuda.nodes.evidence import CoderEvidence, VerifierEvidence

PROGRAM = "import torch\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return x\n"
CODE = f"Summary: does it.\n```python\n{PROGRAM}```\n"


def script(folder: Path, value: Any) -> BaseChatModel:
    path = folder / "script.json"
    path.write_text(json.dumps(value))
    return open_chat_model(f"scripted:{path}", timeout_s=5.0, max_retries=1)


# --- opening ----------------------------------------------------------------------------------------------------


def test_the_hosted_service_needs_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-environment")  # read in one module only, and this is not it
    with pytest.raises(ModelError, match="set OPENAI_API_KEY"):
        open_chat_model("openai:gpt-x")
    with pytest.raises(ModelError, match="set OPENAI_API_KEY"):
        open_chat_model("openai:gpt-x", api_key=SecretStr("  "))


def test_the_environment_does_not_redirect_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://elsewhere.invalid/v1")
    monkeypatch.setenv("OPENAI_API_BASE", "http://elsewhere.invalid/v1")
    model = open_chat_model("openai:gpt-x", api_key=SecretStr("sk-1234"))
    assert str(model.root_async_client.base_url).startswith("https://api.openai.com/v1")  # type: ignore[attr-defined]


@pytest.mark.parametrize("spec", ["gpt-x", "openai:", "openai: ", "anthropic:x", "", "scripted:"])
def test_an_unknown_model_is_a_wrong_setting(spec: str) -> None:
    with pytest.raises(SettingsError, match=r"give openai:<model name> or scripted:<file\.json>"):
        open_chat_model(spec, api_key=SecretStr("sk-1234"))


@pytest.mark.parametrize(
    "url", ["localhost:8000", "127.0.0.1:8000/v1", "ftp://x/v1", "http://", "http://x:port/v1", ""]
)
def test_a_base_url_that_is_no_address_is_a_wrong_setting(url: str) -> None:
    with pytest.raises(SettingsError, match="base URL"):
        open_chat_model("openai:x", base_url=url)


async def test_settings_arrive_at_the_endpoint() -> None:
    with FakeOpenAIServer(["a", "b"], key="sk-right") as server:
        key = SecretStr("sk-right")
        plain = open_chat_model("openai:m", base_url=server.url + "/", api_key=key)
        full = open_chat_model("openai:m", base_url=server.url, api_key=key, temperature=0.25, max_output_tokens=99)
        await plain.ainvoke("x")
        await full.ainvoke("x")
        first, second = (request.body for request in server.requests)
    assert "temperature" not in first
    assert not {"max_tokens", "max_completion_tokens"} & first.keys()
    assert second["temperature"] == 0.25
    assert second["max_completion_tokens"] == 99


def test_the_engines_take_their_patience_from_the_model() -> None:
    model = open_chat_model("openai:m", base_url="http://127.0.0.1:9/v1", timeout_s=12.0, max_retries=7)
    limits = CallLimits.of(model)
    assert (limits.timeout_s, limits.max_retries) == (12.0, 7)


def test_nothing_heavy_is_imported_before_it_is_needed() -> None:
    code = (
        "import sys, time; t = time.perf_counter()\n"
        "import stitchcuda.nodes.engines.chat, stitchcuda.nodes.engines.chat.fake_server\n"
        "import stitchcuda.nodes.engines.chat.model\n"
        "heavy = [m for m in ('openai', 'langchain_core', 'langchain_openai', 'torch') if m in sys.modules]\n"
        "assert not heavy, heavy\n"
        "from stitchcuda.nodes.engines.chat import ScriptedChatModel\n"
        "heavy = [m for m in ('openai', 'langchain_openai', 'torch') if m in sys.modules]\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, timeout=60)


def test_an_unknown_name_of_the_door_is_an_attribute_error() -> None:
    import stitchcuda.nodes.engines.chat as door

    for name in door.__all__:
        assert getattr(door, name) is not None
    with pytest.raises(AttributeError, match="ChatPlaner"):
        _ = door.ChatPlaner


# --- the fake server --------------------------------------------------------------------------------------------


def test_the_fake_server_lists_its_models_and_stops_cleanly() -> None:
    import urllib.request

    before = threading.active_count()
    with FakeOpenAIServer(models=["a", "b"]) as server, urllib.request.urlopen(f"{server.url}/models") as reply:
        assert [item["id"] for item in json.load(reply)["data"]] == ["a", "b"]
    assert threading.active_count() <= before


# --- the scripted model -----------------------------------------------------------------------------------------


async def test_a_script_answers_in_order_and_by_role(
    tmp_path: Path, coder_evidence: CoderEvidence, verifier_evidence: VerifierEvidence
) -> None:
    (tmp_path / "good.py").write_text(PROGRAM + "# from the file\n")
    diagnosis = {"evidence": ["e"], "replan": True, "instruction": "i"}
    model = script(
        tmp_path,
        {"roles": {"verifier": [{"json": diagnosis}], "coder": [CODE, {"code_file": "good.py", "output_tokens": 7}]}},
    )
    first, usage = await ChatCoder(model).write(coder_evidence)
    feedback, _ = await ChatVerifier(model).diagnose(verifier_evidence)
    second, second_usage = await ChatCoder(model).write(coder_evidence)
    assert first.source == PROGRAM
    assert feedback.kind == "replan"
    assert second.source.endswith("# from the file\n")
    assert usage.input_tokens > 500
    assert usage.output_tokens == len(CODE) // 4
    assert second_usage.output_tokens == 7
    assert isinstance(model, ScriptedChatModel)
    assert len(model.calls) == 3


def test_a_script_can_be_called_synchronously_and_from_toml(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text('after_last = "repeat"\nanswers = ["one", {text = "two", finish_reason = "length"}]\n')
    model = open_chat_model(f"scripted:{path}")
    assert [model.invoke("x").text for _ in range(3)] == ["one", "two", "two"]
    assert model.invoke("x").response_metadata["finish_reason"] == "length"


@pytest.mark.parametrize(
    ("raised", "code"),
    [("timeout", "timeout"), ("connection", "connection_lost"), (429, "rate_limited"), (500, "server_error")],
)
async def test_a_script_can_fail_for_a_while_and_for_good(
    raised: str | int, code: str, tmp_path: Path, coder_evidence: CoderEvidence
) -> None:
    limits = CallLimits(max_retries=1, backoff_s=0.001)
    model = script(tmp_path, [{"raise": raised}, CODE])
    candidate, usage = await ChatCoder(model, limits).write(coder_evidence)
    assert candidate.source == PROGRAM
    assert usage.calls == 2
    model = script(tmp_path, {"answers": [{"raise": raised}], "after_last": "repeat"})
    with pytest.raises(EngineFailure, match=f"^chat coder: {code}: "):
        await ChatCoder(model, limits).write(coder_evidence)


@pytest.mark.parametrize(("raised", "said"), [(401, "OPENAI_API_KEY"), (404, "not there"), ("unreachable", "reached")])
async def test_a_script_can_end_the_run(
    raised: str | int, said: str, tmp_path: Path, coder_evidence: CoderEvidence
) -> None:
    with pytest.raises(ModelError, match=said):
        await ChatCoder(script(tmp_path, [{"raise": raised}])).write(coder_evidence)


async def test_a_script_that_runs_out_says_so(tmp_path: Path, coder_evidence: CoderEvidence) -> None:
    with pytest.raises(ModelError, match="no answer number 1 for coder"):
        await ChatCoder(script(tmp_path, [])).write(coder_evidence)


@pytest.mark.parametrize(
    "text",
    ["{", "[1]", '{"answer": []}', '[{"text": "a", "json": 1}]', "[{}]", '{"roles": {"cook": []}}', '"x"', "\ufffe"],
)
def test_a_file_that_is_no_script_is_a_wrong_setting(text: str, tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    path.write_text(text)
    with pytest.raises(SettingsError, match=r"s\.json") as caught:
        open_chat_model(f"scripted:{path}")
    assert "\n" not in str(caught.value)


def test_a_missing_script_is_a_wrong_setting(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="No such file"):
        open_chat_model(f"scripted:{tmp_path / 'none.json'}")


async def test_an_exception_that_no_endpoint_causes_keeps_its_traceback(
    tmp_path: Path, coder_evidence: CoderEvidence, monkeypatch: pytest.MonkeyPatch
) -> None:
    def bug(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(ScriptedChatModel, "_result", bug)
    with pytest.raises(ZeroDivisionError):
        await ChatCoder(script(tmp_path, ["x"])).write(coder_evidence)
