"""The check whether a stored end of a job's rounds is still valid. Pure."""

from sweeps.protocol.presets import Protocol
from sweeps.settled import Settled


def settles(settled: Settled, protocol: Protocol) -> bool:
    """Tell whether a stored end of a job's rounds is also valid under this protocol."""
    if not same_question(settled, protocol):
        return False
    match settled.reason:
        case "reopened":
            return False
        case "undecided" if settled.batches_decide:
            return settled.batches >= protocol.last_round
        case "unstable" | "undecided":
            return max(settled.rounds, settled.last_round) >= protocol.last_round
        case "out_of_time":
            allowed = protocol.device_minutes
            return allowed is not None and settled.device_minutes is not None and settled.device_minutes >= allowed
        case "slower" | "constraint" | "same_program":
            # The end stays valid with few rounds, or none: more rounds cannot make the job win.
            return True
        case "disqualified" if settled.batches_decide:
            return settled.batches >= protocol.rounds
        case "best" if settled.batches:
            return True
        case "disqualified" if settled.budget == "full":
            return settled.rounds >= protocol.last_round
        case _:
            return settled.rounds >= protocol.rounds


def same_question(settled: Settled, protocol: Protocol) -> bool:
    """Tell whether the end and the protocol belong to the same race, or neither to a race."""
    return (settled.budget, settled.question) == (protocol.budget, protocol.question)
