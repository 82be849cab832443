// Package mutant names the faults that are built into the product on purpose, to see that the simulator finds them: a checker
// that has never found anything proves nothing.
//
// Without the build tag mutants, On is the constant false and the compiler drops what hangs on it: no fault can be switched
// on in a binary that people run. With it, one fault at a time is chosen by Set, or by ONCEMQ_MUTANT in the environment.
package mutant

// Mutant is one fault, by its name.
type Mutant string

// The faults: what is left out or done wrongly, each against one rule of the design (its number in brackets).
const (
	LastNumber        Mutant = "last-number-for-sequence"      // [1.1] a record is applied although one before it is missing
	AnyEpoch          Mutant = "any-epoch"                     // [1.2] records of a former life are applied
	ConnOutlivesEpoch Mutant = "connections-outlive-epoch"     // [1.3] the end of a node's epoch leaves its connections
	FormerConnLives   Mutant = "former-connection-lives"       // [1.4] taking a client over leaves its former connection
	OperationCount    Mutant = "operation-count-ignored"       // [2.1] a commit with missing operations commits
	OutcomeLookup     Mutant = "outcome-not-looked-up"         // [2.1] a repeated commit is carried out again
	OutcomeUndecided  Mutant = "outcome-does-not-decide"       // [2.2] the answer "rolled back" isn't recorded
	HalfCommit        Mutant = "half-a-commit"                 // C1: the last send of a commit is left out
	RollbackKeeps     Mutant = "rollback-keeps-deliveries"     // C8: what a rolled-back transaction settled stays away
	AbsentAccepted    Mutant = "absent-is-accepted"            // [3.3] a resumed delivery that is gone is called accepted
	WithdrawPartly    Mutant = "withdraw-leaves-the-rest"      // [3.4] what is handed out during a withdrawal stays with the link
	AnyAttempt        Mutant = "any-attempt-settles"           // C12: a settlement of an earlier hand-out counts
	ReturnedLast      Mutant = "returned-goes-last"            // C7: what comes back is handed out behind what is new
	NumberRepeats     Mutant = "numbers-not-compared"          // C9: a send that is said again is stored again
	GraceForever      Mutant = "grace-forever"                 // [3.7] what is reserved for a lost client never returns
	StreamNotStored   Mutant = "stream-not-stored"             // [6.1] the numbers of sends are forgotten by a restart
	OutcomeNotStored  Mutant = "outcome-not-stored"            // [6.1] so are outcomes
	MapOrder          Mutant = "map-order"                     // [4.3] connections end in the order of a map
	NoSync            Mutant = "log-not-synced"                // [6.2] an entry is called durable before it is
	VoteNotStored     Mutant = "vote-not-stored"               // raft: term and vote aren't written
	IndexApart        Mutant = "index-in-a-batch-of-its-own"   // [6.1] applied index and changes are two batches
	MemoryCut         Mutant = "log-cut-by-the-memory-index"   // [6.2] the log is cut below what is not flushed
	NameNotSynced     Mutant = "directory-not-synced"          // [6.2] a new segment's name isn't synced
	SyncAgain         Mutant = "failed-sync-tried-again"       // C14: what a second sync says is believed
	TailNotWritten    Mutant = "tail-not-written-again"        // C14: a start believes what may be in the page cache only
	DamageIsEnd       Mutant = "damage-is-the-end"             // C14: a log that can't be read ends there
	RecordUnchecked   Mutant = "record-checksum-ignored"       // C14: a changed record is taken as it is
	EarlyApply        Mutant = "applied-before-the-quorum"     // the leader applies what is not committed
	NoRewind          Mutant = "records-not-sent-again"        // [1.1] what a lost stream carried isn't sent again
	LocalBarrier      Mutant = "barrier-without-a-majority"    // C16: a read is answered from a state that may be old
	AlwaysLease       Mutant = "lease-without-end"             // [3.8] a cut-off home goes on handing out
	OldQuorum         Mutant = "old-quorum"                    // [8.8] a leader counts by the configuration before a change
	ChangeNotStored   Mutant = "configuration-not-stored"      // [8.8] a restart goes on with the configuration of before
	AskerCounts       Mutant = "asker-counts"                  // C14: a leader that nobody else hears confirms what a damaged node begins anew with
	LowCheckpoint     Mutant = "checkpoint-too-low"            // C14: what it confirms has less than the leader's log had
	EarlyAnswer       Mutant = "discharge-answered-at-once"    // C3: accepted before the entry is applied
	EarlySent         Mutant = "send-answered-at-once"         // C9: the same for plain sends
	UnknownRolledBack Mutant = "unknown-is-called-rolled-back" // S5: the client guesses after a lost connection
	RangeUnanchored   Mutant = "range-of-another-log"          // C14: entries are taken to mend a log that goes on with another one
	StateBelowLog     Mutant = "checkpoint-below-the-log"      // C14: a state is taken that the mended log doesn't follow on
	ClientRepeats     Mutant = "client-numbers-anew"           // C9: what the client says again gets a new number
	ResendStored      Mutant = "resend-stored-again"           // C9: what a JMS client says again over its link is stored again
)

// Members are those of All that changes of the membership show: a test of package replica finds them as well.
func Members() []Mutant { return []Mutant{OldQuorum, ChangeNotStored} }

// Mends are the faults of mending a damaged directory. Tests of package store find them.
func Mends() []Mutant { return []Mutant{RangeUnanchored, StateBelowLog} }

// All are the faults that the simulator finds, in the order of their rules.
func All() []Mutant {
	return []Mutant{
		LastNumber, AnyEpoch, ConnOutlivesEpoch, FormerConnLives, OperationCount, OutcomeLookup, OutcomeUndecided, HalfCommit,
		RollbackKeeps, AbsentAccepted, WithdrawPartly, AnyAttempt, ReturnedLast, NumberRepeats, GraceForever, StreamNotStored,
		OutcomeNotStored, MapOrder, NoSync, VoteNotStored, IndexApart, MemoryCut, EarlyApply, NoRewind, LocalBarrier, AlwaysLease,
		OldQuorum, ChangeNotStored, AskerCounts, LowCheckpoint,
		NameNotSynced, SyncAgain, TailNotWritten, DamageIsEnd, RecordUnchecked,
		EarlyAnswer, EarlySent, UnknownRolledBack, ClientRepeats, ResendStored,
	}
}
