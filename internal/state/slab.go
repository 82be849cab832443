package state

import "math/bits"

// slab holds values without pointers, addressed by uint32, in blocks that never move: the collector sees a few large pieces
// and no pointers in them [5.1]. A block in which nothing lives is given back. Index 0 is none. Which index a value gets decides
// nothing that leaves the machine.
type slab[T any] struct {
	blocks []*block[T] // nil: given back
	gone   []uint32    // numbers of the blocks given back
	// open are numbers of blocks that have room, those used next last; some have filled up or are gone since, and are passed over.
	// listed says of each block whether it stands there.
	open   []uint32
	listed []bool
	spare  *block[T] // an empty one: a queue that fills and empties needs no new ones
	count  int       // values in use
}

const (
	slabBits = 9
	slabSize = 1 << slabBits
)

// block is a piece of a slab. What isn't taken is zero.
type block[T any] struct {
	values [slabSize]T
	taken  [slabSize / 64]uint64
	count  int
}

func (s *slab[T]) at(i uint32) *T { return &s.blocks[i>>slabBits].values[i&(slabSize-1)] }

// alloc returns the index of a zero value.
func (s *slab[T]) alloc() uint32 {
	n := s.withRoom()
	b := s.blocks[n]
	s.count++
	b.count++
	for i := range b.taken {
		if free := ^b.taken[i]; free != 0 {
			at := bits.TrailingZeros64(free)
			b.taken[i] |= 1 << at
			return n<<slabBits | uint32(i*64+at)
		}
	}
	panic("state: a block of a slab has miscounted")
}

// withRoom is the number of a block that has room.
func (s *slab[T]) withRoom() uint32 {
	for len(s.open) > 0 {
		n := s.open[len(s.open)-1]
		if b := s.blocks[n]; b != nil && b.count < slabSize {
			return n
		}
		s.open = s.open[:len(s.open)-1]
		s.listed[n] = false
	}
	b := s.spare
	s.spare = nil
	if b == nil {
		b = new(block[T])
	}
	var n uint32
	if last := len(s.gone) - 1; last >= 0 {
		n = s.gone[last]
		s.gone = s.gone[:last]
		s.blocks[n] = b
	} else {
		n = uint32(len(s.blocks))
		s.blocks, s.listed = append(s.blocks, b), append(s.listed, false)
	}
	if n == 0 { // index 0 is none
		b.taken[0], b.count = 1, 1
	}
	s.list(n)
	return n
}

// list puts a block among those with room.
func (s *slab[T]) list(n uint32) {
	if !s.listed[n] {
		s.listed[n] = true
		s.open = append(s.open, n)
	}
}

func (s *slab[T]) release(i uint32) {
	n, at := i>>slabBits, i&(slabSize-1)
	b := s.blocks[n]
	var zero T
	b.values[at] = zero
	b.taken[at/64] &^= 1 << (at % 64)
	b.count--
	s.count--
	if b.count > 0 {
		s.list(n)
		return
	}
	s.blocks[n], s.spare = nil, b
	s.gone = append(s.gone, n)
}

// live counts the values in use.
func (s *slab[T]) live() int { return s.count }

// seqHeap is a heap of message numbers, the one that is handed out first on top.
type seqHeap []uint64

func (h seqHeap) top() (uint64, bool) {
	if len(h) == 0 {
		return 0, false
	}
	return h[0], true
}

func (h *seqHeap) push(v uint64) {
	a := append(*h, v)
	i := len(a) - 1
	for i > 0 {
		up := (i - 1) / 2
		if order(a[up]) <= order(v) {
			break
		}
		a[i] = a[up]
		i = up
	}
	a[i] = v
	*h = a
}

func (h *seqHeap) pop() uint64 {
	a := *h
	min := a[0]
	last := a[len(a)-1]
	a = a[:len(a)-1]
	*h = a
	if len(a) == 0 {
		return min
	}
	i := 0
	for {
		down := 2*i + 1
		if down >= len(a) {
			break
		}
		if down+1 < len(a) && order(a[down+1]) < order(a[down]) {
			down++
		}
		if order(last) <= order(a[down]) {
			break
		}
		a[i] = a[down]
		i = down
	}
	a[i] = last
	return min
}
