"""What another package may bring: a runtime with a metric of its own, a transport and a view."""
