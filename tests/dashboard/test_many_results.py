"""Pages of 100,000 results."""

from collections.abc import Callable
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from sweeps.workspace import Workspace
from tests.benchmarks.many_results import MODELS, SWEEP, VARIANTS, make

RESULTS = 100_000
