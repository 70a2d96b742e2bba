"""A vision transformer that learns scikit-learn's digits in about half a minute: `source: workers.small_vit:small_vit`.

All sizes are constants of the modules, so that every way of capturing it sees one and the same graph; attention is
written out in operators that runtimes older than `scaled_dot_product_attention` have. Tokens are averaged instead of
prepended by a class token (Beyer and others, "Better plain ViT baselines for ImageNet-1k", 2022).
"""

import torch
from torch import nn


class Attention(nn.Module):
    """Multi-head self-attention over (B, tokens, dim)."""

    def __init__(self, tokens: int, dim: int, heads: int) -> None:
        super().__init__()
        self.tokens, self.dim, self.heads, self.head_dim = tokens, dim, heads, dim // heads
        self.scale = self.head_dim**-0.5
        self.query = nn.Linear(dim, dim)
        self.key = nn.Linear(dim, dim)
        self.value = nn.Linear(dim, dim)
        self.project = nn.Linear(dim, dim)
        self.softmax = nn.Softmax(dim=-1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        # (B, heads, tokens, head_dim)
        query = self.query(x).reshape(-1, self.tokens, self.heads, self.head_dim).transpose(1, 2)
        key = self.key(x).reshape(-1, self.tokens, self.heads, self.head_dim).transpose(1, 2)
        value = self.value(x).reshape(-1, self.tokens, self.heads, self.head_dim).transpose(1, 2)
        weights = self.softmax(torch.matmul(query, key.transpose(2, 3)) * self.scale)
        mixed = torch.matmul(weights, value).transpose(1, 2).reshape(-1, self.tokens, self.dim)
        projected: torch.Tensor = self.project(mixed)
        return projected


class Block(nn.Module):
    """Attention and a two-layer perceptron, each normalised before and added to what it got."""

    def __init__(self, tokens: int, dim: int, heads: int) -> None:
        super().__init__()
        self.norm_attention = nn.LayerNorm(dim)
        self.attention = Attention(tokens, dim, heads)
        self.norm_mlp = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm_attention(x))
        grown: torch.Tensor = x + self.mlp(self.norm_mlp(x))
        return grown


class SmallViT(nn.Module):
    """(B, 3, image_size, image_size) to (B, num_classes)."""

    def __init__(self, num_classes: int, image_size: int, patch: int, dim: int, depth: int, heads: int) -> None:
        super().__init__()
        tokens = (image_size // patch) ** 2
        self.patches = nn.Conv2d(3, dim, patch, stride=patch)
        self.positions = nn.Parameter(torch.randn(1, tokens, dim) * 0.5)
        self.blocks = nn.Sequential(*(Block(tokens, dim, heads) for _ in range(depth)))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, num_classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens = self.patches(x).flatten(2).transpose(1, 2) + self.positions
        logits: torch.Tensor = self.head(self.norm(self.blocks(tokens)).mean(1))
        return logits


def small_vit(
    num_classes: int = 10, image_size: int = 64, patch: int = 8, dim: int = 64, depth: int = 4, heads: int = 2
) -> nn.Module:
    """A ViT with 0.15 million parameters. `image_size` is a multiple of `patch`, `dim` one of `heads`."""
    return SmallViT(num_classes, image_size, patch, dim, depth, heads)
