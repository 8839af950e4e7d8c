"""A whole small image classifier from depthwise-separable convolutions, with batch norm in TRAIN mode and pooling."""

import torch
import torch.nn as nn


def separable(channels: int, out_channels: int, stride: int) -> nn.Sequential:
    """Depthwise 3x3, pointwise 1x1, each followed by batch norm and a clipped ReLU."""
    return nn.Sequential(
        nn.Conv2d(channels, channels, 3, stride=stride, padding=1, groups=channels, bias=False),
        nn.BatchNorm2d(channels),
        nn.ReLU6(),
        nn.Conv2d(channels, out_channels, 1, bias=False),
        nn.BatchNorm2d(out_channels),
        nn.ReLU6(),
    )


class Model(nn.Module):
    """Stem, four separable blocks, global average pooling, a linear classifier."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.Hardswish(),
            nn.MaxPool2d(2),
        )
        self.blocks = nn.Sequential(
            separable(width, 2 * width, stride=1),
            separable(2 * width, 4 * width, stride=2),
            separable(4 * width, 4 * width, stride=1),
            separable(4 * width, 8 * width, stride=2),
        )
        self.head = nn.Linear(8 * width, classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """``images``: float32[batch, 3, side, side]; the result is float32[batch, classes]."""
        features = self.blocks(self.stem(images))
        return self.head(features.mean(dim=(2, 3)))


batch = 64
side = 160
width = 32
classes = 200

REDUCED = {"batch": 4, "side": 32, "width": 4, "classes": 12}


def get_inputs():
    return [torch.randn(batch, 3, side, side)]


def get_init_inputs():
    return [width, classes]
