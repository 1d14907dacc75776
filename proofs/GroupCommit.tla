---------------------------- MODULE GroupCommit -----------------------------
(***************************************************************************)
(* Group commit, as designed in docs/design/035-group-commit.md and built  *)
(* in engine/group: a writer stages its commit as an object, and the next  *)
(* writer that swaps `repo` may carry it.                                  *)
(*                                                                         *)
(*   stage     a ticket with the changes, the base and how far the ops log *)
(*             went; created if absent                                     *)
(*   carry     look at `repo`, THEN list the tickets; put those on top of  *)
(*             the tip that are not in the ops log, whose base is in the   *)
(*             ancestry and that conflict with nothing, neither there nor  *)
(*             with each other; one swap                                   *)
(*   again     a swap was refused, but the branch has not moved: look at   *)
(*             `repo`, THEN read those tickets again, judge each of them   *)
(*             again, and swap the same files                              *)
(*   receipt   a hint for the owner of a ticket, after the swap            *)
(*   give up   bury the ticket under a tombstone, THEN read `repo`; if the *)
(*             ticket fits there, see `repo` change once (or change it);   *)
(*             only then believe the ops log                               *)
(*                                                                         *)
(* Foreign writers know nothing of tickets: they swap `repo`.              *)
(* A process may die before any of its steps; a swap or a put of a ticket  *)
(* that it had sent may still arrive.                                      *)
(***************************************************************************)
EXTENDS Naturals, Sequences, FiniteSets, TLC

CONSTANTS
    NWriters,    \* writers are 1..NWriters; each makes one commit, and has one ticket, by its number
    NKeys,       \* fewer keys than writers: conflicts
    Clearer,     \* a writer whose commit takes away what others are in conflict about, or 0
    PageSize,    \* entries of the ops log in `repo`; older ones are elsewhere
    MaxForeign, MaxCrashes, MaxLost, MaxLate, MaxResets, MaxExpiries, MaxGC, MaxWithdrawals,
    Mutant

Writers == 1..NWriters
Tickets == Writers
KeyOf(t) == IF t \in Tickets THEN (t % NKeys) + 1 ELSE 0   \* foreign ones are in conflict with none
Root == <<0, 0>>
Other == 0       \* an entry of the ops log that is not a commit
Unlimited == 99  \* a page that never overflows here

\* A snapshot: its ticket, and the ticket of the parent that its file was computed for. Every try of
\* every carrier has a random id of its own, so what is in a file never changes. The model need not
\* tell apart files of equal content.
Snapshot(t, parent) == IF Mutant = "all carriers use one id" THEN <<t, Other>> ELSE <<t, parent[1]>>
TicketOf(id) == id[1]

VARIABLES
    repo,      \* branch (snapshots, oldest first), listed (tickets), log (tickets, oldest first)
    files,     \* where ids are not unique: the parent that each was last written for
    ticket,    \* of each writer: "no", "staged", "buried"
    receipts,  \* tickets
    chunks,    \* tickets whose chunks exist
    late,      \* tickets of which a second put is still on its way
    pc, base, logged, read, list, batch,   \* of each writer
    gc, removed, left

vars == <<repo, files, ticket, receipts, chunks, late, pc, base, logged, read, list, batch, gc,
          removed, left>>

Range(seq) == {seq[i] : i \in DOMAIN seq}
Tip(r) == r.branch[Len(r.branch)]
Version == Len(repo.log)    \* every swap adds to the log
ParentOf(id) == IF Mutant = "all carriers use one id" /\ id \in DOMAIN files THEN files[id] ELSE id[2]
Staged == {t \in Tickets : ticket[t] = "staged"}
IsLogged(t) == t \in Range(repo.log)

Answers == {"acknowledged", "withdrawn"}
IsLive(w) == pc[w] \notin Answers \cup {"begin", "dead", "zombie"}

