"""Sessions and forks."""
