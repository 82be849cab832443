package node

import (
	"context"
	"encoding/hex"
	"slices"
	"time"

	"github.com/oncemq/oncemq/internal/admin"
	"github.com/oncemq/oncemq/internal/certs"
	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/state"
)

// members is the cluster's membership: it implements admin.Members.
type members struct{ node *Node }

// Cluster implements admin.Members.
func (m *members) Cluster(ctx context.Context) (admin.Cluster, error) {
	r := m.node.replica
	stamp, err := r.Stamp()
	if err != nil {
		return admin.Cluster{}, err
	}
	c := admin.Cluster{ID: hex.EncodeToString(stamp.Cluster[:]), History: stamp.History, Node: stamp.Node}
	found := make(chan admin.Cluster, 1)
	err = r.Read(ctx, func(m *state.Machine) {
		counts := countsOf(m)
		for i, x := range m.Members() {
			c.Members = append(c.Members, member(&x, counts[i].connections))
		}
		versions(m, &c)
		for _, t := range m.Tokens() {
			c.Tokens = append(c.Tokens, admin.OpenToken{Expires: time.UnixMilli(t.Expires).UTC(), Replace: uint64(t.Replace)})
		}
		found <- c
	})
	if err != nil {
		return admin.Cluster{}, err
	}
	c = <-found
	c.Leader = uint64(r.Status().Leader)
	return c, nil
}

// versions fills in what the state says of levels, skipped entries and civil time.
func versions(m *state.Machine, c *admin.Cluster) {
	c.Level, c.LevelBy = m.Level()
	c.Supported = command.Level
	for _, x := range m.Members() {
		if !x.Leaving {
			c.Supported = min(c.Supported, x.Level)
		}
	}
	for _, s := range m.Skips() {
		c.Skipped = append(c.Skipped, s.Index)
	}
	if t := m.TimeSet(); t.Index != 0 {
		c.TimeSet = &admin.TimeSet{
			Entry: t.Index, From: time.UnixMilli(t.From).UTC(), To: time.UnixMilli(t.To).UTC(), Node: uint64(t.Node), By: t.By,
		}
	}
}

func member(x *state.MemberInfo, connections int) admin.Member {
	return admin.Member{
		Node: uint64(x.ID), Name: x.Name, Role: roleOf(x.Role), Leaving: x.Leaving, Up: x.Up, Connections: uint64(connections), Level: x.Level,
		Peer: x.Addresses.Peer, AMQP: x.Addresses.AMQP, AMQPS: x.Addresses.AMQPS, Admin: x.Addresses.Admin, Added: time.UnixMilli(x.Added).UTC(),
	}
}

// Token implements admin.Members.
func (m *members) Token(ctx context.Context, lifetime time.Duration, replace uint64) (admin.JoinToken, command.Effect, error) {
	n := m.node
	if n.links.peers == nil {
		return admin.JoinToken{}, command.Effect{}, admin.ErrNoJoining
	}
	addresses, err := m.addresses(ctx)
	if err != nil {
		return admin.JoinToken{}, command.Effect{}, err
	}
	expires := time.Now().Add(lifetime)
	t := certs.NewToken(certs.Fingerprint(n.links.peers.Authority()), addresses)
	eff, err := n.replica.Request(ctx, &command.TokenPut{Hash: t.Hash(), Expires: expires.UnixMilli(), Replace: command.NodeID(replace)})
	if err != nil || eff.Refusal != nil {
		return admin.JoinToken{}, eff, err
	}
	n.opts.Logger.Info("a token was made, with which a node can join", "expires", expires, "replace", replace)
	return admin.JoinToken{Token: t.Text(), Expires: expires.UTC().Truncate(time.Second)}, eff, nil
}

// addresses are where members listen for nodes, this one's first.
func (m *members) addresses(ctx context.Context) ([]string, error) {
	found := make(chan []string, 1)
	err := m.node.replica.Read(ctx, func(x *state.Machine) {
		var all []string
		for _, info := range x.Members() {
			if a := info.Addresses.Peer; a != "" && !info.Leaving {
				all = append(all, a)
			}
		}
		found <- all
	})
	if err != nil {
		return nil, err
	}
	own := m.node.links.address
	all := append([]string{own}, slices.DeleteFunc(<-found, func(a string) bool { return a == own })...)
	return all[:min(len(all), certs.MaxTokenAddresses)], nil
}

// Remove implements admin.Members.
func (m *members) Remove(ctx context.Context, nodes []uint64) (command.Effect, error) {
	var ids []command.NodeID
	for _, id := range nodes {
		ids = append(ids, command.NodeID(id))
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	eff, err := m.node.replica.Request(ctx, &command.MemberRemove{Nodes: ids})
	if err == nil && eff.Refusal == nil {
		m.node.opts.Logger.Info("nodes are to leave the cluster", "nodes", ids)
	}
	return eff, err
}

// roleOf is a role in words.
func roleOf(r state.Role) string {
	switch r {
	case state.RoleVoter, state.RoleOutgoing:
		return "voter"
	case state.RoleLearner:
		return "learner"
	default:
		return "joining"
	}
}
