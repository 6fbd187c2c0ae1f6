"""Many processes on few keys while a nemesis breaks things, and a checker that believes only independent records."""
