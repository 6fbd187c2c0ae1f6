"""What a limit costs."""
