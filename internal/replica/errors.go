package replica

import "errors"

// The errors of this package; match them with errors.Is.
var (
	// ErrEmptyDirectory: the data directory is empty but the cluster exists [8.2]. A node
	// that lost its disk must not vote under its old identity.
	ErrEmptyDirectory = errors.New("oncemq: the data directory is empty but the cluster exists")

	// ErrNoEpoch: the node has no epoch now; nothing was proposed.
	ErrNoEpoch = errors.New("oncemq: the node is not part of the cluster now; try another node")

	// ErrEpochEnded: the node's epoch ended before the answer came; whether the command
	// was applied is not known.
	ErrEpochEnded = errors.New("oncemq: the node's epoch ended before the answer came; the outcome is not known")

	// ErrNoQuorum: no read barrier within 5 s: a majority is not reachable.
	ErrNoQuorum = errors.New("oncemq: no majority of the nodes could be reached")

	// ErrClosed: the Replica was closed or stopped.
	ErrClosed = errors.New("oncemq: the node is stopped")

	// ErrInstalled: another generation of log and state is there, or a checkpoint of another node that the next Open installs. It ends a
	// Replica whose node was too far behind to catch up by the log, or has recovered from damage; open it again.
	ErrInstalled = errors.New("oncemq: a newer state was fetched from another node, or the directory was mended")

	// ErrDiffers: this node's state is not what the other nodes' is [7.2].
	ErrDiffers = errors.New("oncemq: this node's state differs")

	// ErrApplyPanicked: a fault of the program, met by an entry that every node has to apply [4.4].
	ErrApplyPanicked = errors.New("oncemq: the program has a fault, which this entry meets on every node; report it with the log, run a version that has it put right, or skip the entry by \"oncemq recover skip\" on every node")

	// ErrSafetyOff: with safety off there is nothing that a backup could hold to.
	ErrSafetyOff = errors.New("oncemq: safety is off; what this node has may never have happened, and isn't backed up")

	// ErrDamaged: the data directory turned out to be damaged. It ends a running Replica that can recover from the other nodes;
	// open it again.
	ErrDamaged = errors.New("oncemq: the data directory is damaged, and the node recovers from the others")

	// ErrRemoved: this node was removed from the cluster; its id is never used again [8.2].
	ErrRemoved = errors.New("oncemq: this node was removed from the cluster; empty its directory and join again with a token")

	// ErrNotLeading: leadership couldn't be handed over as asked.
	ErrNotLeading = errors.New("oncemq: leadership was not handed over")

	// ErrDiverged: with safety off, this node had answered what the cluster never got. It
	// has to start anew.
	ErrDiverged = errors.New("oncemq: with safety off, this node answered what the cluster never got")
)