Init ==
    /\ repo = [branch |-> <<Root>>, listed |-> {}, log |-> <<>>]
    /\ files = (Root :> Other)
    /\ ticket = [t \in Tickets |-> "no"]
    /\ receipts = {} /\ chunks = {} /\ late = {}
    /\ pc = [w \in Writers |-> "begin"]
    /\ base = [w \in Writers |-> Root]
    /\ logged = [w \in Writers |-> 0]
    /\ read = [w \in Writers |-> 0]
    /\ list = [w \in Writers |-> {}]
    /\ batch = [w \in Writers |-> <<>>]
    /\ gc = [pc |-> "idle", garbage |-> {}]
    /\ removed = {}
    /\ left = [foreign |-> MaxForeign, crashes |-> MaxCrashes, lost |-> MaxLost, late |-> MaxLate,
               resets |-> MaxResets, expiries |-> MaxExpiries, gc |-> MaxGC,
               withdrawals |-> MaxWithdrawals]

-----------------------------------------------------------------------------
(* Staging *)

\* A session begins, writes its chunks and stages its commit. The reply to the put of the ticket may
\* be lost and the put repeated: one of the two may be on its way for long.
Stage(w) ==
    /\ pc[w] = "begin"
    /\ base' = [base EXCEPT ![w] = Tip(repo)]
    /\ logged' = [logged EXCEPT ![w] = IF PageSize = Unlimited THEN 0 ELSE Len(repo.log)]
    /\ chunks' = chunks \cup {w}
    /\ ticket' = [ticket EXCEPT ![w] = "staged"]
    /\ pc' = [pc EXCEPT ![w] = "waiting"]
    /\ \/ UNCHANGED <<late, left>>
       \/ /\ left.late > 0
          /\ late' = late \cup {w}
          /\ left' = [left EXCEPT !.late = @ - 1]
    /\ UNCHANGED <<repo, files, receipts, read, list, batch, gc, removed>>

LatePut(t) ==
    /\ t \in late
    /\ late' = late \ {t}
    /\ ticket' = [ticket EXCEPT ![t] = IF @ = "no" THEN "staged" ELSE @]
    /\ UNCHANGED <<repo, files, receipts, chunks, pc, base, logged, read, list, batch, gc, removed,
                   left>>

\* Waiting is cheap: one small object is looked for.
Receive(w) ==
    /\ pc[w] = "waiting" /\ w \in receipts
    /\ pc' = [pc EXCEPT ![w] = "acknowledged"]
    /\ UNCHANGED <<repo, files, ticket, receipts, chunks, late, base, logged, read, list, batch, gc,
                   removed, left>>

-----------------------------------------------------------------------------
(* Carrying *)

\* Patience is over, or a swap was refused: look at `repo`. The own ticket may be in the ops log,
\* by this writer's swap, whose reply was lost, or by that of another one.
Look(w) ==
    /\ pc[w] \in {"waiting", "refused"}
    /\ IF \/ IsLogged(w) /\ Mutant # "own commit is not recognised"
          \/ pc[w] = "refused" /\ Mutant = "every refusal is taken for a lost reply"
       THEN /\ pc' = [pc EXCEPT ![w] =
                  IF pc[w] = "refused" /\ Range(batch[w]) \subseteq Range(repo.branch)
                  THEN "carried" ELSE "acknowledged"]
            /\ UNCHANGED <<read, list, batch>>
       ELSE /\ read' = [read EXCEPT ![w] = Version]
            /\ batch' = [batch EXCEPT ![w] = <<>>]
            /\ list' = [list EXCEPT ![w] =
                  IF Mutant = "tickets are listed before the entry point is read" THEN Staged ELSE {}]
            /\ pc' = [pc EXCEPT ![w] = "looking"]
    /\ UNCHANGED <<repo, files, ticket, receipts, chunks, late, base, logged, gc, removed, left>>

\* The page of the ops log in `repo` has every entry since the ticket was staged.
PageReaches(t) == Len(repo.log) <= logged[t] + PageSize

InPage(t) ==
    \E i \in DOMAIN repo.log : i + PageSize > Len(repo.log) /\ repo.log[i] = t

WasCarried(t) ==
    CASE Mutant = "a ticket that exists was not carried" -> FALSE
      [] Mutant = "the list of snapshots is asked, not the ops log" -> t \in repo.listed
      [] Mutant = "the page of the ops log is taken for the whole" -> InPage(t)
      [] OTHER -> InPage(t) \/ ~PageReaches(t)

