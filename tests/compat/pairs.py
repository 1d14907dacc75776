"""What every state machine does: sessions in pairs, one of each engine, with the same changes.

The two engines work on repositories of their own (twins), or take turns on one.
"""

import pickle
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from tests.compat.driver import Plain, assert_same
from tests.compat.excuses import excuse_for_merge, excuse_for_rebase
from tests.compat.sides import Answer, Side, ask, diff_of, named, seen_in, shown_by, state_of

type Call = Callable[[Side], object]
type SessionCall = Callable[[Side, Any], object]

# Which of the two engines writes, where only one of them does
AUTHORS = st.integers(0, 1)
MOST_PAIRS = 6


@dataclass(slots=True, eq=False)
class Pair:
    """Two sessions with the same changes. `rewritten` is how often its branch was, until now."""

    kind: str  # readonly, writable, rearrange or fork
    sessions: list[Any]
    branch: str
    rewritten: int
    parent: "Pair | None" = None
    was_dirty: bool = False  # the session it was forked from


def step(**strategies: st.SearchStrategy[Any]) -> Callable[[Callable[..., None]], Any]:
    """A rule, until the two engines have parted on purpose."""

    def decorate(function: Callable[..., None]) -> Any:
        made = rule(**strategies)(function)  # type: ignore[call-overload]  # no targets
        return precondition(lambda self: not self.over)(made)

    return decorate


class Machine(RuleBasedStateMachine):
    """Calls on both sides, compared; what may differ is in tests/compat/excuses.py."""

    def __init__(self) -> None:
        super().__init__()
        self.sides: list[Side] = []
        self.pairs: list[Pair] = []
        self.rewritten: dict[str, int] = {}
        self.over = False

    # --- how the two kinds of machine differ --------------------------------------------------

    @abstractmethod
    def change(self, author: int, call: Call) -> Answer:
        """Changes the repositories by a call that belongs to no session."""

    @abstractmethod
    def finish(self, author: int, pair: Pair, call: SessionCall) -> Answer:
        """Commits a pair of sessions, or the like; the call answers with the new snapshot."""

    @abstractmethod
    def require_same_repositories(self) -> None: ...

    # --- calls --------------------------------------------------------------------------------

    def each(self, call: Call, what: str) -> Answer:
        """A call that changes no repository."""
        ours, reference = (ask(side, call) for side in self.sides)
        assert_same(ours.plain, reference.plain, what)
        return ours

    def answers_of(self, pair: Pair, call: SessionCall) -> tuple[Answer, Answer]:
        ours, reference = (
            ask(side, lambda side, session=session: call(side, session))  # type: ignore[misc]  # bound at once
            for side, session in zip(self.sides, pair.sessions, strict=True)
        )
        return ours, reference

    def in_session(self, pair: Pair, call: SessionCall, what: str) -> Answer:
        """A call that changes the pair of sessions only."""
        ours, reference = self.answers_of(pair, call)
        assert_same(ours.plain, reference.plain, what)
        self.require_same_sessions(pair)
        return ours

    # --- pairs --------------------------------------------------------------------------------

    def pick(self, number: int, *kinds: str) -> Pair | None:
        """One of the pairs, of these kinds; a new one if there is none."""
        found = [pair for pair in self.pairs if not kinds or pair.kind in kinds]
        return found[number % len(found)] if found else self.begin((*kinds, "writable")[0], "main")

    def begin(self, kind: str, branch: str) -> Pair | None:
        sessions: list[Any] = []

        def call(side: Side) -> object:
            session = getattr(side.repo, f"{kind}_session")(branch)
            sessions.append(session)
            return session.snapshot_id

        if self.each(call, f"{kind} session").failed:
            return None
        pair = Pair(kind, sessions, branch, self.rewritten.get(branch, 0))
        self.add(pair)
        return pair

    def add(self, pair: Pair) -> None:
        self.pairs.append(pair)
        del self.pairs[:-MOST_PAIRS]

    def drop(self, pair: Pair) -> None:
        self.pairs = [each for each in self.pairs if each is not pair and each.parent is not pair]

    def require_same_sessions(self, pair: Pair) -> None:
        states = [state_of(session) for session in pair.sessions]
        assert_same(states[0], states[1], "state of the session")
        seen = [seen_in(session) for session in pair.sessions]
        assert_same(seen[0], seen[1], "contents of the session")
        if pair.kind != "fork":
            self.each(lambda side: self.session_of(side, pair).snapshot_id, "snapshot id")

    def session_of(self, side: Side, pair: Pair) -> Any:
        return pair.sessions[0 if side is self.sides[0] else 1]

    def fork(self, pair: Pair) -> Pair | None:
        forks: list[Any] = []
        was_dirty = pair.sessions[0].has_uncommitted_changes

        def call(side: Side, session: Any) -> None:
            del side
            forks.append(pickle.loads(pickle.dumps(session.fork())))

        if self.in_session(pair, call, "fork").failed:
            return None
        fork = Pair("fork", forks, pair.branch, pair.rewritten, pair, was_dirty)
        self.add(fork)
        self.require_same_sessions(fork)
        return fork

    def merge(self, pair: Pair, fork: Pair) -> None:
        statuses = [diff_of(each.sessions[0].status()) for each in (pair, fork)]
        ours, reference = self.answers_of(
            pair, lambda side, s: s.merge(self.session_of(side, fork))
        )
        self.drop(fork)
        if ours != reference:
            excuse_for_merge(pair, fork, statuses, ours, reference)
            self.drop(pair)
        elif ours.failed:
            self.drop(pair)  # the reference keeps what it had merged before it failed
        elif fork.was_dirty:
            self.drop(pair)  # updates of what the parent had made are lost by the reference
        else:
            self.require_same_sessions(pair)

    def rebase(self, pair: Pair, solver: Callable[[Any], Any]) -> None:
        mine, base = diff_of(pair.sessions[0].status()), pair.sessions[0].snapshot_id
        theirs = self.changes_since(pair.branch, base)
        ours, reference = self.answers_of(
            pair, lambda side, session: session.rebase(solver(side.engine.module))
        )
        if self.is_rewritten(pair):
            self.drop(pair)  # the reference then compares with all of history
        elif ours != reference or not self.is_seen_alike(pair):
            excuse_for_rebase(mine, theirs, ours, reference)
            self.drop(pair)

    def is_seen_alike(self, pair: Pair) -> bool:
        states, seen = ([look(one) for one in pair.sessions] for look in (state_of, seen_in))
        return bool(states[0] == states[1] and seen[0] == seen[1])

    def is_rewritten(self, pair: Pair) -> bool:
        return self.rewritten.get(pair.branch, 0) != pair.rewritten

    def changes_since(self, branch: str, snapshot_id: str) -> list[Plain]:
        """Diff of each commit since then, oldest first."""
        repo, changes = self.sides[0].repo, []
        if branch in repo.list_branches():
            for info in repo.ancestry(branch=branch):
                if info.id == snapshot_id or info.parent_id is None:
                    break
                between = repo.diff(from_snapshot_id=info.parent_id, to_snapshot_id=info.id)
                changes.append(diff_of(between))
        return changes[::-1]

    def rewrite(self, branch: str) -> None:
        """Its history is no longer that of the sessions begun before."""
        self.rewritten[branch] = self.rewritten.get(branch, 0) + 1


