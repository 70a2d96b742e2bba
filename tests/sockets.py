"""Addresses on which processes listen."""

import psutil


def listening(process: psutil.Process) -> set[str]:
    """The addresses on which the process listens for TCP; none if it has ended."""
    try:
        return {
            connection.laddr.ip
            for connection in process.net_connections(kind="tcp")
            if connection.status == psutil.CONN_LISTEN
        }
    except psutil.Error:
        return set()
