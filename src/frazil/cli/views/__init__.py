"""Views of the engine's values on the command line, as text and JSON; loaded when needed."""
