"""Claims: the port's contract, and what users of ``Claims`` rely on."""
