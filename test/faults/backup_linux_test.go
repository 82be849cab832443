package faults

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncemq/oncemq"
	"github.com/oncemq/oncemq/internal/localcluster"
	"github.com/oncemq/oncemq/test/cluster"
)

// Row 80: backups are made under the ledger, while nodes are killed, of any of them. Each, restored to a fresh cluster, has a ledger that adds up: no
// half transaction, and all that was acknowledged before the backup began.
func TestRow80BackupUnderLedger(t *testing.T) {
	backupUnderLedger(t, 3)
}

// Row 80, long.
func TestRow80BackupUnderLedgerAgainAndAgain(t *testing.T) {
	Long(t)
	backupUnderLedger(t, 30)
}

func backupUnderLedger(t *testing.T, backups int) {
	t.Helper()
	w := New(t, Options{Rate: 1000})
	rng := rand.New(rand.NewPCG(80, uint64(backups)))
	files := map[int]string{} // by number
	w.Run(func() {
		b := w.openBank()
		for number := 0; len(files) < backups; number++ {
			b.mark(number)
			if file := w.backup(rng, number); file != "" {
				files[number] = file
			}
		}
		b.close()
	})
	for i, number := range slices.Sorted(maps.Keys(files)) {
		voters := 1
		if i%3 == 2 {
			voters = nodes
		}
		w.judgeBackup(files[number], number, voters)
	}
}

// backup makes a backup of some node while, two times of three, some node is killed; "": the one that it was made of was killed, or could not
// reach the leader, and said so.
func (w *World) backup(rng *rand.Rand, number int) string {
	w.tb.Helper()
	of, victim := w.Nodes[rng.IntN(nodes)], w.Nodes[rng.IntN(nodes)]
	file := filepath.Join(w.dir, fmt.Sprintf("%d.backup", number))
	cmd := exec.Command(cluster.Binary(w.tb), "backup", "create", file, "--admin", of.Admin, "--keep-free", "0")
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		w.tb.Fatal(err)
	}
	kill := rng.IntN(3) > 0
	if kill {
		w.For(time.Duration(rng.IntN(250)) * time.Millisecond)
		w.Kill(victim)
	}
	err := cmd.Wait()
	w.Note("backup %d of node %d: %v: %s", number, of.ID, err, strings.TrimSpace(said.String()))
	if kill {
		w.Start(victim)
	}
	if err == nil {
		return file
	}
	if _, there := os.Stat(file); there == nil {
		w.tb.Errorf("a backup that failed has left %s", file)
	}
	if !kill {
		w.tb.Errorf("a backup of node %d failed though nothing was wrong: %s", of.ID, said.String())
	}
	return ""
}

// The bank's queues: tokens are moved between accounts, always two of them in one transaction, in which an amount goes from one to the other.
const (
	accounts = 4
	tokens   = 40
	funds    = 1000 // of each token at first
)

func account(i int) string { return fmt.Sprintf("account.%d", i) }

const marks = "marks"

// bank is a ledger beside the demo's that nobody audits: all of it is in each backup.
type bank struct {
	w      *World
	marks  *oncemq.Sender
	cancel context.CancelFunc
	movers sync.WaitGroup
	moved  atomic.Int64 // transactions
}

// openBank fills the accounts, in one transaction, and has two programs move what they hold.
func (w *World) openBank() *bank {
	w.tb.Helper()
	ctx, cancel := context.WithCancel(w.ctx)
	b := &bank{w: w, cancel: cancel}
	s := w.session(w.urls(0))
	sender := func(queue string) *oncemq.Sender {
		x, err := s.NewSender(ctx, queue, nil)
		if err != nil {
			w.tb.Fatal(err)
		}
		return x
	}
	b.marks = sender(marks)
	var to [accounts]*oncemq.Sender
	for i := range to {
		to[i] = sender(account(i))
	}
	err := s.InTx(ctx, func(tx *oncemq.Tx) error {
		var errs []error
		for id := range tokens {
			errs = append(errs, tx.Send(ctx, to[id%accounts], token{id, funds}.message()))
		}
		return errors.Join(errs...)
	})
	if err != nil {
		w.tb.Fatal(err)
	}
	for i := range 2 {
		mover := w.session(w.urls(i + 1))
		b.movers.Go(func() {
			if err := b.move(ctx, mover, rand.New(rand.NewPCG(8, uint64(i)))); err != nil && ctx.Err() == nil {
				w.tb.Errorf("mover %d: %v", i, err)
			}
		})
	}
	return b
}

