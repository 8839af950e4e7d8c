"""A convolution block with batch norm in TRAIN mode: statistics of the batch, and running averages that are updated."""

import torch
import torch.nn as nn


class Model(nn.Module):
    """``relu(bn2(conv2(relu(bn1(conv1(x))))) + x)``, all at the same width."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, kernel_size=3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, kernel_size=3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``x``: float32[batch, channels, height, width]; the result has the same shape."""
        y = nn.functional.relu(self.bn1(self.conv1(x)))
        return nn.functional.relu(self.bn2(self.conv2(y)) + x)


batch = 96
channels = 64
height = 56
width = 56

REDUCED = {"batch": 3, "channels": 8, "height": 10, "width": 10}


def get_inputs():
    return [torch.randn(batch, channels, height, width)]


def get_init_inputs():
    return [channels]
