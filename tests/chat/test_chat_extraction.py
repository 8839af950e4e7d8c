"""Raw answers as chat models write them, and the program that must be found in each."""

from __future__ import annotations

import time

import pytest

from stitchcuda.nodes.engines.chat.answer_text import AnswerError, join_continuation, plain_text, prose_summary
from stitchcuda.nodes.engines.chat.answers import PlanAnswer, parse_answer
from stitchcuda.nodes.engines.chat.extraction import extract_source

GOOD = "import torch\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return x + 1\n"
DRAFT = GOOD.replace("x + 1", "x + 2")
HELPER = 'KERNEL = r"""\n__global__ void k() {}\n"""\n'
USES_HELPER = GOOD.replace("x + 1", "len(KERNEL) + x")
QUOTING = (
    'import torch\n\nclass ModelNew(torch.nn.Module):\n    """Usage:\n\n```\nModelNew()(x)\n```\n    """\n\n'
    "    def forward(self, x):\n        return x + 1\n"
)
BROKEN = GOOD.replace("return x + 1", "return (x + 1")


def fence(text: str, tag: str = "python", mark: str = "```") -> str:
    return f"{mark}{tag}\n{text}{mark}\n"


CORPUS = {
    "one_block": (fence(GOOD), GOOD),
    "prose_around": (f"Summary: adds one.\n\n{fence(GOOD)}\nThis should be 2x faster.\n", GOOD),
    "draft_then_final": (f"First try:\n{fence(DRAFT)}\nBetter:\n{fence(GOOD)}", GOOD),
    "final_then_usage": (f"{fence(GOOD)}\nUse it:\n{fence('model = ModelNew()')}", GOOD),
    "reference_quoted_last": (f"{fence(GOOD)}\nIt replaces\n{fence(GOOD.replace('ModelNew', 'Model'))}", GOOD),
    "python_beats_untagged": (f"{fence(GOOD)}\nold output:\n{fence(DRAFT, tag='')}", GOOD),
    "cuda_block_first": (f"The kernel:\n{fence('__global__ void k() {}', 'cuda')}\n{fence(GOOD)}", GOOD),
    "no_tag": (fence(GOOD, tag=""), GOOD),
    "wrong_tag_cpp": (fence(GOOD, tag="cpp"), GOOD),
    "wrong_tag_json": (fence(GOOD, tag="json"), GOOD),
    "tag_in_capitals": (fence(GOOD, tag="Python"), GOOD),
    "fence_glued_to_last_line": (f"```python\n{GOOD.rstrip()}```\nThat is all.\n", GOOD),
    "fence_forgotten_before_next": (f"```cuda\n__global__ void k() {{}}\n\n{fence(GOOD)}", GOOD),
    "tagged_fence_inside_docstring": (
        fence(QUOTING.replace("\n```\nModel", "\n```python\nModel")),
        QUOTING.replace("\n```\nModel", "\n```python\nModel"),
    ),
    "block_after_one_with_a_fence_inside": (f"{fence(QUOTING, tag='')}\nFinal:\n{fence(GOOD, tag='')}", GOOD),
    "tilde_fence": (fence(GOOD, mark="~~~"), GOOD),
    "longer_fence": (fence(QUOTING, mark="````"), QUOTING),
    "fence_inside_docstring": (fence(QUOTING), QUOTING),
    "indented_in_list": ("1. The program:\n\n" + "".join(f"   {line}\n" for line in fence(GOOD).splitlines()), GOOD),
    "crlf": (f"Here:\r\n{fence(GOOD)}".replace("\n", "\r\n").replace("\r\r", "\r"), GOOD),
    "byte_order_mark": ("\ufeff" + fence(GOOD), GOOD),
    "think_with_draft": (f"<think>\nMaybe\n{fence(DRAFT)}\n</think>\n{fence(GOOD)}", GOOD),
    "think_after_final": (f"{fence(GOOD)}\n<think>\nor\n{fence(DRAFT)}\n</think>\n", GOOD),
    "think_start_swallowed": (f"I could\n{fence(DRAFT)}\n</think>\n\n{fence(GOOD)}", GOOD),
    "think_word_in_a_string": (fence(GOOD + 'TAG = "<think>"\n'), GOOD + 'TAG = "<think>"\n'),
    "never_closed": (f"Sure.\n```python\n{GOOD}", GOOD),
    "no_fence": (GOOD, GOOD),
    "no_fence_prose_around": (f"Sure, here it is.\n\n{GOOD}\nThis adds one, as asked for.\n", GOOD),
    "split_over_blocks": (f"{fence(HELPER)}\nand\n{fence(USES_HELPER)}", f"{HELPER}\n{USES_HELPER}"),
    "in_json": (f'{{"summary": "s", "source": "{GOOD.encode("unicode_escape").decode()}"}}', GOOD),
    "attributes_after_tag": (f"```python title=model.py\n{GOOD}```\n", GOOD),
    "invalid_escape_in_string": (fence(GOOD + 'P = "\\d"\n'), GOOD + 'P = "\\d"\n'),
    "assigned_class": (
        fence(GOOD.replace("ModelNew", "Net") + "ModelNew = Net\n"),
        GOOD.replace("ModelNew", "Net") + "ModelNew = Net\n",
    ),
}


