"""What a judge sees: measured facts first, and the source with its comments taken out.

Text in a candidate must not instruct a judge, so ``judge_view`` drops comments and docstrings, in Python and in the
CUDA strings inside it, and fences the rest so that the code cannot close the fence.
"""

from __future__ import annotations

import ast
import re

from stitchcuda.core.records import Evaluation, Feedback, Plan, Record
from stitchcuda.rubrics.rubric import Skill

__all__ = ["JudgeEvidence", "judge_view", "strip_comments"]

# A string or character literal, or a comment; literals are matched so that "//" inside one is left alone.
_CPP = re.compile(r'("(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\')|//[^\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)


class JudgeEvidence(Record):
    """Everything that is known about one candidate when it is judged."""

    skill: Skill
    evaluation: Evaluation
    source: str
    """The candidate's text."""
    plan: Plan | None = None
    subtask_id: str | None = None
    """The sub-task that the Coder was asked for."""
    covers: tuple[str, ...] = ()
    """Ids of the sub-tasks that the candidate says it implements."""
    previous_evaluation: Evaluation | None = None
    feedback: Feedback | None = None


def strip_comments(source: str) -> str:
    """``source`` without comments and docstrings; CUDA comments in string literals go too.

    A source that is no Python is treated as C++ as a whole. Formatting is not kept.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return _strip_cpp(source)
    return ast.unparse(ast.fix_missing_locations(_Stripper().visit(tree)))


def judge_view(source: str) -> str:
    """The source as a judge is shown it: without comments, in a fence longer than any in the text."""
    text = strip_comments(source)
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}python\n{text}\n{fence}"


def _strip_cpp(text: str) -> str:
    stripped = _CPP.sub(lambda match: match[1] or " ", text)
    return re.sub(r"\n\s*\n+", "\n", stripped)


class _Stripper(ast.NodeTransformer):
    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            return ast.Pass()  # a docstring or a free-standing string
        return self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if isinstance(node.value, str) and ("__global__" in node.value or "#include" in node.value):
            return ast.Constant(_strip_cpp(node.value))
        return node