\* Commits in a chain, after the base of ticket t, that it is in conflict with. The commit of
\* `Clearer` deletes the node that was in the way of others: a longer chain may suit a ticket better.
InTheWay(t, chain) ==
    {i \in DOMAIN chain :
        /\ \E j \in 1..(i - 1) : chain[j] = base[t]
        /\ KeyOf(TicketOf(chain[i])) = KeyOf(t)
        /\ \A j \in (i + 1)..Len(chain) : TicketOf(chain[j]) # Clearer}

\* The base is in the chain, and there is no conflict with what came since.
Agrees(t, chain) ==
    /\ base[t] \in Range(chain)
    /\ Mutant = "conflicts are not looked for" \/ InTheWay(t, chain) = {}

\* May ticket t be put on top of `chain`? What does not agree with `repo` alone its owner takes for
\* refused, no matter what else a carrier puts there. The owner follows all pages of the ops log.
Fits(t, w, chain) ==
    /\ IF t = w THEN Mutant = "own commit is not recognised" \/ ~IsLogged(t) ELSE ~WasCarried(t)
    /\ Agrees(t, repo.branch) \/ Mutant = "what fits only on others of its group is carried"
    /\ Agrees(t, chain)

\* The chain after the tickets of a set were tried in order, oldest first.
RECURSIVE Extend(_, _, _)
Extend(chain, tickets, w) ==
    IF tickets = {} THEN chain
    ELSE LET t == CHOOSE x \in tickets : \A y \in tickets : x <= y
             next == IF Fits(t, w, chain)
                     THEN Append(chain, Snapshot(t, chain[Len(chain)])) ELSE chain
         IN Extend(next, tickets \ {t}, w)

\* Lists and reads tickets, writes the snapshot of each on top of the one before, sends the swap.
Gather(w) ==
    /\ pc[w] = "looking"
    /\ LET early == Mutant = "tickets are listed before the entry point is read"
           tickets == (IF early THEN list[w] ELSE Staged) \cup {w}
           chain == Extend(repo.branch, tickets, w)
           mine == SubSeq(chain, Len(repo.branch) + 1, Len(chain))
           carried == {TicketOf(id) : id \in Range(mine)}
       IN IF w \in carried
          THEN /\ pc' = [pc EXCEPT ![w] = "sent"]
               /\ batch' = [batch EXCEPT ![w] = mine]
               /\ read' = [read EXCEPT ![w] = IF early THEN Version ELSE @]
               /\ files' = IF Mutant = "all carriers use one id"
                           THEN [id \in Range(mine) |-> TicketOf(chain[(CHOOSE i \in DOMAIN chain :
                                                                         chain[i] = id) - 1])] @@ files
                           ELSE files
               /\ receipts' = IF Mutant = "receipts are written before the swap"
                              THEN receipts \cup carried ELSE receipts
          ELSE /\ pc' = [pc EXCEPT ![w] = "giving up"]
               /\ UNCHANGED <<batch, files, receipts, read>>
    /\ list' = [list EXCEPT ![w] = {}]
    /\ UNCHANGED <<repo, ticket, chunks, late, base, logged, gc, removed, left>>

Arrive(w) ==
    /\ pc[w] \in {"sent", "zombie"}
    /\ LET fits == Version = read[w] \/ Mutant = "put without a condition"
           stem == IF Mutant = "put without a condition"
                   THEN SubSeq(repo.branch, 1, CHOOSE i \in DOMAIN repo.branch :
                                                  TicketOf(repo.branch[i]) = ParentOf(batch[w][1]))
                   ELSE repo.branch
           tickets == [i \in DOMAIN batch[w] |-> TicketOf(batch[w][i])]
       IN /\ repo' = IF fits
                     THEN [branch |-> stem \o batch[w], listed |-> repo.listed \cup Range(tickets),
                           log |-> repo.log \o tickets]
                     ELSE repo
          /\ \/ /\ fits /\ pc[w] = "sent"
                /\ pc' = [pc EXCEPT ![w] = "carried"]
                /\ left' = left
             \/ /\ fits /\ pc[w] = "sent" /\ left.lost > 0
                /\ pc' = [pc EXCEPT ![w] = "refused"]
                /\ left' = [left EXCEPT !.lost = @ - 1]
             \/ /\ ~fits \/ pc[w] = "zombie"
                /\ pc' = [pc EXCEPT ![w] = IF @ = "zombie" THEN "dead" ELSE "refused"]
                /\ left' = left
    /\ read' = [read EXCEPT ![w] = 0]
    /\ UNCHANGED <<files, ticket, receipts, chunks, late, base, logged, list, batch, gc, removed>>

\* The swap was refused, and the branch is where it was: the files are still right, and what was
\* refused may have been an expiry, a collection or the fence of a withdrawal.
IsUnmoved(w) == ParentOf(batch[w][1]) = TicketOf(Tip(repo))

TicketsIn(w) == {TicketOf(id) : id \in Range(batch[w])}

AreStaged(w) == \A t \in TicketsIn(w) \ {w} : ticket[t] = "staged"

LookAgain(w) ==
    /\ pc[w] = "refused" /\ ~IsLogged(w) /\ IsUnmoved(w)
    /\ Mutant = "tickets are read again before the entry point" => AreStaged(w)
    /\ read' = [read EXCEPT ![w] = Version]
    /\ pc' = [pc EXCEPT ![w] = "again"]
    /\ UNCHANGED <<repo, files, ticket, receipts, chunks, late, base, logged, list, batch, gc,
                   removed, left>>

Resend(w) ==
    /\ pc[w] = "again"
    /\ LET early == Mutant = "tickets are read again before the entry point"
           are_there == early \/ AreStaged(w)
                        \/ Mutant = "tickets are not read again before the second swap"
           do_fit == \/ \A t \in TicketsIn(w) : Fits(t, w, repo.branch)
                     \/ Mutant = "tickets are not judged again before the second swap"
       IN IF IsUnmoved(w) /\ are_there /\ do_fit
          THEN /\ pc' = [pc EXCEPT ![w] = "sent"]
               /\ read' = [read EXCEPT ![w] = IF early THEN Version ELSE @]
               /\ UNCHANGED batch
          ELSE /\ pc' = [pc EXCEPT ![w] = "waiting"]
               /\ read' = [read EXCEPT ![w] = 0]
               /\ batch' = [batch EXCEPT ![w] = <<>>]
    /\ UNCHANGED <<repo, files, ticket, receipts, chunks, late, base, logged, list, gc, removed,
                   left>>

\* Hints for the others, and tidying up. Nothing depends on it.
Finish(w) ==
    /\ pc[w] = "carried"
    /\ receipts' = receipts \cup TicketsIn(w)
    /\ ticket' = [t \in Tickets |-> IF t \in TicketsIn(w) THEN "no" ELSE ticket[t]]
    /\ pc' = [pc EXCEPT ![w] = "acknowledged"]
    /\ batch' = [batch EXCEPT ![w] = <<>>]
    /\ UNCHANGED <<repo, files, chunks, late, base, logged, read, list, gc, removed, left>>

-----------------------------------------------------------------------------
(* Giving up: by wish, or because the commit cannot be put on top of the tip *)

Bury(w) ==
    /\ ticket' = [ticket EXCEPT ![w] =
            IF Mutant = "a withdrawn ticket is deleted, not buried" THEN "no" ELSE "buried"]
    /\ UNCHANGED read

