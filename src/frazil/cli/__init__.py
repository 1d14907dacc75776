"""The `frazil` command: one module per subcommand, each loading what it needs when it runs."""
