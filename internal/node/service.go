package node

import (
	"context"
	"sync"
	"time"

	"github.com/oncemq/oncemq/internal/admin"
	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/state"
)

// service is the node's service to clients, as an operator sees it: it implements admin.Service.
type service struct {
	node *Node

	mu     sync.Mutex
	cancel func()         // of what goes on now; nil: nothing; guarded by mu
	ended  bool           // nothing new is begun; guarded by mu
	going  sync.WaitGroup // what goes on
}

// handOverEvery is how often a drained node looks whether it leads.
const handOverEvery = time.Second

// drained says whether the node was drained.
func (s *service) drained() bool { return s.node.server.Drained() }

// Service implements admin.Service.
func (s *service) Service() admin.NodeService {
	st := s.node.replica.Status()
	return admin.NodeService{
		Node: uint64(st.Node), Drained: s.drained(), Leads: st.Leader == st.Node, Connections: s.node.server.Stats().Connections,
	}
}

// begin runs fn in the background, in the place of what went on before.
func (s *service) begin(fn func(ctx context.Context)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	if s.cancel != nil {
		s.cancel()
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	s.going.Go(func() { defer cancel(); fn(ctx) })
}

// end ends what goes on, and waits for it.
func (s *service) end() {
	s.mu.Lock()
	s.ended = true
	if s.cancel != nil {
		s.cancel()
	}
	s.mu.Unlock()
	s.going.Wait()
}

// Drain implements admin.Service. Leadership goes first: clients then find a leader at once. As long as the node is drained it
// hands leadership over whenever it gets it.
func (s *service) Drain(over time.Duration) admin.NodeService {
	if !s.drained() {
		s.node.opts.Logger.Info("the node is drained", "node", s.node.opts.Config.Node, "over", over)
	}
	s.node.server.Bar()
	s.begin(func(ctx context.Context) {
		s.node.handOver(ctx)
		if err := s.node.server.Drain(ctx, over); err != nil {
			return
		}
		s.node.opts.Logger.Info("the node has no clients any more", "node", s.node.opts.Config.Node)
		tick := time.NewTicker(handOverEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				s.node.handOver(ctx)
			case <-ctx.Done():
				return
			}
		}
	})
	return s.Service()
}

// Revive implements admin.Service.
func (s *service) Revive() admin.NodeService {
	s.begin(func(context.Context) {})
	s.node.server.Revive()
	s.node.opts.Logger.Info("the node is open to clients", "node", s.node.opts.Config.Node)
	return s.Service()
}

// Rebalance implements admin.Service. The counts are the replicated ones, so every node reckons with the same.
func (s *service) Rebalance(ctx context.Context, over time.Duration) (admin.Rebalanced, error) {
	counts, err := s.node.connections(ctx)
	if err != nil {
		return admin.Rebalanced{}, err
	}
	all, up, own := 0, 0, 0
	for _, c := range counts {
		if !c.up {
			continue
		}
		all += c.connections
		up++
		if c.node == s.node.replica.Status().Node {
			own = c.connections
		}
	}
	r := admin.Rebalanced{Connections: own, Average: (all + max(up, 1) - 1) / max(up, 1)}
	if r.Closing = max(own-r.Average, 0); r.Closing > 0 && !s.drained() {
		s.node.opts.Logger.Info("connections are closed, for other nodes have fewer", "connections", own, "average", r.Average, "closing", r.Closing, "over", over)
		s.begin(func(ctx context.Context) { _ = s.node.server.Shed(ctx, r.Closing, over) })
	}
	return r, nil
}

// nodeCount is how many clients a node has.
type nodeCount struct {
	node        command.NodeID
	up          bool
	connections int
}

// connections counts the clients of each member, behind a read barrier.
func (n *Node) connections(ctx context.Context) ([]nodeCount, error) {
	found := make(chan []nodeCount, 1)
	err := n.replica.Read(ctx, func(m *state.Machine) { found <- countsOf(m) })
	if err != nil {
		return nil, err
	}
	return <-found, nil
}

// countsOf is by id.
func countsOf(m *state.Machine) []nodeCount {
	var all []nodeCount
	at := map[command.NodeID]int{}
	for _, x := range m.Members() {
		at[x.ID] = len(all)
		all = append(all, nodeCount{node: x.ID, up: x.Up})
	}
	for _, c := range m.Connections() {
		if i, ok := at[c.Node]; ok {
			all[i].connections++
		}
	}
	return all
}
