"""frazil and the reference, in processes of their own, commit to one repository on a server."""

from pathlib import Path

import frazil
from tests.consistency.histories import run
from tests.consistency.places import Place
from tests.servers.s3 import S3Server

ROLES = {"writer": 1, "rebaser": 1, "reader": 1, "tagger": 1}  # of each
SECONDS = 3.0


def test_nothing_is_lost_on_either_side(tmp_path: Path, s3_server: S3Server) -> None:
    place = Place(tmp_path, s3=s3_server.arguments(s3_server.new_prefix()))
    result = run(place, ROLES, SECONDS, engines=["frazil", "icechunk"])
    assert result.wrong == []
    made = {event.actor.split("-")[0] for event in result.events if event.kind == "commit"}
    assert made == {"frazil", "icechunk"}
    theirs, ours = place.open("icechunk"), place.open("frazil")
    assert isinstance(ours, frazil.Repository)
    assert [info.id for info in theirs.ancestry(branch="main")] == [
        info.id for info in ours.ancestry(branch="main")
    ]
    assert theirs.list_tags() == ours.list_tags()
