"""Names of devices in a lab."""

import re
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from sweeps.spec import catalog, lab_names
from sweeps.spec.fields import DeviceName
from sweeps.spec.sweep import load
from tests.builders import phone_facts

PHONE = phone_facts("R5", name="host:lab-2/adb:R5", maker="Google", model="Pixel 8", soc="Tensor G3", cores=9)
GOOD = (
    "local",
    "adb:*",
    "adb:R5",
    "host:lab-2/adb:*",
    "host:lab.two_3/adb:10.0.0.9:5555",
    "host:lab-2/local",
    "host:lab-2/fake:hot",
    'class:"Google Pixel 8"',
    "class:Google Pixel 8",
    "tag:office",
)
SWEEP = """
name: a
models: [{source: vgg11, weights: random, input_shape: [1, 3, 32, 32]}]
data: {calibration: {source: synthetic, images: 8}, evaluation: {source: synthetic, images: 8, seed: 1}}
grids: [{precision: [fp32]}]
"""
BAD = (
    "host:lab-2",
    "host:/adb:*",
    "host:lab-2/",
    "host:lab-2/lokal",
    "host:a b/adb:*",
    "tag:",
    "tag:a b",
    "class:",
    "class: ",
)


@pytest.mark.parametrize("name", GOOD)
def test_a_sweep_file_may_name_it_and_an_editor_knows(name: str, tmp_path: Path) -> None:
    file = tmp_path / "sweep.yaml"
    file.write_text(f"{SWEEP}devices: ['{name}']\n")
    assert load(file).devices == (name,)
    assert re.search(TypeAdapter(DeviceName).json_schema()["pattern"], name)


@pytest.mark.parametrize("name", BAD)
def test_a_name_that_means_nothing_is_refused_by_both(name: str) -> None:
    with pytest.raises(ValueError, match="there is no device"):
        TypeAdapter(DeviceName).validate_python(name)
    assert not re.search(TypeAdapter(DeviceName).json_schema()["pattern"], name)


@pytest.mark.parametrize(
    ("name", "means_it"),
    [
        ("adb:*", True),
        ("adb:R5", True),
        ("adb:R", False),
        ("fake:*", False),
        ("host:lab-2/adb:*", True),
        ("host:lab-2/adb:R5", True),
        ("host:lab-1/adb:R5", False),
        ("host:lab-2/local", False),
        ('class:"google pixel 8"', True),
        ("class:Google Pixel 8 (Tensor G3)", True),
        ("class:Pixel", False),
        ("tag:office", True),
        ("tag:attic", False),
    ],
)
def test_a_name_means_the_devices_of_its_host_class_or_tag(name: str, means_it: bool) -> None:
    assert lab_names.matches(name, PHONE, ("office",)) == means_it


def test_a_device_that_is_away_may_have_any_tag() -> None:
    assert lab_names.may_mean("tag:attic", PHONE)
    assert lab_names.may_mean("adb:*", PHONE)
    assert not lab_names.may_mean("host:lab-1/adb:*", PHONE)


def test_a_device_of_a_host_has_the_hosts_transport_and_is_never_this_machine() -> None:
    assert catalog.device("host:lab-2/adb:R5") == catalog.device("adb:R5")
    assert catalog.is_host("local")
    assert not catalog.is_host("host:lab-2/local")
    assert [name for name in GOOD if lab_names.only_in_a_lab(name)] == [
        name for name in GOOD if name not in ("local", "adb:*", "adb:R5")
    ]
