"""A trace made ready for grouping: in-place ops become plain ones where that is safe, no-ops disappear.

Comes in: a ``Trace``. Goes out: a ``Program``, whose nodes are in a valid order and whose ``effects`` say which
nodes must keep their order because they change memory or draw random numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

from stitchcuda.codegen.ops import rule_of
from stitchcuda.codegen.trace import Arg, Node, OutputTree, Ref, TensorSpec, Trace, refs_of
from stitchcuda.codegen.words import words

__all__ = ["Program", "prepare"]

VIEWS = words(
    """
    view reshape permute transpose t T numpy_T mT squeeze unsqueeze expand expand_as slice select narrow split
    split_with_sizes chunk unbind getitem flatten unflatten detach alias contiguous to unfold as_strided movedim
    view_as diagonal swapaxes swapdims lift_fresh real tensor_split hsplit moveaxis detach_ dropout
    """
)
RANDOM = words(
    """
    dropout feature_dropout alpha_dropout bernoulli rand randn rand_like randn_like randint randperm normal
    multinomial uniform rrelu
    """
)
NO_OPS = frozenset({"detach", "detach_", "alias", "lift_fresh", "lift_fresh_copy", "contiguous"})
NOT_IN_PLACE = frozenset({"__and__", "__or__", "__xor__"})


@dataclass(frozen=True)
class Program:
    """Nodes in program order after clean-up."""

    nodes: tuple[Node, ...]
    result: OutputTree
    arguments: tuple[str, ...]
    fixed: dict[str, Arg]
    """Values of arguments that are no tensors."""
    numbers: dict[str, int | float]
    """Numeric attributes of the reference's modules."""
    effects: frozenset[str]
    """Ops that keep their mutual order."""
    pinned: frozenset[str]
    """Ops that touch memory which something else changes: they are never fused."""

    def specs(self) -> dict[str, TensorSpec]:
        """Spec of each single-valued node."""
        return {
            node.name: node.outputs[0]
            for node in self.nodes
            if not node.multiple and node.outputs and node.outputs[0] is not None
        }

    def users(self) -> dict[str, list[str]]:
        """Consumers of each node in program order."""
        users: dict[str, list[str]] = {node.name: [] for node in self.nodes}
        for node in self.nodes:
            for name in dict.fromkeys(inputs_of(node)):
                users[name].append(node.name)
        return users

    def results(self) -> tuple[str, ...]:
        """Names of the nodes that are returned."""
        return tuple(dict.fromkeys(_leaves(self.result)))


def inputs_of(node: Node) -> list[str]:
    """Names of the nodes that ``node`` reads."""
    return refs_of(node.args) + refs_of(tuple(node.kwargs.values()))


def _leaves(tree: OutputTree) -> list[str]:
    if tree.kind == "leaf":
        return refs_of(tree.leaf)
    return [name for item in tree.items for name in _leaves(item)]


def is_in_place(node: Node) -> bool:
    """Whether an op writes into its first argument."""
    return node.kind == "op" and node.op.endswith("_") and node.op not in NOT_IN_PLACE and node.op != "detach_"


def prepare(trace: Trace) -> Program:
    """Clean up a trace."""
    cleaner = _Cleaner(trace)
    for node in trace.nodes:
        cleaner.add(node)
    nodes = _without_dead(cleaner.nodes, cleaner.tree(trace.result))
    effects, pinned = _ordering(nodes)
    return Program(nodes, cleaner.tree(trace.result), trace.arguments, trace.fixed, trace.numbers, effects, pinned)


