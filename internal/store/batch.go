package store

// Batch collects changes of a State; reuse it after Apply, which empties it. Later changes win over earlier ones. Not
// safe for concurrent use.
type Batch struct {
	ops  []operation
	data []byte // keys and values, one behind the other
}

// operation is one change; key and value are lengths in Batch.data.
type operation struct {
	kind       operationKind
	key, value int
}

type operationKind uint8

const (
	opPut         operationKind = iota
	opInsert                    // a put of a key that is not there
	opDelete                    // no value
	opDeleteRange               // from key to value
)

// NewBatch returns an empty batch.
func (s *State) NewBatch() *Batch { return &Batch{} }

// Put sets key to value. Both are copied.
func (b *Batch) Put(key, value []byte) { b.add(opPut, key, value) }

// Insert is Put for a key that is not there. If it is deleted again soon, neither reaches the disk.
func (b *Batch) Insert(key, value []byte) { b.add(opInsert, key, value) }

// Delete removes key, if it is there. The key is copied.
func (b *Batch) Delete(key []byte) { b.add(opDelete, key, nil) }

// DeleteRange removes all keys start <= key < end. Both are copied.
func (b *Batch) DeleteRange(start, end []byte) {
	b.add(opDeleteRange, start, end)
}

func (b *Batch) add(kind operationKind, key, value []byte) {
	b.ops = append(b.ops, operation{kind, len(key), len(value)})
	b.data = append(append(b.data, key...), value...)
}

// Empty reports that there is no change in the batch.
func (b *Batch) Empty() bool { return len(b.ops) == 0 }

// Len is the size of the keys and values in the batch, in bytes.
func (b *Batch) Len() int { return len(b.data) }

// Reset empties the batch.
func (b *Batch) Reset() {
	b.ops, b.data = b.ops[:0], b.data[:0]
	if cap(b.data) > 4*bufferBytes {
		b.ops, b.data = nil, nil
	}
}

// Changes takes changes, in order; *Batch does. Keys and values are borrowed for the call.
type Changes interface {
	Put(key, value []byte)
	Insert(key, value []byte)
	Delete(key []byte)
	DeleteRange(start, end []byte)
}

// Replay gives all changes of the batch, in order, to another taker. The batch keeps them.
func (b *Batch) Replay(to Changes) {
	b.each(func(kind operationKind, key, value []byte) {
		switch kind {
		case opPut:
			to.Put(key, value)
		case opInsert:
			to.Insert(key, value)
		case opDelete:
			to.Delete(key)
		case opDeleteRange:
			to.DeleteRange(key, value)
		}
	})
}

// each calls fn for every operation, in order. key and value are borrowed for the call.
func (b *Batch) each(fn func(kind operationKind, key, value []byte)) {
	at := 0
	for _, op := range b.ops {
		k := at + op.key
		v := k + op.value
		fn(op.kind, b.data[at:k:k], b.data[k:v:v])
		at = v
	}
}
