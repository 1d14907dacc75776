"""The explorer: a repository in the browser, to be looked at and never changed."""

from frazil.web.app import create_app
from frazil.web.server import Server

__all__ = ["Server", "create_app"]
