"""Tools for testing what is built on Interlock, and stores for it: public, and used by Interlock's own tests.

``conformance`` holds every store to the same promises, ``simulator`` runs the real engine on a seeded event loop,
``proxy`` breaks connections, ``processes`` runs and kills real workers, ``servers`` starts real databases.
"""
