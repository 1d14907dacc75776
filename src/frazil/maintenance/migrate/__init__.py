"""Migration from an older format to a newer one."""
