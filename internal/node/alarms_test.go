package node

import (
	"strings"
	"testing"
	"time"

	"github.com/oncemq/oncemq/internal/command"
	"github.com/oncemq/oncemq/internal/replica"
	"github.com/oncemq/oncemq/internal/state"
)

// Each trouble has its alarm, and no trouble has none.
func TestAlarms(t *testing.T) {
	for _, tt := range []struct {
		room replica.RoomStatus
		lag  time.Duration
		want []string
	}{
		{replica.RoomStatus{}, time.Second, nil},
		{replica.RoomStatus{Disk: command.RoomLow}, 0, []string{"little room on the disk"}},
		{replica.RoomStatus{Disk: command.RoomFull}, 0, []string{"nearly full"}},
		{replica.RoomStatus{Disk: command.RoomFull, Waiting: true}, 3 * time.Second, []string{"writes nothing", "3s behind"}},
		{replica.RoomStatus{Cluster: state.RoomInfo{Disk: command.RoomLow, Memory: command.RoomFull}}, 0, []string{"no credit", "are refused"}},
		{replica.RoomStatus{Cluster: state.RoomInfo{Disk: command.RoomFull, Memory: command.RoomLow}}, 0, []string{"are refused", "no credit"}},
	} {
		got := alarms(tt.room, tt.lag, replica.ScrubStatus{})
		ok := len(got) == len(tt.want)
		for i := range got {
			ok = ok && strings.Contains(got[i], tt.want[i])
		}
		if !ok {
			t.Errorf("%+v: %q, want %q", tt.room, got, tt.want)
		}
	}
	if got := alarms(replica.RoomStatus{}, 0, replica.ScrubStatus{Damage: "a table"}); len(got) != 1 || !strings.Contains(got[0], "damage was found in what this node keeps: a table") {
		t.Errorf("%q", got)
	}
}
