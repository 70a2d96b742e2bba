"""Virtual phones that run until Ctrl-C: no silicon, to try everything else on."""

import signal
import tempfile
from pathlib import Path

import click

from sweeps.errors import DeviceError


def run_virtual_phones(count: int) -> None:
    """Start them, tell the adb server of each, and keep them until Ctrl-C or SIGTERM.

    Raises `DeviceError`: no root, no apt, no adbd, or an adb server that can not be used.
    """
    from workers.devices.adb.host import AdbHost
    from workers.devices.virtual_phone.phone import up

    host = AdbHost()
    # Otherwise `kill` would leave them registered with the adb server.
    previous = signal.signal(signal.SIGTERM, _interrupt)
    try:
        with tempfile.TemporaryDirectory(prefix="edgesweep-phones-") as folder, up(count, Path(folder)) as phones:
            try:
                for phone in phones:
                    if not host.connect(phone.serial):
                        raise DeviceError(
                            "offline",
                            f"the adb server does not reach the virtual phone {phone.serial}",
                            "adb kill-server",
                        )
                    click.echo(f"adb:{phone.serial}")
                click.echo(f"{count} virtual phones are up until Ctrl-C. Their times are this computer's.", err=True)
                while True:
                    signal.pause()
            finally:
                for phone in phones:
                    host.disconnect(phone.serial)
    except KeyboardInterrupt:
        click.echo("The virtual phones are gone.", err=True)
    finally:
        signal.signal(signal.SIGTERM, previous)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