class Twins(Machine):
    """Each engine has a repository; both do everything."""

    def change(self, author: int, call: Call) -> Answer:
        del author
        return self.each(call, "answer")

    def finish(self, author: int, pair: Pair, call: SessionCall) -> Answer:
        del author
        status = diff_of(pair.sessions[0].status())
        base = pair.sessions[0].snapshot_id
        theirs = self.changes_since(pair.branch, base)
        ours, reference = self.answers_of(pair, self._noting_the_id(call))
        if ours != reference:
            if not self.is_rewritten(pair):
                excuse_for_rebase(status, theirs, ours, reference)
            self.over = True
        elif self.is_rewritten(pair) and not self.is_seen_alike(pair):
            self.over = True
        elif not self.is_seen_alike(pair):
            excuse_for_rebase(status, theirs, ours, reference)
            self.over = True
        if not ours.failed:
            self.drop(pair)
        return ours

    def _noting_the_id(self, call: SessionCall) -> SessionCall:
        def noting(side: Side, session: Any) -> object:
            new = call(side, session)
            assert isinstance(new, str)
            side.ids.append(new)
            return new

        return noting

    def require_same_repositories(self) -> None:
        if not self.over:
            ours, reference = (named(shown_by(side.repo), side.ids) for side in self.sides)
            assert_same(ours, reference, "repository")


class Neighbours(Machine):
    """Both engines work on one repository; `author` does what changes it.

    What fails for the author must fail for the other one, too, and for the same reason.
    """

    def change(self, author: int, call: Call) -> Answer:
        answer = ask(self.sides[author], call)
        if answer.failed:
            other = ask(self.sides[1 - author], call)
            assert_same(answer, other, f"answer, first that of {self.sides[author].engine.name}")
        return answer

    def finish(self, author: int, pair: Pair, call: SessionCall) -> Answer:
        side, session = self.sides[author], pair.sessions[author]
        before, base = seen_in(session), session.snapshot_id
        tip_is_base = side.repo.list_branches() and self._tip(pair.branch) == base
        answer = ask(side, lambda side: call(side, session))
        if answer.failed:
            self.drop(pair)
            return answer
        new = session.snapshot_id
        side.ids.append(new)
        seen = [seen_in(each.repo.readonly_session(snapshot_id=new)) for each in self.sides]
        assert_same(seen[0], seen[1], f"what {side.engine.name} committed")
        if tip_is_base:
            assert_same(seen[0], before, "what was committed, and what was to be")
        self.require_same_diff(new)
        self.drop(pair)
        return answer

    def _tip(self, branch: str) -> str | None:
        repo = self.sides[0].repo
        return repo.lookup_branch(branch) if branch in repo.list_branches() else None

    def require_same_diff(self, snapshot_id: str) -> None:
        parent = self.sides[0].repo.lookup_snapshot(snapshot_id).parent_id
        diffs = [
            diff_of(each.repo.diff(from_snapshot_id=parent, to_snapshot_id=snapshot_id))
            for each in self.sides
        ]
        assert_same(diffs[0], diffs[1], "diff of the commit")

    def require_same_repositories(self) -> None:
        ours, reference = (shown_by(side.repo) for side in self.sides)
        assert_same(ours, reference, "repository")
