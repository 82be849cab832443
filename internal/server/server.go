package server

import (
	"context"
	"log/slog"
	"net"
	"time"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/frontend"
)

// Config is one AMQP listener. A zero field stands for its default.
type Config struct {
	// Listen is host:port (default 127.0.0.1:5672). A plaintext listener elsewhere than on loopback is refused.
	Listen string
	// Dev permits ANONYMOUS, and connections without SASL. Without it no mechanism is offered yet and New refuses.
	Dev bool
	// Frontend is handed to package frontend; its Dev follows Dev.
	Frontend frontend.Config
	// Logger gets what goes wrong (default: discarded).
	Logger *slog.Logger

	// SASLTimeout and OpenTimeout bound the time until the SASL outcome and from there until Open (default 10 s each).
	SASLTimeout, OpenTimeout time.Duration
	// WriteTimeout ends a connection whose socket takes nothing for so long (default 30 s).
	WriteTimeout time.Duration
	// StopTimeout bounds the wait for discharges in flight when Run is told to end (default 5 s).
	StopTimeout time.Duration
	// MaxPending and MaxPendingPeer bound the connections, in all and of one IP address, that have not been opened yet
	// (default 1,000 each: peers are on loopback). MaxConnections bounds all (default 10,000).
	MaxPending, MaxPendingPeer, MaxConnections int
}

// Server is one listener and its connections. It implements replica's Mailbox.
type Server struct{}

// New checks the configuration and binds the listener; it starts no goroutine. Close what isn't Run.
func New(cfg Config) (*Server, error) { panic("skeleton") }

// Addr is the bound address.
func (s *Server) Addr() net.Addr { panic("skeleton") }

// Run accepts connections, which propose to log, until ctx is done; then it answers the discharges in flight, closes its
// connections with amqp:connection:forced, and returns nil when all its goroutines have ended. While the node has no epoch
// connections are refused.
func (s *Server) Run(ctx context.Context, log frontend.Log) error { panic("skeleton") }

// Close frees the listener of a Server that is not Run.
func (s *Server) Close() error { panic("skeleton") }

// Deliver implements replica's Mailbox: effects of one connection, in order; they are copied, and nothing blocks.
func (s *Server) Deliver(local uint64, effects []command.Effect) { panic("skeleton") }

// EpochBegun implements replica's Mailbox: connections are accepted from now on.
func (s *Server) EpochBegun(epoch command.Epoch) { panic("skeleton") }

// EpochEnded implements replica's Mailbox: all connections are closed with amqp:connection:forced and none is accepted until
// the next epoch.
func (s *Server) EpochEnded(reason string) { panic("skeleton") }

// Stats counts what happened since the start.
type Stats struct {
	Connections int    // open now
	Accepted    uint64 // since the start
	Panics      uint64 // connections closed by a recovered panic
}

// Stats is safe for concurrent use.
func (s *Server) Stats() Stats { panic("skeleton") }