Answer(w) == IF IsLogged(w) THEN "acknowledged" ELSE "withdrawn"

GiveUp(w) ==
    /\ \/ pc[w] = "giving up" /\ UNCHANGED left
       \/ /\ pc[w] = "waiting" /\ left.withdrawals > 0
          /\ left' = [left EXCEPT !.withdrawals = @ - 1]
    /\ IF Mutant = "the fence is set before the ticket is buried"
       THEN read' = [read EXCEPT ![w] = Version] /\ UNCHANGED ticket
       ELSE Bury(w)
    /\ pc' = [pc EXCEPT ![w] =
            IF pc[w] = "giving up" /\ Mutant = "what did not fit before it was buried needs no fence"
            THEN Answer(w) ELSE "fence"]
    /\ UNCHANGED <<repo, files, receipts, chunks, late, base, logged, list, batch, gc, removed>>

\* Reads `repo`. If the ticket does not fit there, no swap computed from this version carries it.
SetFence(w) ==
    /\ pc[w] = "fence"
    /\ IF Mutant = "the fence is set before the ticket is buried"
       THEN Bury(w) /\ pc' = [pc EXCEPT ![w] = "fencing"]
       ELSE /\ UNCHANGED ticket
            /\ IF Agrees(w, repo.branch)
               THEN /\ read' = [read EXCEPT ![w] = Version]
                    /\ pc' = [pc EXCEPT ![w] = "fencing"]
               ELSE /\ pc' = [pc EXCEPT ![w] = Answer(w)]
                    /\ UNCHANGED read
    /\ UNCHANGED <<repo, files, receipts, chunks, late, base, logged, list, batch, gc, removed,
                   left>>

