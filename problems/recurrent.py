"""Recurrent layers on fake tensors without their loop over time.

PyTorch takes ``nn.GRU`` and ``nn.RNN`` apart into several ops per time step when they run on fake tensors: seconds for
512 steps. Here such a layer is its matrix products over all steps at once, which have the same shapes, parameters and
operations, and a result of the right shape. (``nn.LSTM`` is a single op on fake tensors already.)
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

__all__ = ["recurrent_in_one_step"]

_LAYERS = ("gru", "rnn_tanh", "rnn_relu")


def recurrent_in_one_step() -> AbstractContextManager[Any]:
    """Inside, whole-sequence recurrent layers on fake tensors cost a few ops; their values do not exist anyway."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensor
    from torch.overrides import TorchFunctionMode

    class Recurrent(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            # A padded sequence has three dimensions of states; a packed one brings its batch sizes there.
            if (
                getattr(func, "__name__", "") in _LAYERS
                and len(args) == 9
                and isinstance(args[0], FakeTensor)
                and isinstance(args[1], torch.Tensor)
                and args[1].dim() == 3
            ):
                return one_step(*args)
            return func(*args, **(kwargs or {}))

    def one_step(
        x: torch.Tensor,
        state: torch.Tensor,
        parameters: list[torch.Tensor],
        _has_biases: bool,
        _layers: int,
        _dropout: float,
        _train: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        rows = x.shape[0] * x.shape[1]
        for weight in parameters:
            if weight.dim() == 2:
                torch.mm(x.new_empty(rows, weight.shape[1]), weight.t())
        width = state.shape[-1] * (2 if bidirectional else 1)
        steps, batch = (x.shape[1], x.shape[0]) if batch_first else x.shape[:2]
        out = x.new_empty(steps, batch, width)
        return out.transpose(0, 1) if batch_first else out, torch.empty_like(state)

    return Recurrent()
