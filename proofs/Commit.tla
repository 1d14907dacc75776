------------------------------- MODULE Commit -------------------------------
(***************************************************************************)
(* The commit protocol of version 2, as src/frazil does it:                *)
(*                                                                         *)
(*   session   reads `repo`, remembers the tip as its base, writes chunks  *)
(*   commit    writes snapshot and transaction log under new names, reads  *)
(*             `repo`, replaces it if it is still what was read            *)
(*             (engine/commit/commit.py, engine/refs/entry.py)             *)
(*   refusal   the reply may be lost although the swap took effect; the    *)
(*             writer looks for its own update in the ops log              *)
(*             (engine/refs/ops_log.py: was_stored)                        *)
(*   rebase    compares transaction logs, continues on the new tip         *)
(*             (engine/merge/rebase.py)                                    *)
(*   refs      a branch is reset, a second branch is deleted, snapshots    *)
(*             are expired (engine/refs/refs.py, maintenance/expire.py)    *)
(*   gc        plans, drops snapshots in a swap, deletes                   *)
(*             (maintenance/gc.py)                                         *)
(*                                                                         *)
(* A process may die before any of its steps. A request that it had sent   *)
(* may still arrive (pc "zombie").                                         *)
(*                                                                         *)
(* Every writer makes one commit: it writes one chunk, to the key KeyOf(w).*)
(* Two writers of one key are in conflict. The Picker writes no chunk of   *)
(* its own: it refers to the chunk of a commit on the branch `side`, as    *)
(* merge and cherry-pick do.                                               *)
(*                                                                         *)
(* proofs/README.md explains the model; scripts/prove.py runs it.          *)
(***************************************************************************)
EXTENDS Naturals, Sequences, FiniteSets, TLC

CONSTANTS
    NWriters,    \* writers are 1..NWriters
    NKeys,       \* keys are 1..NKeys; fewer keys than writers: conflicts
    Picker,      \* the writer that cherry-picks; 0 for none
    UseOurs,     \* TRUE: conflicts are solved in favour of the session
    MaxRebases,  \* rebases of one commit
    MaxCrashes, MaxLost, MaxGC, MaxResets, MaxExpiries, MaxSide,  \* how often each may happen
    Mutant       \* the bug that is planted; "none" for the protocol as it is

Writers == 1..NWriters
Keys == 1..NKeys
KeyOf(w) == (w % NKeys) + 1

Root == 0            \* the snapshot of an empty repository
Side == 1            \* the snapshot of the branch `side`
SideChunk == 100
Nothing == 0         \* no chunk
ChunkOf(w) == IF w = Picker THEN SideChunk ELSE w
Id(w, try) == 10 * w + try      \* of a snapshot: each try has a new one

SnapFile(s) == <<"snapshot", s>>
LogFile(s) == <<"log", s>>
Chunk(c) == <<"chunk", c>>

VARIABLES
    repo,     \* the entry point: version, branch (ids, oldest first, with those that
              \* were expired: their logs are still named), side, listed, log (ops log)
    content,  \* what is in snapshot files: chunk by key, author, parent, what was seen
    born,     \* objects in the store, and the time at which each was written
    now,      \* the store's clock: it moves when a session begins
    pc, base, start, seen, try, read,   \* of each writer
    gc,       \* the collector
    removed,  \* snapshots that a reset or an expiry took from the branch, on purpose
    left      \* what may still go wrong or be asked for

vars == <<repo, content, born, now, pc, base, start, seen, try, read, gc, removed, left>>

Objects == DOMAIN born
Range(seq) == {seq[i] : i \in DOMAIN seq}
Tip(r) == r.branch[Len(r.branch)]

\* The files that a snapshot refers to, directly or not.
Needs(s) ==
    {SnapFile(s)} \cup {Chunk(c) : c \in {content[s].chunks[k] : k \in Keys} \ {Nothing}}

NeedsAll(snaps) == UNION {Needs(s) : s \in snaps}

\* What a reader can get to: the branch without what was expired, and `side`.
Reachable(r) == (Range(r.branch) \cap r.listed) \cup (IF r.side THEN {Side} ELSE {})

\* Logs of expired commits are still named by their successors.
LogsNamed(r) == {LogFile(s) : s \in Range(r.branch) \cup Reachable(r)}

IsOpen(w) == pc[w] \in {"files", "read", "sent", "refused", "rebase"}

