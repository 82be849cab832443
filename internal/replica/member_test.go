package replica

import (
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/state"
)

func ids(n ...command.NodeID) []command.NodeID { return n }

// cast is a cluster's members as a table writes them: "1 2 3- 4" are four, of which 3 is leaving.
func cast(list string) (all []state.MemberInfo) {
	for field := range strings.FieldsSeq(list) {
		var m state.MemberInfo
		fmt.Sscanf(field, "%d", &m.ID)
		m.Leaving = strings.HasSuffix(field, "-")
		all = append(all, m)
	}
	return all
}

// [8.8] Every step that a leader takes towards the members that are wanted.
func TestPlan(t *testing.T) {
	voters := func(n ...command.NodeID) state.Configuration { return state.Configuration{Voters: n} }
	with := func(c state.Configuration, learners ...command.NodeID) state.Configuration {
		c.Learners = learners
		return c
	}
	joint := func(in, out []command.NodeID) state.Configuration {
		return state.Configuration{Voters: in, Outgoing: out}
	}
	const nothing = "nothing"
	for _, tc := range []struct {
		name, members string
		config        state.Configuration
		up            []command.NodeID // beside self, caught up
		self          command.NodeID
		want          string
	}{
		{"as it is to be", "1 2 3", voters(1, 2, 3), ids(2, 3), 1, nothing},
		{"a member is new", "1 2", voters(1), nil, 1, "ConfChangeAddLearnerNode(2)"},
		{"two are new", "1 2 3", voters(1), nil, 1, "ConfChangeAddLearnerNode(2)"},
		{"one learner of two has caught up: two voters are none", "1 2 3", with(voters(1), 2, 3), ids(2), 1, nothing},
		{"both have", "1 2 3", with(voters(1), 2, 3), ids(2, 3), 1, "joint ConfChangeAddNode(2) ConfChangeAddNode(3)"},
		{"a fourth stays a learner", "1 2 3 4", with(voters(1, 2, 3), 4), ids(2, 3, 4), 1, nothing},
		{"a learner leaves", "1 2 3 4-", with(voters(1, 2, 3), 4), ids(2, 3, 4), 1, "ConfChangeRemoveNode(4)"},
		{"a dead voter waits for its replacement", "1 2 3- 4", with(voters(1, 2, 3), 4), ids(2), 1, nothing},
		{"and is replaced", "1 2 3- 4", with(voters(1, 2, 3), 4), ids(2, 4), 1, "joint ConfChangeAddNode(4) ConfChangeRemoveNode(3)"},
		{"with a voter down as well", "1 2 3- 4", with(voters(1, 2, 3), 4), ids(4), 1, "joint ConfChangeAddNode(4) ConfChangeRemoveNode(3)"},
		{"two are replaced, one after the other", "1 2- 3- 4 5", with(voters(1, 2, 3), 4, 5), ids(2, 3, 5), 1, "joint ConfChangeAddNode(5) ConfChangeRemoveNode(3)"},
		{"two are replaced at once", "1 2- 3- 4 5", with(voters(1, 2, 3), 4, 5), ids(2, 3, 4, 5), 1, "joint ConfChangeAddNode(4) ConfChangeAddNode(5) ConfChangeRemoveNode(2) ConfChangeRemoveNode(3)"},
		{"two leave", "1 2- 3-", voters(1, 2, 3), nil, 1, "joint ConfChangeRemoveNode(2) ConfChangeRemoveNode(3)"},
		{"two leave, and who stays isn't there", "1- 2- 3", voters(1, 2, 3), ids(2), 1, nothing},
		{"two leave, the leader among them", "1- 2- 3", voters(1, 2, 3), ids(2, 3), 1, "joint ConfChangeRemoveNode(1) ConfChangeRemoveNode(2)"},
		{"one leaves without a replacement", "1 2 3-", voters(1, 2, 3), ids(2, 3), 1, nothing},
		{"all but a learner leave, which isn't ready", "1- 2- 3- 4", with(voters(1, 2, 3), 4), ids(2, 3), 1, nothing},
		{"one for one", "1- 2", with(voters(1), 2), ids(2), 1, "joint ConfChangeAddNode(2) ConfChangeRemoveNode(1)"},
		{"one for one, which isn't ready", "1- 2", with(voters(1), 2), nil, 1, nothing},
		{"one leaves while three come", "1- 2 3 4", with(voters(1), 2, 3, 4), ids(2, 3), 1, "joint ConfChangeAddNode(2) ConfChangeAddNode(3)"},
		{"a joint change ends", "1 2 3- 4", joint(ids(1, 2, 4), ids(1, 2, 3)), nil, 1, "leave"},
		{"but not by who goes", "1 2 3- 4", joint(ids(1, 2, 4), ids(1, 2, 3)), ids(2, 4), 3, "transfer to 2"},
		{"it hands over to one that stays", "1- 2- 3 4 5", joint(ids(1, 3, 4), ids(1, 2, 3)), ids(1, 3, 4), 2, "transfer to 3"},
		{"or to one that goes as well, where the others aren't ready", "1- 2- 3 4 5", joint(ids(1, 3, 4), ids(1, 2, 3)), ids(1), 2, "transfer to 1"},
		{"a leader that was removed before it knew hands over", "1 2 4", voters(1, 2, 4), ids(4), 3, "transfer to 4"},
		{"nor without somebody to lead", "1 2 3- 4", joint(ids(1, 2, 4), ids(1, 2, 3)), nil, 3, nothing},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := fmt.Sprintf("%+v", tc.config)
			m := plan(&situation{self: tc.self, members: cast(tc.members), config: tc.config, caughtUp: func(id command.NodeID) bool { return slices.Contains(tc.up, id) }})
			if got := told(m); got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
			if after := fmt.Sprintf("%+v", tc.config); after != before {
				t.Errorf("the configuration was changed in place: %s", after)
			}
		})
	}
}

