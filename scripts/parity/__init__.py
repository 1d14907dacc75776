"""How frazil behaves beside the live icechunk package: tours that both take, compared."""
