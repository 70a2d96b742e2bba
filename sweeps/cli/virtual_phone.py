"""`edgesweep virtual-phone`: runs virtual phones until Ctrl-C, to try everything except latency."""

import signal
import tempfile
from pathlib import Path

import click

from sweeps.errors import DeviceError
from workers.devices.adb.adb_host import AdbHost
from workers.devices.virtual_phone import phone as virtual_phones

_MOST_PHONES = 64


@click.group(name="virtual-phone")
def virtual_phone() -> None:
    """Virtual phones: the real adb daemon on this computer, to try everything except latency."""


@virtual_phone.command()
@click.option("--count", type=click.IntRange(1, _MOST_PHONES), default=4, show_default=True, help="How many.")
def up(count: int) -> None:
    """Start virtual phones and keep them until Ctrl-C. Prints the name of each, for `devices:` of a sweep file.

    \b
    Needs root and Debian's apt: it downloads adbd into the cache (7 MB), and does not change the system.
    Results on a virtual phone are this computer's times, and are labelled so.
    Example: edgesweep virtual-phone up --count 4
    """
    host = AdbHost()
    # Without a handler, `kill` would leave the phones registered with the adb server.
    previous = signal.signal(signal.SIGTERM, _interrupt)
    try:
        with (
            tempfile.TemporaryDirectory(prefix="edgesweep-phones-") as folder,
            virtual_phones.up(count, Path(folder)) as phones,
        ):
            try:
                for phone in phones:
                    if not host.connect(phone.serial):
                        raise DeviceError(
                            "offline",
                            f"the adb server cannot reach the virtual phone {phone.serial}",
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
        click.echo("The virtual phones have been removed.", err=True)
    finally:
        signal.signal(signal.SIGTERM, previous)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