// told is a move as TestPlan writes it.
func told(m move) string {
	switch {
	case m.transfer != 0:
		return fmt.Sprintf("transfer to %d", m.transfer)
	case m.change == nil:
		return "nothing"
	case m.change.LeaveJoint():
		return "leave"
	}
	var words []string
	if auto, ok := m.change.EnterJoint(); ok && !auto {
		words = append(words, "joint")
	}
	for _, c := range m.change.Changes {
		words = append(words, fmt.Sprintf("%s(%d)", c.GetType(), c.GetNodeId()))
	}
	return strings.Join(words, " ")
}

// From every mixture of members that stay and go, and of nodes that come and go, a leader that moves on reaches what is wanted, over
// configurations of one or three voters alone, and every change is one that raft takes.
func TestPlanArrives(t *testing.T) {
	for start := range 2 {
		for mask := range 1 << 6 {
			config := state.Configuration{Voters: ids(1)}
			if start == 1 {
				config.Voters = ids(1, 2, 3)
			}
			var members []state.MemberInfo
			staying := 0
			for id := command.NodeID(1); id <= 6; id++ {
				leaving := mask&(1<<(id-1)) != 0
				if leaving && config.Role(id) == state.RoleNone {
					continue // it never came
				}
				if !leaving {
					staying++
				}
				members = append(members, state.MemberInfo{ID: id, Leaving: leaving})
			}
			want := min(staying, 3)
			if want == 0 || want == 2 && start == 1 && mask&7 != 7 && !(mask&7 == 3 || mask&7 == 5 || mask&7 == 6) {
				continue // refused by the state
			}
			if want == 2 {
				want = 1
			}
			self := config.Voters[0]
			for step := 0; ; step++ {
				if step > 20 {
					t.Fatalf("start %d, mask %b: no end at %+v", start, mask, config)
				}
				if !config.Joint() && len(config.Voters) != 1 && len(config.Voters) != 3 {
					t.Fatalf("start %d, mask %b: %+v", start, mask, config)
				}
				m := plan(&situation{self: self, members: members, config: config, caughtUp: func(command.NodeID) bool { return true }})
				if m.transfer != 0 {
					self = m.transfer
					continue
				}
				if m.change == nil {
					break
				}
				next, err := changed(config, m.change)
				if err != nil {
					t.Fatalf("start %d, mask %b: %s of %+v: %v", start, mask, told(m), config, err)
				}
				config = next
				members = slices.DeleteFunc(members, func(x state.MemberInfo) bool { return x.Leaving && config.Role(x.ID) == state.RoleNone })
			}
			if len(config.Voters) != want || slices.ContainsFunc(members, func(x state.MemberInfo) bool { return x.Leaving }) {
				t.Fatalf("start %d, mask %b: it ends with %+v, %+v", start, mask, config, members)
			}
		}
	}
}

