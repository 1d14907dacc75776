"""From an older format to a newer one."""
