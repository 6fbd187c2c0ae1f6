"""Claims: the contract of the port, and the public class ``Claims``."""
