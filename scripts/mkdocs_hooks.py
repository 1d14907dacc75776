"""Changes to the pages, which are written for readers of the tree, for the site.

A link to a file that is not part of the site (../README.md, ../tests/servers) becomes its path; one
to a folder of pages becomes one to its first page, which lists the others.
"""

import re
from typing import Any

_OUTSIDE = re.compile(r"\[(?P<text>[^\]]+)\]\((?:\.\./)+(?P<path>[^)#\s]+)(?:#[^)]*)?\)")
_NOTES = "design/000-design-notes.md"
_FOLDERS = {"](design/)": "](design/000-design-notes.md)"}


def on_page_markdown(markdown: str, *, page: Any, files: Any, **_: Any) -> str:
    if page.file.src_uri == _NOTES:
        markdown += _list_of_notes(files)
    for folder, first in _FOLDERS.items():
        markdown = markdown.replace(folder, first)
    if "/" in page.file.src_uri:  # in a folder of its own, `..` is still in the site
        return re.sub(_OUTSIDE, _deeper, markdown)
    return re.sub(_OUTSIDE, _as_path, markdown)


def _as_path(link: re.Match[str]) -> str:
    text, path = link["text"], link["path"]
    return f"`{path}`" if text.strip("`") == path else f"{text} (`{path}`)"


def _deeper(link: re.Match[str]) -> str:
    return _as_path(link) if link[0].count("../") > 1 else link[0]


def _list_of_notes(files: Any) -> str:
    names = sorted(
        file.src_uri.removeprefix("design/")
        for file in files.documentation_pages()
        if file.src_uri.startswith("design/") and file.src_uri != _NOTES
    )
    rows = (f"- [{name[:3]}: {name[4:-3].replace('-', ' ')}]({name})" for name in names)
    return "\n\n## All notes\n" + "\n".join(rows) + "\n"
