"""Jobs: what they promise beyond what every store does."""
