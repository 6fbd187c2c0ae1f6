"""How long those wait who look."""
