package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
)

// Messages reads the messages of queues without any effect on them [4.7]. Its methods are safe for concurrent use.
type Messages interface {
	// Browse is one slice of a queue's messages behind position after, behind a read barrier, at most a few hundred. life is 0 or the
	// Life of an earlier slice. ErrNoQueue: there is no such queue, or it is another one by now.
	Browse(ctx context.Context, queue string, life, after uint64) (Slice, error)
	// Message is a message's bytes as they were stored; ErrNoMessage where it is gone.
	Message(life, position uint64) ([]byte, error)
}

// ErrNoMessage is the answer of Messages for a message that was settled meanwhile.
var ErrNoMessage = errors.New("oncemq: no such message")

// Slice is some of a queue's messages, in its order.
type Slice struct {
	// Life tells a queue from another one of its name that was there before or will be.
	Life uint64 `json:"life"`
	// Next is where the next slice begins: what it is given as after. More says that there may be more.
	Next uint64 `json:"next"`
	More bool   `json:"more"`

	Messages []Message `json:"-"`
}

// Message is one message of a Slice.
type Message struct {
	Position uint64 `json:"position"`
	// Count is its delivery-count; Held: a consumer has it.
	Count uint32 `json:"count,omitempty"`
	Held  bool   `json:"held,omitempty"`
	// Overlay are annotations that came later than the message, an encoded AMQP map; Encoded is the message.
	Overlay []byte `json:"overlay,omitempty"`
	Encoded []byte `json:"encoded"`
}

// messages is the handler of GET /api/v1/queues/NAME/messages: a JSON object for each message of a slice, and at last the Slice.
type messages struct{ from Messages }

func (m *messages) get(w http.ResponseWriter, r *http.Request) {
	name, ok := queueName(w, r)
	if !ok {
		return
	}
	var numbers [2]uint64
	for i, key := range []string{"life", "after"} {
		text := r.FormValue(key)
		if text == "" {
			continue
		}
		var err error
		if numbers[i], err = strconv.ParseUint(text, 10, 64); err != nil {
			writeError(w, http.StatusBadRequest, fmt.Errorf("%s %q: a number that an earlier answer gave", key, text))
			return
		}
	}
	slice, err := m.from.Browse(r.Context(), name, numbers[0], numbers[1])
	switch {
	case errors.Is(err, ErrNoQueue):
		writeError(w, http.StatusNotFound, fmt.Errorf("queue %q: %w; it may have been deleted", name, err))
		return
	case err != nil:
		writeError(w, http.StatusServiceUnavailable, fmt.Errorf("queue %q: %w; ask again, or another node", name, err))
		return
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Cache-Control", "no-store")
	out := json.NewEncoder(&patient{w: w, control: http.NewResponseController(w)})
	for i := range slice.Messages {
		x := &slice.Messages[i]
		if x.Encoded, err = m.from.Message(slice.Life, x.Position); errors.Is(err, ErrNoMessage) {
			continue
		}
		if err == nil {
			err = out.Encode(x)
		}
		if err != nil {
			panic(http.ErrAbortHandler) // the answer has no end then
		}
		x.Encoded = nil
	}
	if err := out.Encode(&slice); err != nil {
		panic(http.ErrAbortHandler)
	}
}

// Browse asks the node at addr for one slice of a queue's messages behind position after, and calls fn for each; life is 0 or that of
// an earlier slice. Errors: *StatusError, fn's, and those of a connection that breaks: then the slice is asked for again, behind the
// last position that fn was given.
func Browse(ctx context.Context, addr, queue string, life, after uint64, fn func(*Message) error) (Slice, error) {
	path := fmt.Sprintf("http://%s/api/v1/queues/%s/messages?life=%d&after=%d", addr, url.PathEscape(queue), life, after)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, path, nil)
	if err != nil {
		return Slice{}, err
	}
	resp, err := dialer.Do(req)
	if err != nil {
		return Slice{}, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
		if err != nil {
			return Slice{}, err
		}
		return Slice{}, statusError(resp, text)
	}
	for d := json.NewDecoder(resp.Body); ; {
		var x struct {
			Message
			Slice
		}
		if err := d.Decode(&x); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return Slice{}, fmt.Errorf("reading messages of queue %q: %w", queue, err)
		}
		if x.Life != 0 {
			return x.Slice, nil
		}
		if err := fn(&x.Message); err != nil {
			return Slice{}, err
		}
	}
}
