"""How values of the engine look on the command line, as text and as JSON; loaded when needed."""
