"""Public tools for testing applications and stores, which Interlock's own tests use too.

``conformance`` tests every store against the same promises, ``simulator`` runs the real engine on a seeded event loop,
``proxy`` breaks connections, ``processes`` runs and kills real workers, ``servers`` starts real databases.
"""