\* `repo` was changed since: every carrier that can still win has listed the tickets after it was
\* buried. If no one changes it, the writer does, with an entry that changes nothing.
Decide(w) ==
    /\ pc[w] = "fencing"
    /\ pc' = [pc EXCEPT ![w] = Answer(w)]
    /\ IF Version # read[w] \/ IsLogged(w) \/ Mutant = "a withdrawal without a fence"
       THEN UNCHANGED repo
       ELSE repo' = [repo EXCEPT !.log = Append(@, Other)]
    /\ read' = [read EXCEPT ![w] = 0]
    /\ UNCHANGED <<files, ticket, receipts, chunks, late, base, logged, list, batch, gc, removed,
                   left>>

Crash(w) ==
    /\ left.crashes > 0 /\ IsLive(w)
    /\ pc' = [pc EXCEPT ![w] = IF @ = "sent" THEN "zombie" ELSE "dead"]
    /\ read' = [read EXCEPT ![w] = IF pc[w] = "sent" THEN @ ELSE 0]
    /\ batch' = [batch EXCEPT ![w] = IF pc[w] = "sent" THEN @ ELSE <<>>]
    /\ list' = [list EXCEPT ![w] = {}]
    /\ left' = [left EXCEPT !.crashes = @ - 1]
    /\ UNCHANGED <<repo, files, ticket, receipts, chunks, late, base, logged, gc, removed>>

Write(w) ==
    \/ Stage(w) \/ LatePut(w) \/ Receive(w) \/ Look(w) \/ Gather(w) \/ Arrive(w)
    \/ LookAgain(w) \/ Resend(w) \/ Finish(w) \/ GiveUp(w) \/ SetFence(w) \/ Decide(w) \/ Crash(w)

-----------------------------------------------------------------------------
(* Others: each step is one compare-and-swap of `repo` *)

ForeignCommit ==
    /\ left.foreign > 0
    /\ LET id == <<100 + left.foreign, TicketOf(Tip(repo))>>
       IN repo' = [branch |-> Append(repo.branch, id), listed |-> repo.listed \cup {id[1]},
                   log |-> Append(repo.log, id[1])]
    /\ left' = [left EXCEPT !.foreign = @ - 1]
    /\ UNCHANGED <<files, ticket, receipts, chunks, late, pc, base, logged, read, list, batch, gc,
                   removed>>

\* Also what remains of a branch that is deleted and created again somewhere in its history.
Reset ==
    /\ left.resets > 0
    /\ \E i \in 1..(Len(repo.branch) - 1) :
        /\ repo' = [repo EXCEPT !.branch = SubSeq(@, 1, i), !.log = Append(@, Other)]
        /\ removed' = removed \cup {TicketOf(repo.branch[j]) : j \in (i + 1)..Len(repo.branch)}
    /\ left' = [left EXCEPT !.resets = @ - 1]
    /\ UNCHANGED <<files, ticket, receipts, chunks, late, pc, base, logged, read, list, batch, gc>>

\* Takes a snapshot from the list; its log is still named, so its place in the branch is kept here.
Expire ==
    /\ left.expiries > 0
    /\ \E t \in repo.listed \ {TicketOf(Tip(repo))} :
        /\ repo' = [repo EXCEPT !.listed = @ \ {t}, !.log = Append(@, Other)]
        /\ removed' = removed \cup {t}
    /\ left' = [left EXCEPT !.expiries = @ - 1]
    /\ UNCHANGED <<files, ticket, receipts, chunks, late, pc, base, logged, read, list, batch, gc>>

