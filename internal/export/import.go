package export

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/oncemq/oncemq"
)

const (
	// batchMessages and batchBytes are about what one transaction of an import has at most.
	batchMessages = 1000
	batchBytes    = 8 << 20
	// batchTries is how often a transaction is sent that is rolled back: what the broker refuses for good is among the reasons.
	batchTries = 10
	// maxLine is the longest line: a message of 64 MiB in base64, encoded as well.
	maxLine = 256 << 20
)

// ErrUnknown says that it isn't known whether the last transaction was committed; the error that wraps it names it.
var ErrUnknown = errors.New("oncemq: it isn't known whether the last lines are in")

// Import sends the messages of the lines of r behind line after to a queue, in their order, in transactions of about a thousand.
// progress is called when one is committed: all lines up to its Position are in then, exactly once, and none behind it.
//
// The same holds of the result with an error, but for ErrUnknown: then the lines behind it, as many as one transaction has, are
// all in or none, and the error has the transaction's id for [oncemq.Client.Outcome].
func Import(ctx context.Context, client *oncemq.Client, queue string, r io.Reader, after uint64, progress func(Result)) (done Result, err error) {
	done.Position = after
	session, err := client.OpenSession(ctx, nil)
	if err != nil {
		return done, err
	}
	defer session.Close(context.WithoutCancel(ctx))
	sender, err := session.NewSender(ctx, queue, nil)
	if err != nil {
		return done, err
	}
	in := bufio.NewReaderSize(r, 256<<10)
	i := importer{client: client, session: session, sender: sender, in: in, done: Result{Position: after}}
	for range after {
		if _, err := i.next(); err != nil {
			return i.done, fmt.Errorf("line %d: %w", i.at, err)
		}
	}
	for more := true; more; {
		if more, err = i.batch(ctx); err != nil {
			return i.done, err
		}
		if progress != nil {
			progress(i.done)
		}
	}
	return i.done, nil
}

type importer struct {
	client  *oncemq.Client
	session *oncemq.Session
	sender  *oncemq.Sender
	in      *bufio.Reader
	at      uint64 // the last line that was read
	done    Result
}

// next is the next line; io.EOF behind the last.
func (i *importer) next() ([]byte, error) {
	var text []byte
	for {
		part, err := i.in.ReadSlice('\n')
		text = append(text, part...)
		switch {
		case len(text) > maxLine:
			return nil, fmt.Errorf("%w: a line of more than %d bytes", errValue, maxLine)
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && len(text) > 0:
			err = nil
		}
		if err == nil {
			i.at++
		}
		return text, err
	}
}

// batch sends the lines of one transaction; more is false behind the last line. One that is rolled back, as by a lost node, is sent again.
func (i *importer) batch(ctx context.Context) (more bool, err error) {
	messages, more, err := i.read()
	if err != nil {
		return false, err
	}
	if len(messages) == 0 { // empty lines, or none
		i.done.Position = max(i.done.Position, i.at)
		return more, nil
	}
	for try := 1; ; try++ {
		err = i.send(ctx, messages)
		if !errors.Is(err, oncemq.ErrRolledBack) || ctx.Err() != nil || try == batchTries {
			break
		}
		if err := pause(ctx); err != nil {
			return false, err
		}
	}
	if err != nil {
		return false, fmt.Errorf("the transaction of lines %d to %d: %w", i.done.Position+1, i.at, err)
	}
	i.done = Result{Messages: i.done.Messages + uint64(len(messages)), Position: i.at}
	return more, nil
}

// read reads the lines of one transaction. Empty ones count as lines.
func (i *importer) read() (messages []*oncemq.Message, more bool, err error) {
	for size := 0; len(messages) < batchMessages && size < batchBytes; {
		text, err := i.next()
		if errors.Is(err, io.EOF) {
			return messages, false, nil
		}
		if err == nil && len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		m, err := read(text, err)
		if err != nil {
			return nil, false, fmt.Errorf("line %d: %w; lines up to %d are in", i.at, err, i.done.Position)
		}
		messages, size = append(messages, m), size+len(text)
	}
	return messages, true, nil
}

// read is the message of a line.
func read(text []byte, err error) (*oncemq.Message, error) {
	if err != nil {
		return nil, err
	}
	l, err := parse(text)
	if err != nil {
		return nil, err
	}
	b, err := l.message()
	if err != nil {
		return nil, err
	}
	return oncemq.ParseMessage(b)
}

// send sends messages in one transaction. An outcome that isn't known is asked for as long as ctx lasts.
func (i *importer) send(ctx context.Context, messages []*oncemq.Message) error {
	tx, err := i.session.Begin(ctx)
	if err != nil {
		return err
	}
	for _, m := range messages {
		if err := tx.Send(ctx, i.sender, m); err != nil {
			return errors.Join(err, tx.Rollback(context.WithoutCancel(ctx)))
		}
	}
	err = tx.Commit(ctx)
	if !errors.Is(err, oncemq.ErrOutcomeUnknown) {
		return err
	}
	for ctx.Err() == nil {
		outcome, asked := i.client.Outcome(ctx, tx.ID())
		switch {
		case asked == nil && outcome == oncemq.Committed:
			return nil
		case asked == nil:
			return oncemq.ErrRolledBack
		case errors.Is(asked, oncemq.ErrExpired):
			return fmt.Errorf("%w: %w", ErrUnknown, asked)
		}
		if pause(ctx) != nil {
			break
		}
	}
	return fmt.Errorf("%w: transaction %s: %w", ErrUnknown, tx.ID(), err)
}
