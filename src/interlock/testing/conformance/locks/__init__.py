"""Locks: the contract of the port, the public class ``Locks``, and several processes."""
