package state

import (
	"slices"
	"testing"

	"github.com/oncemq/oncemq/internal/command"
)

// 7.2: who is told what, for each order in which digests come. A report is node × 10 + digest.
func TestDigests(t *testing.T) {
	const down = 100 // + node: its epoch ends
	for name, c := range map[string]struct {
		reports []int
		told    []command.NodeID // with the last of reports
		agree   uint32
	}{
		"all alike":                            {[]int{11, 21, 31}, nil, 0},
		"one alone says nothing":               {[]int{11}, nil, 0},
		"two that differ wait for the third":   {[]int{11, 22}, nil, 0},
		"the odd one came first":               {[]int{12, 21, 31}, []command.NodeID{1}, 2},
		"the odd one came last":                {[]int{21, 31, 12}, []command.NodeID{1}, 2},
		"three that differ":                    {[]int{11, 22, 33}, []command.NodeID{1, 2, 3}, 0},
		"the third is down":                    {[]int{down + 3, 11, 22}, []command.NodeID{1, 2}, 0},
		"the third goes down":                  {[]int{11, 22, down + 3}, []command.NodeID{1, 2}, 0},
		"the third said before it went down":   {[]int{31, down + 3, 11, 22}, []command.NodeID{2}, 2},
		"a report is said again, and is right": {[]int{11, 22, 21, 31}, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBundle(t)
			for i, r := range c.reports {
				if r > down {
					n := command.NodeID(r - down)
					b.system(&command.NodeDown{Node: n, Epoch: b.epochs[n]})
				} else {
					b.system(&command.Digest{Node: command.NodeID(r / 10), Index: 4096, Sum: uint64(r % 10)})
				}
				var told []command.NodeID
				for _, e := range b.kind(command.EffectDigestDiffers) {
					told = append(told, e.Node)
					if e.Number != 4096 || e.Count != c.agree {
						t.Errorf("%+v", e)
					}
				}
				if want := c.told; i == len(c.reports)-1 && !slices.Equal(told, want) || i < len(c.reports)-1 && len(told) > 0 {
					t.Errorf("behind report %d: told %v, in the end %v", i, told, want)
				}
			}
		})
	}
}

// 7.2: nodes that are some thousand entries apart are compared all the same.
func TestDigestsOfALaggingNode(t *testing.T) {
	b := newBundle(t)
	for n := command.NodeID(1); n <= 2; n++ {
		for i := range uint64(keptReports) {
			b.system(&command.Digest{Node: n, Index: 4096 * (i + 1), Sum: i})
		}
	}
	b.system(&command.Digest{Node: 3, Index: 4096, Sum: 77})
	if e := b.one(command.EffectDigestDiffers); e.Node != 3 || e.Number != 4096 || e.Count != 2 {
		t.Fatalf("%+v", e)
	}
}
