"""Changes in place of a program: applied word for word, or sent back."""

from __future__ import annotations

import pytest

from stitchcuda.core.records import CandidateSource
from stitchcuda.nodes.engines.chat import CallLimits, ChatCoder, FakeOpenAIServer, open_chat_model
from stitchcuda.nodes.engines.chat.answer_text import AnswerError
from stitchcuda.nodes.engines.chat.patches import patched_source
from stitchcuda.nodes.evidence import CoderEvidence

PREVIOUS = '''import torch

CUDA = """
__global__ void k(float* y, int n) {
  int i = threadIdx.x;
  if (i < n) y[i] = 1.0f;
}
"""


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = x.contiguous()

        return y
'''
BETTER = PREVIOUS.replace("1.0f", "2.0f")

HUNK = """@@ -4,5 +4,5 @@
   int i = threadIdx.x;
-  if (i < n) y[i] = 1.0f;
+  if (i < n) y[i] = 2.0f;
 }
"""


def diff(body: str, tag: str = "diff") -> str:
    return f"Summary: twice.\n```{tag}\n--- a/model.py\n+++ b/model.py\n{body}```\n"


@pytest.mark.parametrize(
    "answer",
    [
        diff(HUNK),
        diff(HUNK, "patch"),
        diff(HUNK.replace("@@ -4,5 +4,5 @@", "@@ -400,3 +400,3 @@")),
        diff(HUNK.replace("@@ -4,5 +4,5 @@", "@@")),
        diff(HUNK.replace("@@ -4,5 +4,5 @@", "@@ def k():")),
        diff(HUNK).replace("\n", "\r\n"),
        f"Apply this:\n--- a/m.py\n+++ b/m.py\n{HUNK}\n",
        "```\n<<<<<<< SEARCH\n  if (i < n) y[i] = 1.0f;\n=======\n  if (i < n) y[i] = 2.0f;\n>>>>>>> REPLACE\n```",
        "<think>\n@@ -1 +1 @@\n-import torch\n+import os\n</think>\n" + diff(HUNK),
        diff("@@ -6,1 +6,1 @@\n-  if (i < n) y[i] = 1.0f;   \n+  if (i < n) y[i] = 2.0f;\n"),
    ],
    ids=["diff", "patch", "wrong_numbers", "no_numbers", "words", "crlf", "no_fence", "search", "think", "blanks"],
)
def test_a_change_that_fits_is_applied(answer: str) -> None:
    assert patched_source(answer, PREVIOUS) == BETTER


def test_several_changes_in_one_answer() -> None:
    second = "@@ -13,3 +13,2 @@\n-        y = x.contiguous()\n-\n-        return y\n+        return x.contiguous()\n"
    patched = patched_source(diff(HUNK + second), PREVIOUS)
    assert patched == BETTER.replace("        y = x.contiguous()\n\n        return y", "        return x.contiguous()")


def test_of_two_places_the_named_one() -> None:
    twice = PREVIOUS.replace("        return y\n", "        y = x.contiguous()\n        return y\n")
    answer = diff("@@ -13,1 +13,1 @@\n-        y = x.contiguous()\n+        y = x.clone()\n")
    patched = patched_source(answer, twice)
    assert patched is not None
    assert patched.index("x.clone()") < patched.index("x.contiguous()")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (diff(HUNK.replace("1.0f", "3.0f")), "it has no such line: '  if (i < n) y[i] = 3.0f;'"),
        (diff(HUNK.replace("   int i = threadIdx.x;\n", "   int i = threadIdx.y;\n")), "no such line"),
        (diff("@@\n-\n+# here\n"), "fits in 4 places"),
        (diff("@@\n-import torch\n+import torch\n"), "leave the program as it was"),
        (diff("@@\n-        return y\n+        return (y\n"), "not valid Python"),
        (diff("@@\n-class ModelNew(torch.nn.Module):\n+class Other(torch.nn.Module):\n"), "does not define ModelNew"),
    ],
)
def test_what_does_not_fit_is_refused(answer: str, said: str) -> None:
    with pytest.raises(AnswerError) as caught:
        patched_source(answer, PREVIOUS)
    assert said in str(caught.value)


@pytest.mark.parametrize("answer", ["no change", "```diff\nnothing\n```", diff("@@ -1,0 +1,1 @@\n+# only new\n"), ""])
def test_an_answer_without_changes_is_none(answer: str) -> None:
    assert patched_source(answer, PREVIOUS) is None


async def test_the_coder_applies_a_diff_or_asks_again(repair_evidence: CoderEvidence) -> None:
    evidence = repair_evidence.model_copy(update={"previous": CandidateSource(source=PREVIOUS, covers=("s0",))})
    with FakeOpenAIServer([diff(HUNK.replace("1.0f", "3.0f")), diff(HUNK)]) as server:
        model = open_chat_model("openai:fake", base_url=server.url)
        candidate, usage = await ChatCoder(model, CallLimits()).write(evidence)
        assert "change 1 does not fit the program" in server.requests[1].text
    assert candidate.source == BETTER
    assert candidate.covers == ("s0", "s1")
    assert usage.calls == 2


async def test_a_diff_of_nothing_is_asked_for_as_a_program(coder_evidence: CoderEvidence) -> None:
    whole = f"```python\n{PREVIOUS}```"
    with FakeOpenAIServer([diff(HUNK), whole]) as server:
        model = open_chat_model("openai:fake", base_url=server.url)
        candidate, _ = await ChatCoder(model, CallLimits()).write(coder_evidence)
        assert "the whole program is needed" in server.requests[1].text
    assert candidate.source == PREVIOUS
