package failover

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/oncemq/oncemq/internal/localcluster"
	"github.com/oncemq/oncemq/test/cluster"
)

// world is three nodes, each behind a proxy.
type world struct {
	*cluster.Cluster
	t      *testing.T
	fronts []*cluster.Proxy // by place in Nodes
	// peers are what is between the nodes, by the ids of who dials and who is dialled; nothing where there is no proxy.
	peers map[[2]int]*cluster.Proxy
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return startWorld(t, localcluster.Config{})
}

// newWorldOfLinks has proxies between the nodes too.
func newWorldOfLinks(t *testing.T) *world {
	t.Helper()
	peers := make(map[[2]int]*cluster.Proxy)
	w := startWorld(t, localcluster.Config{Dial: func(from, to int, addr string) string {
		p := cluster.NewProxy(t, addr)
		peers[[2]int{from, to}] = p
		return p.Addr
	}})
	w.peers = peers
	return w
}

func startWorld(t *testing.T, cfg localcluster.Config) *world {
	t.Helper()
	cfg.Dir, cfg.Nodes = t.TempDir(), 3
	w := &world{t: t, Cluster: cluster.StartWith(t, cfg)}
	for _, n := range w.Nodes {
		w.fronts = append(w.fronts, cluster.NewProxy(t, n.AMQP))
	}
	return w
}

// front is the proxy before a node.
func (w *world) front(n *cluster.Node) *cluster.Proxy { return w.fronts[n.ID-1] }

// uri is what a JMS program connects by: home first, then the others. It stays with these addresses, whatever the nodes
// say of each other, so that it goes through the proxies.
func (w *world) uri(home *cluster.Node, options ...string) string {
	var list []string
	for i := range w.Nodes {
		n := w.Nodes[(home.ID-1+i)%len(w.Nodes)]
		list = append(list, "amqp://"+w.front(n).Addr)
	}
	return "failover:(" + strings.Join(list, ",") + ")?" + strings.Join(append(options, "failover.amqpOpenServerListAction=IGNORE"), "&")
}

// follower is a node that doesn't lead.
func (w *world) follower() *cluster.Node {
	w.t.Helper()
	return w.Nodes[w.Leader().ID%len(w.Nodes)]
}

// other is a node that is none of those.
func (w *world) other(but ...*cluster.Node) *cluster.Node {
	for _, n := range w.Nodes {
		is := false
		for _, b := range but {
			is = is || b.ID == n.ID
		}
		if !is {
			return n
		}
	}
	return nil
}

// until waits for a condition.
func (w *world) until(what string, cond func() bool) {
	w.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); !cond(); <-tick.C {
		if time.Now().After(end) {
			w.t.Fatalf("waited %v in vain until %s", patience, what)
		}
	}
}

// depth is a queue's number of messages as a node has them, those in flight included.
func (w *world) depth(n *cluster.Node, queue string) int {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 5*time.Second)
	defer cancel()
	q, _, err := n.Queue(ctx, queue)
	if err != nil {
		return -1 // not now
	}
	return int(q.Depth)
}

// holds waits until a node has so many messages in a queue.
func (w *world) holds(n *cluster.Node, queue string, messages int) {
	w.t.Helper()
	got := 0
	w.until("a queue has its messages", func() bool { got = w.depth(n, queue); return got == messages })
}

// empty waits until nothing is left in the queues, as a node sees it that isn't the home.
func (w *world) empty(home *cluster.Node) {
	w.t.Helper()
	for _, queue := range []string{"in", "out"} {
		w.holds(w.other(home), queue, 0)
	}
}

// roles runs a test with a home that leads, then with one that doesn't. The home runs again behind each, and the queues have to
// be empty.
func roles(t *testing.T, test func(t *testing.T, w *world, home *cluster.Node)) {
	t.Helper()
	w := newWorld(t)
	for _, role := range []struct {
		name string
		home func() *cluster.Node
	}{{"the home leads", w.Leader}, {"another leads", w.follower}} {
		home := role.home()
		ok := t.Run(role.name, func(t *testing.T) { test(t, w, home) })
		if !ok {
			return
		}
		w.revive(home)
	}
}

// revive starts a node that has ended, and waits until it is ready.
func (w *world) revive(n *cluster.Node) {
	w.t.Helper()
	n.Start()
	n.WaitReady()
}
