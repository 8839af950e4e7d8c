"""A whole small vision transformer: patch embedding, a few encoder layers, mean pooling, a classifier."""

import torch
import torch.nn as nn


class Layer(nn.Module):
    """One encoder layer: attention and a GELU perceptron, both pre-norm with a residual."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.project = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.expand = nn.Linear(width, 4 * width)
        self.shrink = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, width = x.shape
        head_width = width // self.heads
        qkv = self.qkv(self.norm1(x)).view(batch, tokens, 3, self.heads, head_width)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        weights = (q @ k.transpose(-2, -1) * head_width**-0.5).softmax(dim=-1)
        x = x + self.project((weights @ v).transpose(1, 2).reshape(batch, tokens, width))
        return x + self.shrink(nn.functional.gelu(self.expand(self.norm2(x))))


class Model(nn.Module):
    """Class scores of square images."""

    def __init__(self, image: int, patch: int, width: int, heads: int, layers: int, classes: int) -> None:
        super().__init__()
        self.embed = nn.Conv2d(3, width, kernel_size=patch, stride=patch)
        self.position = nn.Parameter(0.02 * torch.randn(1, (image // patch) ** 2, width))
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """``images``: float32[batch, 3, image, image]; the result is float32[batch, classes]."""
        x = self.embed(images).flatten(2).transpose(1, 2) + self.position
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x).mean(dim=1))


batch = 64
image = 128
patch = 16
width = 256
heads = 8
layers = 3
classes = 100

REDUCED = {"batch": 2, "image": 16, "patch": 4, "width": 32, "heads": 4, "classes": 10}


def get_inputs():
    return [torch.randn(batch, 3, image, image)]


def get_init_inputs():
    return [image, patch, width, heads, layers, classes]
