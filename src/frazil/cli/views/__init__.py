"""Views: values of the engine as text and as JSON. Loaded when needed."""