// mark stores a number, and returns when it is accepted: each backup that is begun from now on has it.
func (b *bank) mark(number int) {
	b.w.tb.Helper()
	if err := b.marks.Send(b.w.ctx, oncemq.NewText(strconv.Itoa(number))); err != nil {
		b.w.tb.Fatal(err)
	}
}

// close ends the movers.
func (b *bank) close() {
	b.w.tb.Helper()
	b.cancel()
	b.movers.Wait()
	b.w.tb.Logf("%d transactions of the bank", b.moved.Load())
	if b.moved.Load() < 20 {
		b.w.tb.Error("the bank moved hardly anything, so nothing was tested")
	}
}

// token is a piece of the bank's money.
type token struct{ id, amount int }

func (t token) message() *oncemq.Message {
	return oncemq.NewText(fmt.Sprintf("token %d amount %d", t.id, t.amount))
}

func readToken(m *oncemq.Message) (t token, err error) {
	text, _ := m.Value.(string)
	_, err = fmt.Sscanf(text, "token %d amount %d", &t.id, &t.amount)
	return t, err
}

// move takes a token from each of two accounts and puts each into the other, with some of the one's amount gone to the other's, until ctx ends.
// What becomes of a transaction is no concern: the accounts add up in any case.
func (b *bank) move(ctx context.Context, s *oncemq.Session, rng *rand.Rand) error {
	var from [accounts]*oncemq.Receiver
	var to [accounts]*oncemq.Sender
	for i := range accounts {
		var err error
		if from[i], err = s.NewReceiver(ctx, account(i), &oncemq.ReceiverOptions{Prefetch: 2}); err != nil {
			return err
		}
		if to[i], err = s.NewSender(ctx, account(i), nil); err != nil {
			return err
		}
	}
	for {
		x := rng.IntN(accounts)
		y := (x + 1 + rng.IntN(accounts-1)) % accounts
		var held [2]*oncemq.Delivery
		var have [2]token
		for i, a := range []int{x, y} {
			var err error
			if held[i], err = from[a].Receive(ctx); err != nil {
				return err
			}
			if have[i], err = readToken(held[i].Message); err != nil {
				return err
			}
		}
		some := rng.IntN(100)
		have[0].amount, have[1].amount = have[0].amount-some, have[1].amount+some
		err := s.InTx(ctx, func(tx *oncemq.Tx) error {
			return errors.Join(tx.Accept(held[0]), tx.Accept(held[1]),
				tx.Send(ctx, to[y], have[0].message()), tx.Send(ctx, to[x], have[1].message()))
		})
		if err == nil {
			b.moved.Add(1)
		}
	}
}

// entry is a message of the demo's: an order, a side of the ledger, or a receipt.
type entry struct {
	producer, number, worker, receipt int
	amount                            int64
}

func (e entry) order() [2]int { return [2]int{e.producer, e.number} }

func readEntry(m *oncemq.Message) (e entry, err error) {
	_, err = fmt.Sscanf(string(m.Data), "producer %d number %d amount %d worker %d receipt %d", &e.producer, &e.number, &e.amount, &e.worker, &e.receipt)
	return e, err
}

// judgeBackup restores a backup to a fresh cluster, starts it, and reads all that it has.
func (w *World) judgeBackup(file string, number, voters int) {
	w.tb.Helper()
	dir := filepath.Join(w.dir, fmt.Sprintf("restored%d", number))
	if err := os.Mkdir(dir, 0o755); err != nil {
		w.tb.Fatal(err)
	}
	list := strings.Join([]string{"1", "2", "3"}[:voters], ",")
	for id := 1; id <= voters; id++ {
		w.run(cluster.Binary(w.tb), "backup", "restore", file, "--data", filepath.Join(dir, fmt.Sprintf("node%d", id)), "--node", strconv.Itoa(id), "--peers", list)
	}
	c := cluster.StartWith(w.tb, localcluster.Config{Dir: dir, Nodes: voters})
	defer func() { _ = c.Close() }()
	ctx, cancel := context.WithTimeout(w.tb.Context(), time.Minute)
	defer cancel()
	client, err := oncemq.Dial(ctx, c.URLs(), nil)
	if err != nil {
		w.tb.Fatal(err)
	}
	defer func() { _ = client.Close(ctx) }()
	s, err := client.OpenSession(ctx, nil)
	if err != nil {
		w.tb.Fatal(err)
	}
	r := &restored{w: w, ctx: ctx, node: c.Nodes[0], session: s, name: fmt.Sprintf("backup %d, restored to %d", number, voters)}
	r.judgeMarks(number)
	r.judgeBank()
	r.judgeLedger()
}

// restored is a cluster that a backup was restored to.
type restored struct {
	w       *World
	ctx     context.Context
	node    *cluster.Node
	session *oncemq.Session
	name    string
}

