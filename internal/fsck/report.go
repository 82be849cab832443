package fsck

import (
	"fmt"
	"io"
	"strings"
)

// Report is what Check found. It is what fsck -o json prints.
type Report struct {
	Directory string `json:"directory"`
	// Sound: nothing is damaged. Newer: a part is of a newer version, and this one can't judge it.
	Sound bool `json:"sound"`
	Newer bool `json:"newer,omitempty"`

	Node       uint64   `json:"node,omitempty"`
	Cluster    string   `json:"cluster,omitempty"`
	History    uint16   `json:"history"`
	Generation uint32   `json:"generation"`
	SafetyOff  bool     `json:"safety_off,omitempty"`
	Voters     []uint64 `json:"voters,omitempty"` // of the founding

	Log   *LogReport   `json:"log"`
	State *StateReport `json:"state"`

	Damage []Damage `json:"damage"`
	// Lost says what the damage has cost, Notes what else lies in the directory, Advice what is safe to do.
	Lost   []string `json:"lost,omitempty"`
	Notes  []string `json:"notes,omitempty"`
	Advice []string `json:"advice"`
}

// Range is a range of entries, both ends included.
type Range struct {
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
}

// LogReport is the log's part of a report.
type LogReport struct {
	Segments int   `json:"segments"`
	Bytes    int64 `json:"bytes"` // of whole appends
	// Pieces are what can be read of it: one where it is sound.
	Pieces         []Range `json:"pieces"`
	TailLost       bool    `json:"tail_lost"`
	Term           uint64  `json:"term"`
	Vote           uint64  `json:"vote"`
	Commit         uint64  `json:"commit"`
	HardStateSound bool    `json:"hard_state_sound"`
}

// StateReport is the state's part of a report.
type StateReport struct {
	Applied  uint64 `json:"applied"`
	Tables   int    `json:"tables"`
	Bytes    int64  `json:"bytes"`
	Queues   int    `json:"queues"`
	Messages uint64 `json:"messages"`
	// Bodies of messages, and their bytes; Orphans is how many of them belong to no message.
	Bodies    uint64 `json:"bodies"`
	BodyBytes uint64 `json:"body_bytes"`
	Orphans   uint64 `json:"orphan_bodies"`
	Users     int    `json:"users"`
	Sessions  int    `json:"sessions"`
}

// Damage is one place that isn't what was once written there.
type Damage struct {
	Part   string `json:"part"` // stamp, voters, log, state, bounds
	Path   string `json:"path"`
	Offset int64  `json:"offset"`
	Bytes  int64  `json:"bytes"` // 0: not known how many
	What   string `json:"what"`
}

// Print writes the report for people.
func (r *Report) Print(w io.Writer) error {
	p := &printer{w: w}
	p.line("%s: node %d of cluster %s, history %d, generation %d", r.Directory, r.Node, orNone(strings.TrimLeft(r.Cluster, "0"), r.Cluster), r.History, r.Generation)
	p.line("log:   %s in %d segments, %d bytes; term %d, vote %d, commit %d", entriesText(r.Log), r.Log.Segments, r.Log.Bytes, r.Log.Term, r.Log.Vote, r.Log.Commit)
	p.line("state: entry %d applied, %d tables, %d bytes; %d queues, %d messages with bodies of %d bytes, %d users, %d sessions",
		r.State.Applied, r.State.Tables, r.State.Bytes, r.State.Queues, r.State.Messages, r.State.BodyBytes, r.State.Users, r.State.Sessions)
	for _, n := range r.Notes {
		p.line("note:  %s", n)
	}
	for _, d := range r.Damage {
		p.line("DAMAGE %s", d.String())
	}
	for _, l := range r.Lost {
		p.line("lost:  %s", l)
	}
	switch {
	case r.Sound:
		p.line("verdict: sound")
	case r.Newer:
		p.line("verdict: written by a newer version; this one can't judge it")
	default:
		p.line("verdict: DAMAGED")
	}
	for _, a := range r.Advice {
		p.line("  - %s", a)
	}
	return p.err
}

// String is the damage in one line.
func (d *Damage) String() string {
	at := ""
	switch {
	case d.Bytes > 0:
		at = fmt.Sprintf(", bytes %d to %d", d.Offset, d.Offset+d.Bytes-1)
	case d.Offset > 0:
		at = fmt.Sprintf(", from byte %d on", d.Offset)
	}
	return fmt.Sprintf("%s: %s%s: %s", d.Part, d.Path, at, d.What)
}

func orNone(part, whole string) string {
	if part == "" {
		return "none yet"
	}
	return whole
}

// entriesText says which entries can be read.
func entriesText(l *LogReport) string {
	var parts []string
	for _, p := range l.Pieces {
		if p.Last >= p.First {
			parts = append(parts, fmt.Sprintf("%d to %d", p.First, p.Last))
		}
	}
	if len(parts) == 0 {
		return "no entries"
	}
	return "entries " + strings.Join(parts, ", ")
}

// printer writes lines; the first error sticks.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	}
}
