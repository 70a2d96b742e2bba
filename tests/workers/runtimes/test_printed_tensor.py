"""Tensors as PyTorch prints them, read back: what it prints here and now, and what earlier releases printed."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sweeps.errors import RunnerError
from workers.runtimes.torchscript.printed_tensor import read_matrix

Printed = Callable[[torch.Tensor], str]


class Show(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        print(x)  # noqa: T201  # TorchScript prints as C++ does
        return x


@pytest.fixture(scope="module")
def show() -> torch.jit.ScriptModule:
    return torch.jit.script(Show())


@pytest.fixture
def printed(show: torch.jit.ScriptModule, capsys: pytest.CaptureFixture[str]) -> Printed:
    def printed(x: torch.Tensor) -> str:
        capsys.readouterr()
        show(x)
        return capsys.readouterr().out

    return printed


def close(read: list[list[float]], x: torch.Tensor) -> None:
    """To what four decimals tell."""
    expected = x.dequantize().double().numpy() if x.is_quantized else x.double().numpy()
    finite = np.abs(expected[np.isfinite(expected)])
    least = 5e-5 * max(1.0, finite.max(initial=0.0))
    np.testing.assert_allclose(np.array(read), expected, rtol=0, atol=least * (1 + 1e-6))


numbers = st.one_of(
    st.floats(-20, 20, width=32),
    st.floats(width=32, allow_subnormal=False),
    st.integers(-300, 300).map(float),
    st.sampled_from([0.0, 9.99999, 99.99999, -9.99999, 1e-7, math.inf, -math.inf, math.nan]),
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.integers(1, 4), columns=st.integers(1, 40), data=st.data())
def test_what_torch_prints_is_read_to_its_digits(
    printed: Printed, rows: int, columns: int, data: st.DataObject
) -> None:
    values = data.draw(st.lists(numbers, min_size=rows * columns, max_size=rows * columns))
    x = torch.tensor(values, dtype=torch.float32).reshape(rows, columns)
    close(read_matrix(printed(x)), x)


@pytest.mark.parametrize("power", range(-9, 12))
def test_every_scale_is_read(printed: Printed, power: int) -> None:
    x = torch.linspace(1, 9, 1000, dtype=torch.float64)[None] * 10.0**power
    read = torch.tensor(read_matrix(printed(x)), dtype=torch.float64)
    torch.testing.assert_close(read, x, rtol=6e-5, atol=5e-5 if -1 <= power < 5 else 0)


def test_a_quantized_tensor_is_read_dequantized(printed: Printed) -> None:
    x = torch.quantize_per_tensor(torch.linspace(-20, 20, 2 * 30).reshape(2, 30), 0.17, 100, torch.quint8)
    text = printed(x)
    assert "[ QuantizedCPUQUInt8Type{2,30}, qscheme: per_tensor_affine, scale: 0.17, zero_point: 100 ]" in text
    close(read_matrix(text), x)


OF_2020 = """Columns 1 to 101e-05 *
 0.3291  0.7182  0.1562  0.3616  0.8385  0.2422  1.0216  0.5169  0.2825  3.6127

Columns 11 to 121e-05 *
 0.0550  0.1388
[ CPUFloatType{1,12} ]
"""


def test_the_scale_is_read_as_earlier_releases_print_it() -> None:
    (row,) = read_matrix(OF_2020)
    assert (len(row), row[0], row[9], row[10]) == (12, pytest.approx(3.291e-6), pytest.approx(3.6127e-5), 0.055e-5)
    assert read_matrix("1e+06 *\n 0.1448 -1.4195\n[ Variable[CPUFloatType]{1,2} ]") == [[144_800.0, -1_419_500.0]]


def test_a_value_that_touches_its_column_s_number_is_told_from_it(printed: Printed) -> None:
    x = torch.tensor([[9.99999, -2.5, math.inf, math.nan, 3, 1, 2, 1, 2, 1, 2, 1, 2]])
    text = printed(x)
    assert text.startswith("Columns 1 to 1010.0000 -2.5000     inf     nan")
    close(read_matrix(text), x)


def other(text: str) -> str:
    with pytest.raises(RunnerError) as caught:
        read_matrix(text)
    return f"{caught.value.kind}: {caught.value.message}"


def test_what_is_no_matrix_of_floats_is_told(printed: Printed) -> None:
    assert "CPUFloatType of shape (5,)" in other(printed(torch.zeros(5)))
    assert "CPUFloatType of shape ()" in other(printed(torch.tensor(3.5)))
    assert "CPUFloatType of shape (1, 2, 2, 2)" in other(printed(torch.zeros(1, 2, 2, 2)))
    assert "CPULongType of shape (1, 2)" in other(printed(torch.zeros(1, 2, dtype=torch.long)))
    pair = "( 1  1\n[ CPUFloatType{1,2} ],  1  1\n[ CPUFloatType{1,2} ])\n"
    assert other(pair).startswith("bad_output: the model answers something else than one tensor")
    assert other("").startswith("bad_output")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (" 0.0550", "", "1 numbers stand where 1 x 2 were printed"),
        (" 0.0550", " 0.05.50", "'0.05.50' is no number"),
        ("0.1388", "1_0", "'1_0' is no number"),
        ("Columns 11 to 12", "Columns 10 to 12", "its columns from 1 on do not end at 9"),
        ("Columns 11 to 12", "Columns 1 to 12", "its columns from 1 on do not end at 0"),
        ("Columns 1 to 10", "Columns 2 to 10", "its first column is 2"),
        ("Columns 1 to 10", "hello\nColumns 1 to 10", "something stands before its first column"),
        ("{1,12}", "{1,13}", "its columns from 11 on do not end at 13"),
        ("{1,12}", "{2,12}", "10 numbers stand where 2 x 10 were printed"),
        ("1e-05 *\n 0.0550", "1e--5 *\n 0.0550", "numbers stand where"),
    ],
)
def test_a_damaged_print_is_told(old: str, new: str, message: str) -> None:
    assert OF_2020.count(old) == 1
    assert message in other(OF_2020.replace(old, new))
