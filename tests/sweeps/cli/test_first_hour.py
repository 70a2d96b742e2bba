"""A new user's first hour with a network of one's own, by the README's commands: from `init` to a file and an account
of why it won. The README's own network is in tests/test_docs.py."""

import re
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from sweeps.cli.main import main
from tests.fresh_mlflow import fresh_mlflow
from tests.own_model import make_data

pytestmark = [
    pytest.mark.system,
    pytest.mark.long,
    pytest.mark.usefixtures("forked_runners"),
    # Of torch, for an int8 transformer's class token: whether it says so depends on what calibration found.
    pytest.mark.filterwarnings("ignore:All inputs of this cat operator:UserWarning"),
]

VIT = """
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x):
        b, n, c = x.shape
        parts = self.qkv(self.before_attention(x)).reshape(b, n, 3, self.heads, c // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
        x = x + self.out(nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, c))
        return x + self.mlp(self.before_mlp(x))


class Vit(nn.Module):
    def __init__(self, classes, width=32, patch=16):
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.first = nn.Parameter(torch.zeros(1, 1, width))
        self.places = nn.Parameter(0.02 * torch.randn(1, (64 // patch) ** 2 + 1, width))
        self.blocks = nn.ModuleList([Block(width, 2), Block(width, 2)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(x.shape[0], -1, -1), x], 1) + self.places
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x[:, 0]))


def make_net(classes):
    return Vit(classes)
"""
BRANCH = """
import torch
from torch import nn


class Branch(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU())
        self.more = nn.Sequential(nn.Conv2d(16, 16, 3, 1, 1), nn.ReLU(), nn.Conv2d(16, 16, 3, 1, 1))
        self.head = nn.Linear(16, classes)

    def forward(self, x):
        is_bright = x.mean() > 0
        x = self.first(x)
        if is_bright:
            x = x + self.more(x)
        return self.head(x.mean((2, 3)))


def make_net(classes):
    return Branch(classes)
"""
IMAGES = 340
"""Of which 68 calibrate; with the others a build that answers like the original is shown to lose less than 1 point."""


def edgesweep(*words: str) -> str:
    ended = CliRunner().invoke(main, list(words))
    assert ended.exit_code == 0, f"{words}: {ended.output}"
    return ended.output


@pytest.mark.parametrize(
    ("net", "way"), [(VIT, "trace"), (BRANCH, "script")], ids=["vision transformer", "branch on data"]
)
def test_a_network_of_one_s_own_ends_in_a_file_and_an_account_of_why_it_won(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, net: str, way: str
) -> None:
    make_data(tmp_path, IMAGES, net)
    monkeypatch.chdir(tmp_path)
    state = {f"module.{name}": tensor for name, tensor in torch.load("my_net.pt").items()}
    torch.save({"epoch": 40, "model": state}, "my_net.pt")  # as a script of training leaves it
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    fresh_mlflow(tmp_path / "edgesweep-data")
    named = ("--argument", "classes=2", "--weights", "my_net.pt", "--images", "photos", "--input-shape", "1,3,64,64")
    assert "2 classes" in edgesweep("init", "--model", "my_net:make_net", *named)
    sweep = tmp_path / "sweep.yaml"
    # Fewer of what `init` proposes, and without the gate, which waits for other tests.
    text = sweep.read_text().replace("[script, trace]", f"[{way}]").replace("[nchw, nhwc]", "[nchw]")
    quick = "{preset: quick, rounds: 2, warmup_seconds: 0.05, min_seconds: 0.1, gate: none}"
    sweep.write_text(text.replace("{preset: quick}", quick))
    read = f"the weights were read from `model`, `module.` taken off {len(state)} names"
    assert f"make_net: loads; {read}" in edgesweep("plan", "--check", "sweep.yaml")
    told = edgesweep("run", "sweep.yaml", "--executor", "inline")
    assert f"make_net: {read}" in told
    assert f"make_net: the original has 100.00 % top-1 on the {IMAGES * 4 // 5} evaluation images" in told
    assert "Ship: cpu " in told
    # Whether another one may win depends on how it answers on this CPU.
    account = r"Why it won: (no other that may win is shown to be better|none of the others that were measured may win)"
    ranked = " ".join(edgesweep("rank", "--all").split())  # lines end where figures and counts make them
    assert re.search(account, ranked)
    assert "; accuracy_drop_points: 0.00 points, at most 1 points" in ranked
    edgesweep("report", "--markdown", "report.md")
    assert re.search(account, (tmp_path / "report.md").read_text().replace("**", "").replace("&#58;", ":"))
    edgesweep("export")
    shipped = torch.jit.load(str(tmp_path / "shipped/model.pt")).eval()
    # Of a dark cat and a bright dog: where there is a branch, both ways.
    answers = [int(shipped(torch.full((1, 3, 64, 64), level)).argmax()) for level in (-1.0, 1.2)]
    assert answers == [0, 1]