-----------------------------------------------------------------------------
Init ==
    /\ repo = [version |-> 0, branch |-> <<Root>>, side |-> TRUE, listed |-> {Root, Side},
               log |-> {}]
    /\ content = (Root :> [chunks |-> [k \in Keys |-> Nothing], by |-> 0, parent |-> Root,
                           seen |-> Nothing])
              @@ (Side :> [chunks |-> [k \in Keys |-> SideChunk], by |-> 0, parent |-> Root,
                           seen |-> Nothing])
    /\ born = [o \in {SnapFile(Root), LogFile(Root), SnapFile(Side), LogFile(Side),
                      Chunk(SideChunk)} |-> 0]
    /\ now = 0
    /\ pc = [w \in Writers |-> "begin"]
    /\ base = [w \in Writers |-> Root]
    /\ start = [w \in Writers |-> 0]
    /\ seen = [w \in Writers |-> Nothing]
    /\ try = [w \in Writers |-> 0]
    /\ read = [w \in Writers |-> 0]
    /\ gc = [pc |-> "idle", garbage |-> {}, drop |-> {}, known |-> {}]
    /\ removed = {}
    /\ left = [crashes |-> MaxCrashes, lost |-> MaxLost, gc |-> MaxGC, resets |-> MaxResets,
               expiries |-> MaxExpiries, side |-> MaxSide]

-----------------------------------------------------------------------------
(* Writers *)

\* A session begins and writes its chunk, which every rebase uses again.
Begin(w) ==
    /\ pc[w] = "begin"
    /\ now' = IF MaxGC = 0 THEN now ELSE now + 1
    /\ start' = [start EXCEPT ![w] = now']
    /\ base' = [base EXCEPT ![w] = Tip(repo)]
    /\ seen' = [seen EXCEPT ![w] = content[Tip(repo)].chunks[KeyOf(w)]]
    /\ born' = IF w = Picker THEN born ELSE (Chunk(ChunkOf(w)) :> now') @@ born
    /\ pc' = [pc EXCEPT ![w] = "files"]
    /\ UNCHANGED <<repo, content, try, read, gc, removed, left>>

\* Snapshot and transaction log, on top of the base; each try has a new id.
WriteFiles(w) ==
    /\ pc[w] = "files"
    /\ LET id == Id(w, try[w])
           from == IF Mutant = "rebase brings old manifests back" THEN Root ELSE base[w]
       IN /\ content' = content @@ (id :>
                [chunks |-> [content[from].chunks EXCEPT ![KeyOf(w)] = ChunkOf(w)],
                 by |-> w, parent |-> base[w], seen |-> seen[w]])
          /\ born' = (SnapFile(id) :> now) @@ (LogFile(id) :> now) @@ born
    /\ pc' = [pc EXCEPT ![w] = "read"]
    /\ UNCHANGED <<repo, now, base, start, seen, try, read, gc, removed, left>>

\* was_stored: the snapshot is listed, or the ops log has the update. `read` is still the version
\* that the refused swap compared with; 0 means that nothing was refused yet.
WasStored(w) ==
    /\ Mutant # "own commit is not recognised"
    /\ \/ Id(w, try[w]) \in repo.listed
       \/ /\ Mutant # "own commit is looked for in the list of snapshots only"
          /\ Id(w, try[w]) \in repo.log

\* Reads `repo` and sends the conditional put, or finds out that it must not.
ReadRepo(w) ==
    /\ pc[w] \in {"read", "refused"}
    /\ pc' = [pc EXCEPT ![w] =
            IF pc[w] = "refused" /\ (WasStored(w) \/ Mutant = "every refusal is taken for a lost reply")
            THEN "acknowledged"
            ELSE IF Tip(repo) # base[w] THEN "rebase"
            ELSE IF /\ w = Picker /\ Side \notin repo.listed
                    /\ Mutant # "what is reused is not checked before it is published"
                 THEN "failed"
            ELSE "sent"]
    /\ read' = [read EXCEPT ![w] = repo.version]
    /\ UNCHANGED <<repo, content, born, now, base, start, seen, try, gc, removed, left>>

Position(id) == CHOOSE i \in DOMAIN repo.branch : repo.branch[i] = id

\* The put arrives. The writer may be dead, and the reply may be lost: then the client repeats
\* the request, and that one is refused.
Arrive(w) ==
    /\ pc[w] \in {"sent", "zombie"}
    /\ LET id == Id(w, try[w])
           fits == repo.version = read[w] \/ Mutant = "put without a condition"
           stem == IF Mutant = "put without a condition"
                   THEN SubSeq(repo.branch, 1, Position(base[w]))
                   ELSE repo.branch   \* its tip is the base, as the version is the one that was read
       IN /\ repo' = IF fits
                     THEN [repo EXCEPT !.version = @ + 1, !.branch = Append(stem, id),
                                       !.listed = @ \cup {id}, !.log = @ \cup {id}]
                     ELSE repo
          /\ \/ /\ fits /\ pc[w] = "sent"
                /\ pc' = [pc EXCEPT ![w] = "acknowledged"]
                /\ left' = left
             \/ /\ fits /\ pc[w] = "sent" /\ left.lost > 0
                /\ pc' = [pc EXCEPT ![w] = "refused"]
                /\ left' = [left EXCEPT !.lost = @ - 1]
             \/ /\ ~fits \/ pc[w] = "zombie"
                /\ pc' = [pc EXCEPT ![w] = IF @ = "zombie" THEN "dead" ELSE "refused"]
                /\ left' = left
    /\ UNCHANGED <<content, born, now, base, start, seen, try, read, gc, removed>>

