"""The README's own model: its two files, and a network, weights and images that they can be tried with."""

import re
import subprocess
import sys
from pathlib import Path

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"<!-- file: (\S+) -->\n```\w+\n(.*?)```", README, re.DOTALL))
"""By name, as the README writes them."""

# Dark cats and bright dogs: a net that int8 cannot make wrong.
_MAKE_DATA = """
import sys

import numpy as np, torch
from pathlib import Path
from PIL import Image
from my_net import make_net
torch.manual_seed(0)
net = make_net(2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(40):
    labels = torch.arange(32) % 2
    levels = torch.where(labels == 1, 1.2, -1.0)
    images = levels[:, None, None, None] + 0.3 * torch.randn(32, 3, 64, 64)
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(net(images), labels).backward()
    optimizer.step()
torch.save(net.state_dict(), "my_net.pt")
for name, level in (("cat", 60), ("dog", 190)):
    folder = Path("photos") / name
    folder.mkdir(parents=True)
    for number in range(int(sys.argv[1]) // 2):
        pixels = np.random.default_rng(number).normal(level, 20, (40, 40, 3)).clip(0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"{number:04}.jpg")
"""


def make_data(folder: Path, images: int, net: str | None = None) -> None:
    """The README's files in the new `folder`, beside a trained `my_net.pt` and so many images of two classes.

    `net`: the code of another network, in place of these files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in FILES.items() if net is None else (("my_net.py", net),):
        (folder / name).write_text(text)
    subprocess.run([sys.executable, "-c", _MAKE_DATA, str(images)], cwd=folder, check=True)
