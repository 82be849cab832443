package store

import "github.com/cockroachdb/pebble/v2"

// Batch collects changes of a State; reuse it after Apply, which empties it. Later changes win over earlier ones. Not
// safe for concurrent use.
type Batch struct{ batch *pebble.Batch }

// NewBatch returns an empty batch. Close it when it is not used any more.
func (s *State) NewBatch() *Batch { return &Batch{s.db.NewBatch()} }

// Put sets key to value. Both are copied.
func (b *Batch) Put(key, value []byte) { must(b.batch.Set(key, value, nil)) }

// Delete removes key, if it is there. The key is copied.
func (b *Batch) Delete(key []byte) { must(b.batch.Delete(key, nil)) }

// DeleteRange removes all keys start <= key < end. Both are copied.
func (b *Batch) DeleteRange(start, end []byte) { must(b.batch.DeleteRange(start, end, nil)) }

// Empty reports that there is no change in the batch.
func (b *Batch) Empty() bool { return b.batch.Empty() }

// Len is the size of the batch in bytes, a few where it is empty.
func (b *Batch) Len() int { return b.batch.Len() }

// Reset empties the batch.
func (b *Batch) Reset() { b.batch.Reset() }

// Close frees the batch.
func (b *Batch) Close() { must(b.batch.Close()) }

// must: a batch in memory that isn't indexed gives errors to programmers only (used after Close).
func must(err error) {
	if err != nil {
		panic(err)
	}
}