// messages are those of a queue, in their order; they stay there.
func (r *restored) messages(queue string) (list []*oncemq.Message) {
	r.w.tb.Helper()
	q, ok, err := r.node.Queue(r.ctx, queue)
	if err == nil && !ok {
		return nil
	}
	var receiver *oncemq.Receiver
	if err == nil {
		receiver, err = r.session.NewReceiver(r.ctx, queue, &oncemq.ReceiverOptions{Prefetch: 1000})
	}
	for n := uint64(0); err == nil && n < q.Depth; n++ {
		var d *oncemq.Delivery
		if d, err = receiver.Receive(r.ctx); err == nil {
			list = append(list, d.Message)
		}
	}
	if err != nil {
		r.w.tb.Fatalf("%s: %s: %v", r.name, queue, err)
	}
	return list
}

// entries are the demo's messages of a queue.
func (r *restored) entries(queue string) (list []entry) {
	r.w.tb.Helper()
	for _, m := range r.messages(queue) {
		e, err := readEntry(m)
		if err != nil {
			r.w.tb.Fatalf("%s: %s: %v", r.name, queue, err)
		}
		list = append(list, e)
	}
	return list
}

// judgeMarks wants each number that was accepted before the backup began, once.
func (r *restored) judgeMarks(number int) {
	r.w.tb.Helper()
	list := r.messages(marks)
	for i, m := range list {
		if m.Value != strconv.Itoa(i) {
			r.w.tb.Errorf("%s: mark %d is %v", r.name, i, m.Value)
		}
	}
	if len(list) <= number {
		r.w.tb.Errorf("%s: %d marks, and %d were accepted", r.name, len(list), number+1)
	}
}

// judgeBank wants each token once, and the amount of all as it was at first.
func (r *restored) judgeBank() {
	r.w.tb.Helper()
	var seen [tokens]int
	sum := 0
	for i := range accounts {
		for _, m := range r.messages(account(i)) {
			t, err := readToken(m)
			if err != nil || t.id < 0 || t.id >= tokens {
				r.w.tb.Fatalf("%s: %v: %v", r.name, m.Value, err)
			}
			seen[t.id]++
			sum += t.amount
		}
	}
	for id, n := range seen {
		if n != 1 {
			r.w.tb.Errorf("%s: token %d is there %d times", r.name, id, n)
		}
	}
	if sum != tokens*funds {
		r.w.tb.Errorf("%s: the accounts hold %d, want %d", r.name, sum, tokens*funds)
	}
}

// judgeLedger looks at the demo's queues. Each of the three that a transaction sends to has the orders that were committed, in the order of their commits,
// but for those that its auditor has taken from its front; so of any two the shorter one is the end of the longer. An order that was committed doesn't wait
// any more.
func (r *restored) judgeLedger() {
	r.w.tb.Helper()
	committed := map[[2]int]bool{}
	var longest []entry
	var sides [][]entry
	for _, queue := range []string{"ledger.debit", "ledger.credit", "receipts"} {
		side := r.entries(queue)
		sides = append(sides, side)
		if len(side) > len(longest) {
			longest = side
		}
		for _, e := range side {
			committed[e.order()] = true
		}
	}
	for i, side := range sides {
		tail := longest[len(longest)-len(side):]
		if !slices.EqualFunc(side, tail, func(x, y entry) bool { return x.order() == y.order() }) {
			r.w.tb.Errorf("%s: a transaction took effect in part: side %d of the ledger has %v, another one %v", r.name, i, side, tail)
		}
	}
	debit, credit := sides[0], sides[1]
	for n := min(len(debit), len(credit)); n > 0; n-- {
		if x, y := debit[len(debit)-n], credit[len(credit)-n]; x.amount != -y.amount {
			r.w.tb.Errorf("%s: debit %+v and credit %+v", r.name, x, y)
		}
	}
	var last [16]int
	orders := r.entries("orders")
	for _, e := range orders {
		if committed[e.order()] {
			r.w.tb.Errorf("%s: order %v is committed, and waits still", r.name, e.order())
		}
		if e.number <= last[e.producer] {
			r.w.tb.Errorf("%s: order %v behind number %d", r.name, e.order(), last[e.producer])
		}
		last[e.producer] = e.number
	}
	r.w.Note("%s: %d orders wait; the ledger has %d, %d and %d", r.name, len(orders), len(sides[0]), len(sides[1]), len(sides[2]))
	if dead := r.messages("DLQ.orders"); len(dead) > 0 {
		r.w.tb.Errorf("%s: %d dead letters", r.name, len(dead))
	}
}
