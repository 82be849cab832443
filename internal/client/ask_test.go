package client

import (
	"testing"

	"github.com/oncemq/oncemq/internal/amqp"
)

// asked asks about a transaction that was committed, and fails the test if no answer comes.
func (r *rig) asked(id TxID) {
	r.t.Helper()
	q := &Query{ID: id}
	r.core.Ask(q)
	r.run()
	if !q.Done() || q.Err() != nil || q.State != "committed" {
		r.t.Fatalf("asked: %v, %q, %v", q.Done(), q.State, q.Err())
	}
}

// The asker's links may be lost one by one: the queue of the replies deleted, the sender detached. The next question, and one under way, are
// answered all the same (C4: Unknown only where no node could be reached).
func TestAskerBeginsAnew(t *testing.T) {
	gone := &amqp.Error{Condition: amqp.ErrCondResourceDeleted, Description: "deleted"}
	for _, which := range []string{"replies", "sender", "session"} {
		for _, underWay := range []bool{false, true} {
			x := newTransfer(t, false)
			x.work()
			x.tx.Commit()
			x.run()
			id := x.tx.id
			x.asked(id)
			a := x.core.asker
			q := &Query{ID: id}
			if underWay {
				x.conn.dropQuestions = true
				x.core.Ask(q)
				x.run()
				x.conn.dropQuestions = false
				if q.Done() {
					t.Fatal("not under way")
				}
			}
			switch which {
			case "replies":
				for _, b := range x.conn.senders {
					if b.l.Name() == a.replies.name {
						_ = b.l.Detach(true, gone)
					}
				}
			case "sender":
				for _, l := range x.conn.producers {
					if l.Name() == a.sender.name {
						_ = l.Detach(true, gone)
					}
				}
			case "session":
				a.session.fail(gone)
			}
			x.run()
			if underWay && (!q.Done() || q.Err() != nil || q.State != "committed") {
				t.Fatalf("%s: under way: %v, %q, %v", which, q.Done(), q.State, q.Err())
			}
			x.asked(id)
			if n := len(x.core.sessions); n != 2 && !underWay { // else the former one waits for the lost question's answer
				t.Errorf("%s: %d sessions, want the application's and the asker's", which, n)
			}
		}
	}
}

// A node that takes the asker's link away each time ends the question with its reason, not never.
func TestAskerGivesUp(t *testing.T) {
	x := newTransfer(t, false)
	x.c.detachQuestions = true
	q := &Query{ID: x.s.txID(1)}
	x.core.Ask(q)
	x.run()
	if !q.Done() || q.Err() == nil {
		t.Fatalf("asked: %v, %v", q.Done(), q.Err())
	}
	x.c.detachQuestions = false
	x.asked(x.s.txID(1))
}
