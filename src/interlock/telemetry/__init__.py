"""What Interlock tells the outside about itself: log events and metrics. Never a label per key."""
