package state

// slab holds values without pointers, addressed by uint32, in blocks that never move
// and are never given back: the collector sees a few large blocks and no pointers in
// them [5.1]. Index 0 is none. Which index a value gets decides nothing that leaves
// the machine.
type slab[T any] struct {
	blocks [][]T
	free   []uint32
	used   uint32 // highest index given out so far
}

const (
	slabBits = 9
	slabSize = 1 << slabBits
)

func (s *slab[T]) at(i uint32) *T { return &s.blocks[i>>slabBits][i&(slabSize-1)] }

// alloc returns the index of a zero value.
func (s *slab[T]) alloc() uint32 {
	if n := len(s.free); n > 0 {
		i := s.free[n-1]
		s.free = s.free[:n-1]
		return i
	}
	s.used++
	if int(s.used>>slabBits) == len(s.blocks) {
		s.blocks = append(s.blocks, make([]T, slabSize))
	}
	return s.used
}

func (s *slab[T]) release(i uint32) {
	var zero T
	*s.at(i) = zero
	s.free = append(s.free, i)
}

// live counts the values in use.
func (s *slab[T]) live() int { return int(s.used) - len(s.free) }

// seqHeap is a min-heap of message numbers.
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
		if a[up] <= v {
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
		if down+1 < len(a) && a[down+1] < a[down] {
			down++
		}
		if last <= a[down] {
			break
		}
		a[i] = a[down]
		i = down
	}
	a[i] = last
	return min
}
