"""The intent, the changes that it allows, and the operations on it."""
