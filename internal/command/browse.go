package command

// Browse asks a node's own replica for a slice of a queue, for a browser: one that reads messages without taking them [4.7]. It is no
// command and never in the log; it stands here because home and replica share it.
type Browse struct {
	// Local and Link name the browser on its node. A browser has one question at a time: the next one takes the place of one that waits.
	Local uint64
	Link  uint32
	// Turn comes back in the answer, so that the asker knows to what it is one.
	Turn  uint32
	Queue string
	// Incarnation is the queue's life that is meant, 0 for whichever there is.
	Incarnation Incarnation
	// Filter is a selector as LinkOpen has it; nil fits all.
	Filter []byte
	// After is zero, or what Next said in the answer before.
	After BrowsePlace
	// Most is the number of messages wanted, at most MaxBrowsed; 0 takes the question before back, and isn't answered.
	Most int
	// Wait has the answer wait for a message, or the end of the queue, where there is no message now.
	Wait bool
}

// MaxBrowsed is how many messages one slice has at most.
const MaxBrowsed = 256

// BrowsePlace is how far a browser has come in each of a queue's lanes, which package state alone knows.
type BrowsePlace [16]uint64

// Browsed is a message of a queue, for who reads it without taking it.
type Browsed struct {
	// Position is its number in the queue: nobody else's in this life of the queue, and rising within a priority.
	Position uint64
	// Overlay are annotations that came since it was stored, an encoded AMQP map, nil for none.
	Overlay []byte
	// Count is its delivery-count; Held says that a consumer has it.
	Count uint32
	Held  bool
}

// BrowseSlice answers a Browse. The asker owns it.
type BrowseSlice struct {
	Link, Turn  uint32
	Incarnation Incarnation // of the queue; 0: there is none, or another one
	// Messages are in the order in which they are handed out. There may be none, also where More says that the slice ended before the queue did.
	Messages []Browsed
	Next     BrowsePlace
	More     bool
}
