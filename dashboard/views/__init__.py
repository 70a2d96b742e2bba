"""The dashboard has a module for each part of a page."""
