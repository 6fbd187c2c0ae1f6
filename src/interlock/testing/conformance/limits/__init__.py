"""Limits: the contract of the port, and the public class ``Limits``."""