class _Cleaner:
    def __init__(self, trace: Trace) -> None:
        self.nodes: list[Node] = []
        self.seen: dict[str, Node] = {}
        self.replaced: dict[str, str] = {}
        self.viewed: set[str] = set()
        self.mutates = any(is_in_place(node) and rule_of(_functional(node)) is None for node in trace.nodes)

    def name(self, name: str) -> str:
        while name in self.replaced:
            name = self.replaced[name]
        return name

    def arg(self, value: Arg) -> Arg:
        if isinstance(value, Ref):
            return Ref(node=self.name(value.node))
        if isinstance(value, tuple):
            return tuple(self.arg(item) for item in value)
        return value

    def tree(self, tree: OutputTree) -> OutputTree:
        if tree.kind == "leaf":
            return tree.model_copy(update={"leaf": self.arg(tree.leaf)})
        return tree.model_copy(update={"items": tuple(self.tree(item) for item in tree.items)})

    def add(self, node: Node) -> None:
        if node.kind == "op" and node.op in ("_assert_tensor_metadata", "_assert_async", "sym_constrain_range"):
            return
        node = node.model_copy(
            update={
                "args": tuple(self.arg(item) for item in node.args),
                "kwargs": {key: self.arg(item) for key, item in node.kwargs.items()},
            }
        )
        if node.kind == "op" and self._is_no_op(node):
            first = node.args[0]
            assert isinstance(first, Ref)
            self.replaced[node.name] = first.node
            return
        if is_in_place(node):
            node = self._functionalised(node)
        if node.kind == "op" and node.op in VIEWS:
            self.viewed.update(refs_of(node.args[:1]))
        self.nodes.append(node)
        self.seen[node.name] = node

    def _is_no_op(self, node: Node) -> bool:
        if not node.args or not isinstance(node.args[0], Ref):
            return False
        source = self.seen.get(node.args[0].node)
        if source is None or source.multiple or node.multiple:
            return False
        same = source.outputs == node.outputs
        if node.op in NO_OPS:
            return same
        if node.op == "clone":
            # A clone of an input may be returned, and must then be a copy.
            return same and not self.mutates and source.kind == "op"
        if node.op == "to":
            # A move between devices is none in a candidate: everything is on one device.
            return same
        if node.op == "dropout":
            return node.args[1] == 0 or node.args[2] is False
        return node.op in ("view", "reshape", "expand", "expand_as", "view_as", "flatten") and same

    def _functionalised(self, node: Node) -> Node:
        """``x.relu_()`` as ``relu(x)`` when nobody else can see ``x``'s memory."""
        plain = _functional(node)
        target = node.args[0]
        if rule_of(plain) is None or not isinstance(target, Ref):
            return node
        source = self.seen[target.node]
        private = source.kind == "op" and source.op not in VIEWS and target.node not in self.viewed
        if not private or is_in_place(source) or source.spec.dtype != node.spec.dtype:
            return node
        self.replaced[target.node] = node.name
        # Uses of the old name inside this node itself are already resolved.
        return plain


def _functional(node: Node) -> Node:
    if not is_in_place(node):
        return node
    namespace, packet, overload = node.target.split(".")
    return node.model_copy(update={"target": f"{namespace}.{packet[:-1]}.{overload}"})


def _without_dead(nodes: list[Node], result: OutputTree) -> tuple[Node, ...]:
    live = set(_leaves(result))
    kept: list[Node] = []
    for node in reversed(nodes):
        effect = node.kind == "op" and (is_in_place(node) or node.op == "batch_norm")
        if node.name in live or effect or node.kind == "input":
            kept.append(node)
            live.update(inputs_of(node))
    return tuple(reversed(kept))


def _ordering(nodes: tuple[Node, ...]) -> tuple[frozenset[str], frozenset[str]]:
    """Which ops keep their order, and which read memory that another op changes."""
    base: dict[str, str] = {}
    for node in nodes:
        first = refs_of(node.args[:1])
        shares = node.kind == "op" and first and (node.op in VIEWS or is_in_place(node))
        base[node.name] = base[first[0]] if shares else node.name
    changed = {base[node.name] for node in nodes if is_in_place(node)}
    pinned = frozenset(
        node.name
        for node in nodes
        if node.kind == "op" and (base[node.name] in changed or any(base[name] in changed for name in inputs_of(node)))
    )
    random = frozenset(node.name for node in nodes if node.kind == "op" and node.op.rstrip("_") in RANDOM)
    return pinned | random, pinned
