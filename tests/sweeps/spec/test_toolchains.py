"""Releases in sweep files: which are taken, which torch they pair with, and what stands in keys."""

import pytest

from sweeps.spec.toolchains import LIBRARIES, refusal, refusal_of_installed, toolchain, versions_with
from sweeps.variant import INSTALLED

TORCH = "2.12.1"
OWN = {"torch": TORCH, "onnxruntime": "1.32.0", "builder": "onnxruntime 1"}


@pytest.mark.parametrize(
    "text",
    [
        "onnxruntime",
        "onnxruntime==",
        "onnxruntime>=1.31",
        "onnxruntime==1.31.1 --index-url x",
        "onnxruntime==../../1",
        "onnxruntime==1.31.1\n",
        "-r==1",
        "torch==2.12.1",
        "",
    ],
)
def test_what_is_no_release_of_a_known_library_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no release|has no releases"):
        toolchain(text)


def test_a_library_that_is_nearly_known_is_named() -> None:
    with pytest.raises(ValueError, match="did you mean 'onnxruntime'"):
        toolchain("onnxruntim==1.31.1")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("onnxruntime==1.31.1", ()),
        ("onnxruntime==1.19", ()),
        ("onnxruntime==2.0.0rc1", ()),
        ("onnxruntime==1.18.1", ("older than 1.19", "numpy 2")),
        ("executorch==1.3.0", ()),
        ("executorch==1.4.0", ("pairs with torch 2.13, and here is torch 2.12.1", "several GB", "edgesweep compare")),
        ("executorch==9.0", ("not known which torch", "1.3 with torch 2.12")),
    ],
)
def test_a_release_pairs_with_its_torch_or_says_with_which(text: str, words: tuple[str, ...]) -> None:
    refused = refusal(toolchain(text), TORCH)
    assert (refused is None) == (not words)
    assert all(word in " ".join(refused or ()) for word in words)


def test_an_installed_release_is_refused_only_if_known_to_pair_with_another_torch() -> None:
    for text in ("onnxruntime==1.18.1", "executorch==1.3.1", "executorch==9.0"):
        assert refusal_of_installed(toolchain(text), TORCH) is None
    for torch, next_step in ((TORCH, "pip install 'executorch==1.3.*'"), ("3.0", "install a pair: 1.0 with torch 2.9")):
        refused = refusal_of_installed(toolchain("executorch==1.4.0"), torch)
        assert refused is not None
        assert f"pairs with torch 2.13, and torch {torch} is installed" in refused[0]
        assert refused[1].startswith(next_step)


def test_what_to_run_tells_the_size() -> None:
    assert all(f"about {library.mb} MB" in toolchain(f"{name}==1.3").to_add for name, library in LIBRARIES.items())


def test_versions_hold_the_building_release_and_the_installed_one_if_it_has_a_part() -> None:
    release = "onnxruntime==1.31.1"
    assert versions_with(OWN, INSTALLED, INSTALLED) == OWN
    assert versions_with(OWN, INSTALLED, release) == OWN
    assert versions_with(OWN, release, release) == {**OWN, "onnxruntime": "1.31.1"}
    versions = versions_with(OWN, release, INSTALLED)
    assert versions == {**OWN, "onnxruntime": "1.31.1", "onnxruntime that runs": "1.32.0"}
