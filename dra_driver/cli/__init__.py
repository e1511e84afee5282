"""The command `dra-driver`: one module a command, heavy imports inside the commands."""
