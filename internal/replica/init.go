package replica

import (
	"context"
	"fmt"
	"log/slog"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/oncemq/oncemq/internal/command"
)

const (
	// maxMessageBytes is about the most entries of one raft message.
	maxMessageBytes = 512 << 10
	// maxInflightMessages and maxInflightBytes bound what is sent to a peer and not
	// acknowledged.
	maxInflightMessages = 256
	maxInflightBytes    = 8 << 20
	// maxUncommittedBytes is far above what the window lets through.
	maxUncommittedBytes = 64 << 20
	// maxApplyingBytes is how much raft hands to the apply goroutine ahead.
	maxApplyingBytes = 8 << 20
)

// init makes the raft node over the log. Stream ids rise from stream on.
func (c *core) init(s *storage, stream uint64) error {
	c.packer = newPacker()
	c.packer.commit = c.commit
	c.epochs = newEpochs()
	c.failover.up, c.failover.term = map[uint64]bool{}, c.term
	c.clock = logClock{others: map[uint64]clockSample{}}
	c.storage = s
	c.configured(s.conf)
	c.sender.stream = stream
	c.barriers.seq = c.rng.Uint64() >> 1
	if err := c.lastStamp(s); err != nil {
		return err
	}
	config := &raft.Config{
		ID: c.self, ElectionTick: electionTicks, HeartbeatTick: heartbeatTicks,
		Storage: s, Applied: s.start.Applied, AsyncStorageWrites: true,
		MaxSizePerMsg: maxMessageBytes, MaxCommittedSizePerReady: maxApplyingBytes,
		MaxUncommittedEntriesSize: maxUncommittedBytes,
		MaxInflightMsgs:           maxInflightMessages, MaxInflightBytes: maxInflightBytes,
		CheckQuorum: true, PreVote: true, ReadOnlyOption: raft.ReadOnlySafe, DisableProposalForwarding: true,
		StepDownOnRemoval: true,
		Logger:            raftLogger{c.logger},
	}
	if !c.safety {
		config.MaxUncommittedEntriesSize = 0
	}
	node, err := raft.NewRawNode(config)
	if err != nil {
		return fmt.Errorf("starting raft: %w", err)
	}
	c.node = node
	return nil
}

// lastStamp finds the stamps of the newest entry in the log, which the next leader's must
// not be lower than.
func (c *core) lastStamp(s *storage) error {
	for i, n := s.start.Last, 0; i >= s.start.First && i > 0 && n < 100; i, n = i-1, n+1 {
		entries, err := s.Entries(i, i+1, 0)
		if err != nil {
			return err
		}
		if len(entries) == 0 || len(entries[0].Data) == 0 || entries[0].GetType() != pb.EntryNormal {
			continue
		}
		h, _, err := command.DecodeEntry(entries[0].Data)
		if err != nil {
			return fmt.Errorf("entry %d of the log: %w", i, err)
		}
		c.clock.seen(h)
		return nil
	}
	return nil
}

// raftLogger passes raft's words on. What raft calls information is for debugging here.
type raftLogger struct{ l *slog.Logger }

func (l raftLogger) log(level slog.Level, text string) {
	l.l.Log(context.Background(), level, "raft: "+text)
}

// formatted avoids the cost of texts that nobody reads.
func (l raftLogger) formatted(level slog.Level, format string, v []any) {
	if l.l.Enabled(context.Background(), level) {
		l.log(level, fmt.Sprintf(format, v...))
	}
}

func (l raftLogger) Debug(v ...any)                   { l.log(slog.LevelDebug, fmt.Sprint(v...)) }
func (l raftLogger) Debugf(format string, v ...any)   { l.formatted(slog.LevelDebug-1, format, v) }
func (l raftLogger) Info(v ...any)                    { l.log(slog.LevelDebug, fmt.Sprint(v...)) }
func (l raftLogger) Infof(format string, v ...any)    { l.formatted(slog.LevelDebug, format, v) }
func (l raftLogger) Warning(v ...any)                 { l.log(slog.LevelWarn, fmt.Sprint(v...)) }
func (l raftLogger) Warningf(format string, v ...any) { l.formatted(slog.LevelWarn, format, v) }
func (l raftLogger) Error(v ...any)                   { l.log(slog.LevelError, fmt.Sprint(v...)) }
func (l raftLogger) Errorf(format string, v ...any)   { l.formatted(slog.LevelError, format, v) }
func (l raftLogger) Fatal(v ...any)                   { panic("raft: " + fmt.Sprint(v...)) }
func (l raftLogger) Fatalf(format string, v ...any)   { panic("raft: " + fmt.Sprintf(format, v...)) }
func (l raftLogger) Panic(v ...any)                   { panic("raft: " + fmt.Sprint(v...)) }
func (l raftLogger) Panicf(format string, v ...any)   { panic("raft: " + fmt.Sprintf(format, v...)) }
