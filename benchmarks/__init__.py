"""What Interlock measures of itself, against peers, in one run: ``make bench``."""
