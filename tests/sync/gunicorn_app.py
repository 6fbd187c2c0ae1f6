"""A Flask app for gunicorn that enqueues jobs, once already while it is loaded, before gunicorn forks."""

from __future__ import annotations

import os

from flask import Flask

from interlock import App

app = App(os.environ["STORE_URL"])
web = Flask(__name__)


@app.job()
def count(number: int) -> None: ...


count.enqueue_sync(-1)


@web.post("/enqueue/<int:start>/<int:amount>")
def enqueue(start: int, amount: int) -> str:
    for number in range(start, start + amount):
        count.enqueue_sync(number)
    return str(os.getpid())
