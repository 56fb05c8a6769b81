"""The command line: one module or folder per group of commands, mounted in `main`."""