@pytest.mark.parametrize("name", CORPUS)
def test_the_program_is_found(name: str) -> None:
    answer, expected = CORPUS[name]
    assert extract_source(answer) == expected


REFUSED = {
    "empty": ("", "no_code"),
    "prose_only": ("I cannot help with that. ModelNew would be hard to write.", "no_code"),
    "unended_reasoning": (f"<think>\nLet me see\n{fence(GOOD)}", "no_code"),
    "program_only_in_reasoning": (f"I could\n{fence(GOOD)}\n</think>\n\nSorry, I cannot.", "no_code"),
    "broken_line_right_after_the_class": (f"{GOOD}y = = 1\n", "bad_python"),
    "diff": ("```diff\n--- a\n+++ b\n@@ -1 +1 @@\n-class Model\n+class ModelNew\n```", "no_code"),
    "syntax_error": (fence(BROKEN), "bad_python"),
    "syntax_error_without_fence": (BROKEN, "bad_python"),
    "other_class": (fence(GOOD.replace("ModelNew", "Model")), "no_model_new"),
    "class_in_function": (
        fence("def make():\n    class ModelNew:\n        pass\n    return ModelNew\n"),
        "no_model_new",
    ),
    "only_in_a_comment": (fence("# class ModelNew comes here\nx = 1\n"), "no_model_new"),
    "null_byte": (fence(GOOD.replace("x + 1", "x + '\0'")), "bad_python"),
    "cut_in_the_middle": (f"```python\n{GOOD[:-3]}(", "bad_python"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_answer_without_a_program_is_refused_for_its_reason(name: str) -> None:
    answer, code = REFUSED[name]
    with pytest.raises(AnswerError) as caught:
        extract_source(answer)
    assert caught.value.code == code


BABBLE = {
    "open_thoughts": "<think>\n" * 40_000,
    "fences": "```python\nclass ModelNew(\n```\n" * 5_000,
    "openings": "```python\n" * 20_000,
    "braces": '{"ModelNew": ' * 20_000,
    "objects": '{"ModelNew": [' + '{"a": 1},' * 20_000,
    "paragraphs": "import torch\n\nand then\n\n" * 20_000,
    "one_line": "x" * 900_000,
    "too_long": "word " * 300_000,
}


@pytest.mark.parametrize("name", BABBLE)
def test_babble_is_refused_in_seconds(name: str) -> None:
    started = time.process_time()
    with pytest.raises(AnswerError):
        extract_source(BABBLE[name])
    with pytest.raises(AnswerError):
        parse_answer(PlanAnswer, BABBLE[name])
    assert time.process_time() - started < 10.0


def test_a_syntax_error_names_its_line() -> None:
    with pytest.raises(AnswerError, match="line 5"):
        extract_source(fence(BROKEN))


@pytest.mark.parametrize("at", [12, 40, 55, 80, len(GOOD) - 1])
@pytest.mark.parametrize("style", ["exact", "reopened_fence", "repeats_line"])
def test_a_cut_answer_and_its_continuation_are_one_program(at: int, style: str) -> None:
    first, rest = f"Summary: s.\n```python\n{GOOD[:at]}", f"{GOOD[at:]}```\n"
    if style == "reopened_fence":
        rest = f"```python\n{rest}"
    if style == "repeats_line":
        rest = GOOD[:at].rsplit("\n", 1)[-1] + rest if len(GOOD[:at].rsplit("\n", 1)[-1].strip()) > 2 else rest
    assert extract_source(join_continuation(first, rest)) == GOOD


def test_reasoning_is_no_part_of_an_answer() -> None:
    assert plain_text("<think>secret plan</think>\nfinal").strip() == "final"


@pytest.mark.parametrize(
    ("answer", "summary"),
    [
        (f"Summary: fused both ops. Expect 2x.\n\n{fence(GOOD)}", "fused both ops. Expect 2x."),
        (f"**Summary:** fused.\n{fence(GOOD)}", "fused."),
        (f"Here is it. More text.\n{fence(GOOD)}", "Here is it."),
        (fence(GOOD + "# Summary: not this\n"), ""),
    ],
)
def test_the_summary_is_what_stands_outside_the_program(answer: str, summary: str) -> None:
    assert prose_summary(answer) == summary
