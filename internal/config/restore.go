package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ParseNodes reads which nodes a restored cluster is to have, and which of them this is: list has ids, each perhaps with an address as
// in --peers of a node, and is empty for a lone node. The ids come back ascending. The error wraps ErrUsage.
func ParseNodes(node, list string) (self uint64, all []uint64, err error) {
	self, err = strconv.ParseUint(node, 10, 64)
	if err != nil || self == 0 || self > maxNode {
		return 0, nil, Fault("node", node, "not a node id", "a whole number from 1 to 65535")
	}
	if list == "" {
		return self, []uint64{self}, nil
	}
	const allowed = "the ids of one node or three, this one included, such as 1,2,3, or what --peers of the nodes will be"
	for item := range strings.SplitSeq(list, ",") {
		text, _, _ := strings.Cut(item, "=")
		id, err := strconv.ParseUint(text, 10, 64)
		switch {
		case err != nil || id == 0 || id > maxNode:
			return 0, nil, Fault("peers", list, fmt.Sprintf("%q isn't a node", item), allowed)
		case slices.Contains(all, id):
			return 0, nil, Fault("peers", list, fmt.Sprintf("node %d is named twice", id), allowed)
		}
		all = append(all, id)
	}
	slices.Sort(all)
	if len(all) != 1 && len(all) != 3 {
		return 0, nil, Fault("peers", list, fmt.Sprintf("%d nodes", len(all)), allowed)
	}
	if !slices.Contains(all, self) {
		return 0, nil, Fault("peers", list, fmt.Sprintf("node %d, which this is by --node, isn't among them", self), allowed)
	}
	return self, all, nil
}
