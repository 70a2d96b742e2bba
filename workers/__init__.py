"""Does: builds artifacts and measures them on devices. Imports `sweeps`, never `dashboard`."""