\* Old: of a session that is over, none of whose requests is on its way. Tickets go first.
Plan ==
    /\ gc.pc = "idle" /\ left.gc > 0
    /\ LET reachable == {TicketOf(id) : id \in Range(repo.branch)} \cap repo.listed
           old == {t \in chunks : ~IsLive(t) /\ t \notin late /\ t \notin reachable}
       IN /\ gc' = [pc |-> "planned", garbage |-> old]
          /\ ticket' = [t \in Tickets |->
                IF t \in old /\ Mutant \notin {"a collection leaves tickets",
                                               "a collection deletes tickets after its swap"}
                THEN "no" ELSE ticket[t]]
    /\ left' = [left EXCEPT !.gc = @ - 1]
    /\ UNCHANGED <<repo, files, receipts, chunks, late, pc, base, logged, read, list, batch, removed>>

\* The collection's swap is a fence, too: no carrier that listed a ticket before can win after it.
Drop ==
    /\ gc.pc = "planned"
    /\ LET reachable == {TicketOf(id) : id \in Range(repo.branch)}
       IN gc' = [pc |-> "delete", garbage |-> gc.garbage \ (reachable \cap repo.listed)]
    /\ repo' = [repo EXCEPT !.log = Append(@, Other)]
    /\ UNCHANGED <<files, ticket, receipts, chunks, late, pc, base, logged, read, list, batch,
                   removed, left>>

Delete ==
    /\ gc.pc = "delete"
    /\ chunks' = chunks \ gc.garbage
    /\ ticket' = [t \in Tickets |->
            IF t \in gc.garbage /\ Mutant = "a collection deletes tickets after its swap"
            THEN "no" ELSE ticket[t]]
    /\ gc' = [pc |-> "idle", garbage |-> {}]
    /\ UNCHANGED <<repo, files, receipts, late, pc, base, logged, read, list, batch, removed, left>>

-----------------------------------------------------------------------------
\* The end. Any other state without a next step would be a writer that waits forever.
Done ==
    /\ \A w \in Writers : pc[w] \in Answers \cup {"dead"}
    /\ UNCHANGED vars

Next ==
    \/ \E w \in Writers : Write(w)
    \/ ForeignCommit \/ Reset \/ Expire
    \/ Plan \/ Drop \/ Delete
    \/ Done

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
(* What must hold in every state *)

Times(t) == Cardinality({i \in DOMAIN repo.log : repo.log[i] = t})

NothingIsAppliedTwice == \A t \in Tickets : Times(t) <= 1

\* An acknowledged commit was made, and nothing that was made is lost, of any writer.
AcknowledgedIsMade == \A w \in Writers : pc[w] = "acknowledged" => Times(w) >= 1

NothingIsLost ==
    \A i \in DOMAIN repo.log : repo.log[i] # Other =>
        repo.log[i] \in {TicketOf(id) : id \in Range(repo.branch)} \cup removed

\* The heart: what was withdrawn is never carried, before or after.
WithdrawnIsNeverCarried == \A w \in Writers : pc[w] = "withdrawn" => Times(w) = 0

ReceiptIsTrue == \A t \in receipts : Times(t) >= 1

\* A snapshot file has the content that its place in history demands.
FilesFitHistory ==
    \A i \in 2..Len(repo.branch) : ParentOf(repo.branch[i]) = TicketOf(repo.branch[i - 1])

\* No commit is on top of one of the same key that its session has not seen.
NoChangeIsDropped ==
    \A i \in DOMAIN repo.branch :
        LET t == TicketOf(repo.branch[i])
        IN t \in Tickets =>
            /\ \E b \in 1..(i - 1) : repo.branch[b] = base[t]
            /\ InTheWay(t, SubSeq(repo.branch, 1, i - 1)) = {}

ReachableExists ==
    \A id \in Range(repo.branch) :
        TicketOf(id) \in Tickets \cap repo.listed => TicketOf(id) \in chunks
=============================================================================
