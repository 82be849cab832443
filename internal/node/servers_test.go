package node

import (
	"slices"
	"testing"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/frontend"
	"github.com/oncemq/oncemq/internal/state"
)

// TestServers: of which nodes a client is told, by how it came.
func TestServers(t *testing.T) {
	members := []state.MemberInfo{
		{ID: 1, Addresses: command.Addresses{Peer: "10.0.0.1:7000", AMQP: "10.0.0.1:5672", AMQPS: "10.0.0.1:5671"}},
		{ID: 2, Addresses: command.Addresses{Peer: "10.0.0.2:7000", AMQP: "127.0.0.1:5672", AMQPS: "mq2.example.org:5671"}},
		{ID: 3, Addresses: command.Addresses{Peer: "10.0.0.3:7000", AMQP: "10.0.0.3:5672", AMQPS: "[fd00::3]:5671"}},
		{ID: 4, Leaving: true, Addresses: command.Addresses{Peer: "10.0.0.4:7000", AMQP: "10.0.0.4:5672", AMQPS: "10.0.0.4:5671"}},
		{ID: 5, Addresses: command.Addresses{Peer: "10.0.0.5:7000"}},
		{ID: 6, Addresses: command.Addresses{Peer: "127.0.0.1:7000", AMQP: "127.0.0.1:5682"}},
	}
	if got, want := serversOf(members, 1, true), []frontend.Server{{Host: "mq2.example.org", Port: 5671}, {Host: "fd00::3", Port: 5671}}; !slices.Equal(got, want) {
		t.Errorf("with TLS %v, want %v", got, want)
	}
	if got, want := serversOf(members, 1, false), []frontend.Server{{Host: "10.0.0.3", Port: 5672}, {Host: "127.0.0.1", Port: 5682}}; !slices.Equal(got, want) {
		t.Errorf("without %v, want %v", got, want)
	}
}
