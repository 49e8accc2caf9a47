"""The `paraagent` command: one module per group of sub-commands, assembled in `main`."""
