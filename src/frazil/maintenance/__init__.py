"""What keeps repositories well: each action is a plan, and its execution."""
