"""The explorer: a repository in the browser, to be looked at and never changed."""

from frazil.web.server import Server, create_app, open_folder

__all__ = ["Server", "create_app", "open_folder"]
