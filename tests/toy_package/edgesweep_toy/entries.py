"""What EdgeSweep's catalog is told. Imports nothing of what it describes."""

from sweeps.metrics import Metric
from sweeps.spec.entries import BackendEntry, DeviceEntry, RuntimeEntry, ViewEntry

RUNTIME = RuntimeEntry(
    name="toy",
    target="edgesweep_toy.runtime:Toy",
    axes=frozenset({"backend"}),
    backends=(BackendEntry(name="abacus", title="an abacus", axes=frozenset({"format"}), fixed={"capture": "taught"}),),
    values={"format": ("table", "stub")},
    metrics=(Metric("toy_multiplications", "Multiplications per image", "×", "lower", 0),),
)
DEVICE = DeviceEntry(
    name="toybox",
    target="edgesweep_toy.device:Toybox",
    unit="COLOUR",
    unit_pattern="[a-z]+",
    discovery="edgesweep_toy.shelf",
)
VIEW = ViewEntry(name="toys", title="Toys", target="edgesweep_toy.view:show")
