"""The web app: webhooks, health, metrics and the dashboard, as one ASGI application.

``app.web()`` makes it; it mounts into FastAPI and Starlette under any prefix, and runs alone. ``interlock run`` with
``--listen`` runs it next to the workers.
"""

from interlock.web.asgi import Web
from interlock.web.credentials import Credentials

__all__ = ["Credentials", "Web"]
