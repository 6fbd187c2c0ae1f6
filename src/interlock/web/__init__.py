"""The web app: webhooks, health, metrics and the dashboard, as one ASGI application.

``app.web()`` creates it. It can be mounted in FastAPI and Starlette under any prefix, or run alone. ``interlock run``
with ``--listen`` runs it next to the workers.
"""

from interlock.web.asgi import Web
from interlock.web.credentials import Credentials

__all__ = ["Credentials", "Web"]
