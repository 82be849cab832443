package sim

import (
	"time"

	"github.com/oncemq/oncemq/internal/command"
)

// civilSlack is how far the cluster's civil time may be ahead of the world's once it was set, while all clocks are right.
const civilSlack = time.Second

// extras adds, here and there, what an operator does beside changing the members.
func (o *operator) extras() {
	for _, step := range []func(){o.setTime, o.finalize} {
		if o.w.chance(40) {
			at := o.w.rng.IntN(len(o.steps) + 1)
			o.steps = append(o.steps[:at:at], append([]func(){step}, o.steps[at:]...)...)
		}
	}
}

// setTime puts a clock that was wrong right: those of the machines first, then the cluster's civil time, which goes back only so [4.5]. Once
// it is answered no leader brings the former time back, whatever it knew.
func (o *operator) setTime() {
	w := o.w
	wrong := w.leader()
	wrong.civil = time.Duration(1+w.rng.IntN(20)) * 15 * time.Minute
	w.say("n%d's wall clock is off by %v, and nobody sees it for a while", wrong.id, wrong.civil)
	w.after(w.between(200*time.Millisecond, time.Second), func() {
		for _, n := range w.nodes {
			n.civil = 0
		}
		w.clocksRight = true
		set := func() command.Command {
			return &command.SetTime{Civil: began.Add(w.now).UnixMilli(), By: "operator"}
		}
		o.ask(set, func(e command.Effect) {
			if e.Refusal != nil {
				w.fail("K6", "civil time can't be set: %s", e.Refusal.Description)
			}
			w.count("civil time set")
			w.say("civil time is set, and was %v ahead", time.UnixMilli(e.Civil).Sub(began.Add(w.now)).Round(time.Second))
			w.timeSet = true
			o.done()
		})
	})
}

// checkCivil compares the cluster's civil time with the world's, if it was set when all clocks were right (K6).
func (w *world) checkCivil() {
	if !w.timeSet || !w.clocksRight || w.fatal != "" {
		return
	}
	m := w.machine()
	if m == nil {
		return
	}
	if ahead := time.UnixMilli(m.Stamp().Civil).Sub(began.Add(w.now)); ahead > civilSlack {
		w.fail("K6", "civil time was set, and is %v ahead again", ahead)
	}
}

// finalize asks for the next feature level, which no binary of a world knows: the cluster has to refuse [7.1].
func (o *operator) finalize() {
	w := o.w
	m := w.machine()
	if m == nil {
		o.done()
		return
	}
	level, _ := m.Level()
	raise := func() command.Command { return &command.Finalize{Level: level + 1, Version: "sim"} }
	o.ask(raise, func(e command.Effect) {
		if e.Refusal == nil {
			w.fail("K6", "the cluster went up to level %d, which nobody knows", level+1)
		} else {
			w.count("finalize refused")
			w.say("level %d is refused: %s", level+1, e.Refusal.Description)
		}
		o.done()
	})
}
