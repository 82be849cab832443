package frontend

import (
	"strings"
	"testing"
	"time"

	"github.com/oncemq/oncemq/internal/amqp"
	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/engine"
)

// [8.5]: with little room new senders get no credit, others lose theirs, and questions go on; with room they get it again.
func TestLittleRoomWithholdsCredit(t *testing.T) {
	r := newRig(t)
	p := r.open("a")
	s := p.begin()
	before := p.sender(s, "q")
	if before.Credit() == 0 {
		t.Fatal("no credit for a new sender")
	}
	r.log.room = command.RoomLow
	r.wait(2 * time.Second)
	later, asking := p.sender(s, "q"), p.sender(s, addressOutcome)
	if before.Credit() != 0 || later.Credit() != 0 {
		t.Fatalf("credit %d and %d with little room", before.Credit(), later.Credit())
	}
	if asking.Credit() == 0 {
		t.Fatal("no credit for questions")
	}
	r.log.room = command.RoomOK
	r.wait(time.Second)
	if before.Credit() == 0 || later.Credit() == 0 {
		t.Fatalf("credit %d and %d with room", before.Credit(), later.Credit())
	}
	wantState[*amqp.Accepted](t, p.sendText(before, "x")[0], true)
}

// [8.5]: without room a send is refused before it is written anywhere, a transaction that sends is rolled back, and settlements pass.
func TestNoRoomRefusesSends(t *testing.T) {
	r := newRig(t)
	p, s := r.fill("q", "a", "b", "c")
	p.receiver(s, "q", 3)
	r.pump()
	got := p.want("a b c")
	l, k := p.sender(s, "q"), p.coordinator(s)
	sending, settling := k.declare(), k.declare()
	r.log.room = command.RoomFull
	bodies := r.log.bodies
	wantRejected(t, p.sendText(l, "x")[0], amqp.ErrCondResourceLimitExceeded)
	if r.log.bodies != bodies {
		t.Error("a refused send was proposed")
	}
	p.sendIn(sending, l, "x")
	err := wantRejected(t, k.discharge(sending, false), amqp.ErrCondTransactionRollback)
	if v, _ := err.Info.Lookup(string(amqp.InfoReason)); v != command.ReasonLimit {
		t.Errorf("rolled back: %v", v)
	}
	got[0].d.Dispose(accepted, true)
	got[1].d.Dispose(inTx(settling, accepted), true)
	r.pump()
	k.commit(settling)
	r.wantDepth("q", "1/1")
}

// [8.14]: all open transactions of a node share a budget; the one that would go beyond it is rolled back, and what ends, in whatever way,
// gives its part back.
func TestTransactionsShareABudget(t *testing.T) {
	r := newRig(t, Config{Dev: true, TxBytes: 10_000})
	held := func(want int64) {
		t.Helper()
		if got := r.node.txHeld.Load(); got != want {
			t.Fatalf("%d bytes are held, want %d", got, want)
		}
	}
	large := strings.Repeat("x", 4000)
	one := int64(len(text(large)) + operationCost)
	open := func(container string) (*pair, *control, *engine.Link, []byte) {
		p := r.open(container)
		s := p.begin()
		k, l := p.coordinator(s), p.sender(s, "q")
		id := k.declare()
		p.sendIn(id, l, large)
		return p, k, l, id
	}
	_, k1, l1, id1 := open("a")
	p2, _, _, _ := open("b")
	held(2 * one)
	d := k1.p.sendIn(id1, l1, large)
	wantRejected(t, k1.discharge(id1, false), amqp.ErrCondTransactionRollback)
	if x, ok := d.State.(*amqp.TransactionalState); !ok || !strings.Contains(x.Outcome.(*amqp.Rejected).Error.Description, command.ReasonLimit) {
		t.Errorf("the operation beyond the budget: %+v", d.State)
	}
	held(one)
	r.wantDepth("q", "0/0")
	_, k3, _, id3 := open("c")
	held(2 * one)
	k3.commit(id3)
	held(one)
	p2.lose(command.EndReset)
	held(0)
	p4, _, _, _ := open("d")
	held(one)
	p4.fe.EndEpoch("over", r.now)
	held(0)
	p5, k5, _, id5 := open("e")
	k5.rollback(id5)
	held(0)
	p5.fe.Lost(command.EndSilent, r.now)
	held(0)
}
