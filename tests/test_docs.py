"""The documents say what is true: the README's own example runs, its tree is the tree, its links exist."""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from sweeps.cli import main

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
DOCUMENTS = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "infra" / "DECISIONS.md"]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_and_pictures_exist(document: Path) -> None:
    targets = re.findall(r"\]\(([^)#]+)\)", document.read_text())
    missing = [target for target in targets if "://" not in target and not (document.parent / target).exists()]
    assert missing == []


def test_the_two_commands_come_first() -> None:
    assert (
        README.index("make demo") < README.index("make test") < README.index("![") < README.index("## Your own model")
    )


def test_the_tree_is_the_tree_and_every_module_says_what_it_is() -> None:
    write_docs = runpy.run_path(str(ROOT / "infra" / "write_docs.py"))
    assert write_docs["rendered"](README) == README, "make docs writes it anew"
    modules = [line for line in write_docs["tree"]().splitlines() if line.split()[0].endswith(".py")]
    assert len(modules) > 40
    assert [line for line in modules if len(line.split()) < 3] == []


def test_every_command_that_is_shown_exists() -> None:
    shown = set(re.findall(r"(?:^|\s|`)(?:\.venv/bin/)?edgesweep ([a-z][a-z-]+)", README))
    assert shown
    assert shown - set(main.commands) == set()


def test_every_make_target_that_is_shown_exists() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in set(re.findall(r"make ([a-z]+)", README.split("```console", 1)[1])):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


@pytest.mark.system
@pytest.mark.long
def test_the_readme_s_own_model_runs_as_it_is_written(tmp_path: Path) -> None:
    files = dict(re.findall(r"<!-- file: (\S+) -->\n```\w+\n(.*?)```", README, re.DOTALL))
    assert set(files) == {"my_net.py", "sweep.yaml"}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    # Dark cats and bright dogs: a net that int8 can not make wrong, and more than the 276 images that 1 point takes.
    make_data = """
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
    for number in range(160):
        pixels = np.random.default_rng(number).normal(level, 20, (40, 40, 3)).clip(0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"{number:04}.jpg")
"""
    subprocess.run([sys.executable, "-c", make_data], cwd=tmp_path, check=True)
    edgesweep = str(Path(sys.executable).with_name("edgesweep"))
    run = subprocess.run([edgesweep, "run", "sweep.yaml"], cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    for variant in ("fp32 nchw", "fp32 nhwc", "int8-x86 nchw", "int8-x86 nhwc"):
        assert variant in run.stdout
    assert "Ship:" in run.stdout
    export = subprocess.run([edgesweep, "export"], cwd=tmp_path, capture_output=True, text=True)
    assert export.returncode == 0, export.stderr