After(id) == {repo.branch[i] : i \in (Position(id) + 1)..Len(repo.branch)}

\* Commits since the base are compared by their logs, also by those of expired ones. Where the
\* branch was reset, the chunks of base and tip are compared.
InConflict(w) ==
    IF base[w] \in Range(repo.branch)
    THEN \E s \in After(base[w]) :
            /\ content[s].by # 0 /\ KeyOf(content[s].by) = KeyOf(w)
            /\ (Mutant = "logs of expired commits are forgotten" => s \in repo.listed)
    ELSE content[Tip(repo)].chunks[KeyOf(w)] # content[base[w]].chunks[KeyOf(w)]

LogsAreThere(w) ==
    base[w] \in Range(repo.branch) => \A s \in After(base[w]) : LogFile(s) \in Objects

Rebase(w) ==
    /\ pc[w] = "rebase"
    /\ LET conflict == InConflict(w) /\ Mutant # "conflicts are not looked for"
       IN IF (conflict /\ ~UseOurs) \/ try[w] = MaxRebases \/ ~LogsAreThere(w)
          THEN /\ pc' = [pc EXCEPT ![w] = "failed"]
               /\ UNCHANGED <<base, try>>
          ELSE /\ pc' = [pc EXCEPT ![w] = "files"]
               /\ base' = [base EXCEPT ![w] = Tip(repo)]
               /\ try' = [try EXCEPT ![w] = @ + 1]
    /\ UNCHANGED <<repo, content, born, now, start, seen, read, gc, removed, left>>

Crash(w) ==
    /\ left.crashes > 0
    /\ IsOpen(w)
    /\ pc' = [pc EXCEPT ![w] = IF @ = "sent" THEN "zombie" ELSE "dead"]
    /\ left' = [left EXCEPT !.crashes = @ - 1]
    /\ UNCHANGED <<repo, content, born, now, base, start, seen, try, read, gc, removed>>

Write(w) ==
    \/ Begin(w) \/ WriteFiles(w) \/ ReadRepo(w) \/ Arrive(w) \/ Rebase(w)
    \/ Crash(w)

-----------------------------------------------------------------------------
(* Other changes of `repo`, each in one compare-and-swap *)

Reset ==
    /\ left.resets > 0
    /\ \E i \in 1..(Len(repo.branch) - 1) :
        /\ repo.branch[i] \in repo.listed
        /\ repo' = [repo EXCEPT !.version = @ + 1, !.branch = SubSeq(@, 1, i)]
        /\ removed' = removed \cup Range(SubSeq(repo.branch, i + 1, Len(repo.branch)))
    /\ left' = [left EXCEPT !.resets = @ - 1]
    /\ UNCHANGED <<content, born, now, pc, base, start, seen, try, read, gc>>

DeleteSide ==
    /\ left.side > 0 /\ repo.side
    /\ repo' = [repo EXCEPT !.version = @ + 1, !.side = FALSE]
    /\ left' = [left EXCEPT !.side = @ - 1]
    /\ UNCHANGED <<content, born, now, pc, base, start, seen, try, read, gc, removed>>

\* One snapshot, of any age: roots and tips stay.
Expire ==
    /\ left.expiries > 0
    /\ \E s \in (Range(repo.branch) \cap repo.listed) \ {Root, Tip(repo)} :
        /\ repo' = [repo EXCEPT !.version = @ + 1, !.listed = @ \ {s}]
        /\ removed' = removed \cup {s}
    /\ left' = [left EXCEPT !.expiries = @ - 1]
    /\ UNCHANGED <<content, born, now, pc, base, start, seen, try, read, gc>>

-----------------------------------------------------------------------------
(* Garbage collection *)

\* The latest time that the age rule allows: the start of the oldest open session.
Cutoff ==
    LET starts == {start[w] : w \in {v \in Writers : IsOpen(v)}}
    IN IF starts = {} \/ Mutant = "collection without an age rule" THEN now + 1
       ELSE CHOOSE t \in starts : \A u \in starts : t <= u

