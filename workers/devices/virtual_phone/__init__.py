"""Virtual phones: the real adb daemon, on this computer's CPU."""
