"""What those are told who look at many things at once."""
