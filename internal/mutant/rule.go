package mutant

// Rule names what a mutant breaks: an interleaving's number in brackets, a rule of the contract (C…), a seed rule (S…), or
// raft's own. "" for what is no mutant.
func (m Mutant) Rule() string {
	switch m {
	case LastNumber, NoRewind:
		return "[1.1]"
	case AnyEpoch:
		return "[1.2]"
	case ConnOutlivesEpoch:
		return "[1.3]"
	case FormerConnLives:
		return "[1.4]"
	case OperationCount, OutcomeLookup:
		return "[2.1]"
	case OutcomeUndecided:
		return "[2.2]"
	case AbsentAccepted:
		return "[3.3]"
	case WithdrawPartly:
		return "[3.4]"
	case GraceForever:
		return "[3.7]"
	case AlwaysLease:
		return "[3.8]"
	case MapOrder:
		return "[4.3]"
	case StreamNotStored, OutcomeNotStored, IndexApart:
		return "[6.1]"
	case NoSync, MemoryCut, NameNotSynced:
		return "[6.2]"
	case OldQuorum, ChangeNotStored:
		return "[8.8]"
	case VoteNotStored, EarlyApply:
		return "raft"
	default:
		return m.contract()
	}
}

// contract is the rule of the contract or of the seeds.
func (m Mutant) contract() string {
	switch m {
	case HalfCommit:
		return "C1"
	case EarlyAnswer:
		return "C3"
	case ReturnedLast:
		return "C7"
	case RollbackKeeps:
		return "C8"
	case NumberRepeats, EarlySent, ClientRepeats, ResendStored:
		return "C9"
	case AnyAttempt:
		return "C12"
	case SyncAgain, TailNotWritten, DamageIsEnd, RecordUnchecked, AskerCounts, LowCheckpoint, RangeUnanchored, StateBelowLog:
		return "C14"
	case LocalBarrier:
		return "C16"
	case UnknownRolledBack:
		return "S5"
	default:
		return ""
	}
}
