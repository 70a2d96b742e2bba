"""Transport `ssh`: Linux boards over ssh, with the host keys and keys that this computer has."""
