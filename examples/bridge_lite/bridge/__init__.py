"""Bridge Lite: intents pass through a pipeline while reviewers correct them. An example of Interlock.

Start with :func:`bridge.factory.open_bridge`. The README says how the parts map to Interlock.
"""
