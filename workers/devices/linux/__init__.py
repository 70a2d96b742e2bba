"""Sensors and running programs of a Linux machine."""
