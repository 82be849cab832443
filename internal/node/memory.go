package node

import (
	"github.com/oncemq/oncemq/internal/config"
)

// unknownMemory is what a machine is taken to have that doesn't say.
const unknownMemory = 4 << 30

// leastMemory is the least that a node is run with.
const leastMemory = 64 << 20

// Memory is what a node does with the memory that it may use, in bytes.
type Memory struct {
	// Total is all of it. Heap is what Go's collector is told: a part is left for what it doesn't count.
	Total, Heap int64
	// State is for the replicated state, as state counts it: half, so that the collector finds as much garbage as state.
	State int64
	// Cache is for blocks of the store, MemTable for a table of it in memory, of which there may be a few.
	Cache, MemTable int64
	// Transactions is for those that clients have open here.
	Transactions int64
}

// PlanMemory divides what --memory says: half of the machine's, or of what a control group leaves of it, where it says nothing.
func PlanMemory(s config.Sizes) Memory {
	total := s.Memory
	if total == 0 {
		machine := machineMemory()
		if machine <= 0 {
			machine = unknownMemory
		}
		percent := s.MemoryPercent
		if percent == 0 {
			percent = defaultMemoryPercent
		}
		total = max(machine/100*int64(percent), leastMemory)
	}
	return Memory{
		Total: total, Heap: total / 10 * 9, State: total / 2,
		Cache: min(max(total/128, 8<<20), 256<<20), MemTable: min(max(total/64, 4<<20), 64<<20), Transactions: total / 8,
	}
}

// defaultMemoryPercent is the default of --memory.
const defaultMemoryPercent = 50