KeptLogs(r) == IF Mutant = "collection takes the logs of expired commits" THEN {} ELSE LogsNamed(r)

\* Lists the store. Nothing is changed. Snapshots that are listed and young stay.
Plan ==
    /\ gc.pc = "idle" /\ left.gc > 0
    /\ LET old == {o \in Objects : born[o] < Cutoff}
           gone == {s \in repo.listed \ Reachable(repo) : SnapFile(s) \in old}
           kept == repo.listed \ gone
       IN gc' = [pc |-> "planned",
                 garbage |-> old \ (NeedsAll(kept) \cup {LogFile(s) : s \in kept}
                                    \cup KeptLogs(repo)),
                 drop |-> gone,
                 known |-> repo.listed]
    /\ left' = [left EXCEPT !.gc = @ - 1]
    /\ UNCHANGED <<repo, content, born, now, pc, base, start, seen, try, read, removed>>

\* One swap takes the snapshots from the list. Whoever swaps afterwards has seen it. What was
\* committed since the plan keeps its files.
Drop ==
    /\ gc.pc = "planned"
    /\ LET refs == {Tip(repo)} \cup (IF repo.side THEN {Side} ELSE {})
           news == repo.listed \ gc.known
           listed == repo.listed \ gc.drop
       IN IF refs \cap gc.drop # {} \/ \E s \in news : content[s].parent \in gc.drop
          THEN /\ gc' = [pc |-> "idle", garbage |-> {}, drop |-> {}, known |-> {}]  \* plan again
               /\ UNCHANGED repo
          ELSE /\ gc' = [gc EXCEPT !.pc = "delete", !.garbage =
                    IF Mutant = "collection does not look at commits since its plan" THEN @
                    ELSE @ \ (NeedsAll(listed) \cup {LogFile(s) : s \in listed}
                              \cup KeptLogs(repo))]
               /\ IF Mutant = "collection does not swap" /\ gc.drop = {}
                  THEN UNCHANGED repo
                  ELSE repo' = [repo EXCEPT !.version = @ + 1, !.listed = listed]
    /\ UNCHANGED <<content, born, now, pc, base, start, seen, try, read, removed, left>>

\* All at once, at any time after the swap. Order does not matter: nothing in the protocol becomes
\* possible because an object is gone.
Delete ==
    /\ gc.pc = "delete"
    /\ gc' = [pc |-> "idle", garbage |-> {}, drop |-> {}, known |-> {}]
    /\ born' = [o \in Objects \ gc.garbage |-> born[o]]
    /\ UNCHANGED <<repo, content, now, pc, base, start, seen, try, read, removed, left>>

-----------------------------------------------------------------------------
\* The end. Any other state without a next step would be a writer that waits forever.
Done ==
    /\ \A w \in Writers : pc[w] \in {"acknowledged", "failed", "dead"}
    /\ UNCHANGED vars

Next ==
    \/ \E w \in Writers : Write(w)
    \/ Reset \/ DeleteSide \/ Expire
    \/ Plan \/ Drop \/ Delete
    \/ Done

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
(* What must hold in every state *)

UpdatesOf(w) == {s \in repo.log : content[s].by = w}

AcknowledgedIsMade == \A w \in Writers : pc[w] = "acknowledged" => UpdatesOf(w) # {}

\* Every commit that ever was in the history of the branch is still there, unless a reset or an
\* expiry removed it: also that of a writer whose reply was lost, or that died.
NothingIsLost == \A s \in repo.log : s \in Range(repo.branch) \cup removed

NothingIsAppliedTwice == \A w \in Writers : Cardinality(UpdatesOf(w)) <= 1

\* A writer that was told of a failure has changed nothing.
FailureIsTrue == \A w \in Writers : pc[w] = "failed" => UpdatesOf(w) = {}

\* What a reader can get to can be read.
ReachableExists == NeedsAll(Reachable(repo)) \subseteq Objects

\* The logs that a rebase or a diff would read exist.
LogsExist == LogsNamed(repo) \subseteq Objects

\* A commit changes its own key and nothing else, relative to its parent in history. It changes
\* only what its session has seen (not checked where the session insists on its own version).
NoChangeIsDropped ==
    \A i \in 2..Len(repo.branch) :
        LET s == repo.branch[i]
            p == repo.branch[i - 1]
            k == KeyOf(content[s].by)
        IN /\ content[s].parent = p
           /\ \A j \in Keys \ {k} : content[s].chunks[j] = content[p].chunks[j]
           /\ UseOurs \/ content[p].chunks[k] = content[s].seen
=============================================================================
