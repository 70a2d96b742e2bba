"""Fixtures of boards, and of sweeps on phones. The phones themselves: tests/virtual_phones.py."""

from tests.workers.board import board, own_board_lock, running_board  # noqa: F401  # fixtures
from tests.workers.phone_sweep import built, pair, running  # noqa: F401  # fixtures
