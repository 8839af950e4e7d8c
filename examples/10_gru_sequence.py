"""A gated recurrent cell, written out and run over a short sequence: many small launches that depend on each other."""

import torch
import torch.nn as nn


class Model(nn.Module):
    """Reset, update and candidate gates per time step; returns every hidden state."""

    def __init__(self, features: int, hidden: int) -> None:
        super().__init__()
        self.from_input = nn.Linear(features, 3 * hidden)
        self.from_state = nn.Linear(hidden, 3 * hidden)

    def forward(self, x: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        """``x``: float32[steps, batch, features]; ``state``: float32[batch, hidden]; returns [steps, batch, hidden]."""
        states = []
        for projected in self.from_input(x).unbind(0):
            in_reset, in_update, in_new = projected.chunk(3, dim=-1)
            st_reset, st_update, st_new = self.from_state(state).chunk(3, dim=-1)
            reset = torch.sigmoid(in_reset + st_reset)
            update = torch.sigmoid(in_update + st_update)
            new = torch.tanh(in_new + reset * st_new)
            state = new + update * (state - new)
            states.append(state)
        return torch.stack(states)


steps = 16
batch = 512
features = 256
hidden = 512

# The number of steps stays: the unrolled program has the same ops at both sizes.
REDUCED = {"batch": 4, "features": 12, "hidden": 20}


def get_inputs():
    return [torch.randn(steps, batch, features), torch.zeros(batch, hidden)]


def get_init_inputs():
    return [features, hidden]