// The apply side computes what raft does, over every kind of change, and raft starts with what was stored.
func TestConfigurationIsRafts(t *testing.T) {
	config := state.Configuration{Voters: ids(1)}
	step := func(auto pb.ConfChangeTransition, changes ...*pb.ConfChangeSingle) {
		t.Helper()
		change := &pb.ConfChangeV2{Transition: auto.Enum(), Changes: changes}
		storage := &storage{conf: config}
		n := rawNode(t, storage)
		want := configurationOf(n.ApplyConfChange(change))
		got, err := changed(config, change)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%+v, %v; raft has %+v", got, err, want)
		}
		config = got
	}
	one := func(kind pb.ConfChangeType, id uint64) *pb.ConfChangeSingle {
		return &pb.ConfChangeSingle{Type: kind.Enum(), NodeId: proto.Uint64(id)}
	}
	step(pb.ConfChangeTransitionAuto, one(pb.ConfChangeAddLearnerNode, 2))
	step(pb.ConfChangeTransitionAuto, one(pb.ConfChangeAddLearnerNode, 3))
	step(pb.ConfChangeTransitionJointExplicit, one(pb.ConfChangeAddNode, 2), one(pb.ConfChangeAddNode, 3))
	step(pb.ConfChangeTransitionAuto)
	step(pb.ConfChangeTransitionAuto, one(pb.ConfChangeAddLearnerNode, 4))
	step(pb.ConfChangeTransitionJointImplicit, one(pb.ConfChangeAddNode, 4), one(pb.ConfChangeRemoveNode, 1), one(pb.ConfChangeAddLearnerNode, 3))
	if !config.AutoLeave || len(config.LearnersNext) != 1 {
		t.Fatalf("%+v", config)
	}
	step(pb.ConfChangeTransitionAuto)
	if want := (state.Configuration{Voters: ids(2, 4), Learners: ids(3)}); !reflect.DeepEqual(config, want) {
		t.Fatalf("%+v", config)
	}
	if _, err := changed(config, &pb.ConfChangeV2{}); err == nil {
		t.Error("the end of a change that isn't there: no error")
	}
}

// rawNode is a raft over an empty log with that configuration.
func rawNode(t *testing.T, s *storage) *raft.RawNode {
	t.Helper()
	memory := raft.NewMemoryStorage()
	n, err := raft.NewRawNode(&raft.Config{
		ID: 9, ElectionTick: 10, HeartbeatTick: 1, Storage: onlyConf{memory, s}, MaxSizePerMsg: 1 << 20, MaxInflightMsgs: 8,
		Logger: raftLogger{slog.New(slog.DiscardHandler)},
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

type onlyConf struct {
	*raft.MemoryStorage
	conf *storage
}

func (o onlyConf) InitialState() (*pb.HardState, *pb.ConfState, error) {
	return nil, confState(&o.conf.conf), nil
}
