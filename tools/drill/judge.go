package main

import (
	"fmt"
	"slices"

	"maestrohub.io/uns/tests/device/fleet"
)

// Promise is one of the product's, judged.
type Promise struct {
	ID   string `json:"id"`
	Text string `json:"text"`
	// Verdict is kept, broken or unseen: nothing happened that could show it.
	Verdict  string   `json:"verdict"`
	Evidence []string `json:"evidence"`
}

// Verdicts.
const (
	kept   = "kept"
	broken = "broken"
	unseen = "unseen"
)

// judge holds what was found against each promise.
func (r *Report) judge(f *fleet.Fleet) {
	r.Promises = []Promise{r.judgeStored(), r.judgeSaved(), r.judgeOrder(), r.judgeOnce(), r.judgeLive(), r.judgeWills(f), r.judgeFlow()}
}

// Broken are the promises that were.
func (r *Report) Broken() (list []Promise) {
	for _, p := range r.Promises {
		if p.Verdict == broken {
			list = append(list, p)
		}
	}
	return list
}

// unseen is how many promises nothing showed.
func (r *Report) unseen() (n int) {
	for _, p := range r.Promises {
		if p.Verdict == unseen {
			n++
		}
	}
	return n
}

// verdict is broken if anything is wrong, with what is; kept with what was counted; unseen
// where that is nothing.
func verdict(p Promise, wrong []string, seen int, counted ...string) Promise {
	switch p.Evidence = append(wrong, counted...); {
	case len(wrong) > 0:
		p.Verdict = broken
	case seen > 0:
		p.Verdict = kept
	default:
		p.Verdict = unseen
	}
	return p
}

// arrived is how many values sessions received, those of live sessions or of all.
func (r *Report) arrived(live bool) (n int) {
	for _, p := range r.Pairs {
		if p.Live || !live {
			n += p.Arrived
		}
	}
	return n
}

func some(list []int) string {
	if len(list) > 10 {
		return fmt.Sprintf("%v and %d more", list[:10], len(list)-10)
	}
	return fmt.Sprint(list)
}

func (r *Report) judgeStored() Promise {
	var wrong []string
	acked, stored := 0, 0
	for _, t := range r.Topics {
		acked, stored = acked+t.Acknowledged, stored+t.Stored
		if len(t.Missing) > 0 {
			wrong = append(wrong, fmt.Sprintf("%s: %d of %d acknowledged values are not in history: %s", t.Publisher, len(t.Missing), t.Acknowledged, some(t.Missing)))
		}
		if len(t.Twice) > 0 {
			wrong = append(wrong, fmt.Sprintf("%s: %d values with a timestamp are in history more than once: %s", t.Publisher, len(t.Twice), some(t.Twice)))
		}
	}
	return verdict(Promise{ID: "stored", Text: "A value that was acknowledged is in history, and one that carries a timestamp is there once."}, wrong, acked,
		fmt.Sprintf("%d values acknowledged, %d different ones in history", acked, stored))
}

func (r *Report) judgeSaved() Promise {
	var wrong []string
	sessions := map[string]bool{}
	values := 0
	for _, p := range r.Pairs {
		if p.Live {
			continue
		}
		sessions[p.Session] = true
		values += p.Arrived
		if len(p.Missing) > 0 {
			wrong = append(wrong, fmt.Sprintf("%s did not get %d of %d acknowledged values of %s: %s", p.Session, len(p.Missing), p.Acknowledged, p.Publisher, some(p.Missing)))
		}
		if len(p.Strange) > 0 {
			wrong = append(wrong, fmt.Sprintf("%s got values of %s that were never sent: %s", p.Session, p.Publisher, some(p.Strange)))
		}
	}
	return verdict(Promise{ID: "saved-sessions", Text: "Every acknowledged value reaches every saved session, on whichever replica it resumes."}, wrong, values,
		fmt.Sprintf("%d values received by %d saved sessions", values, len(sessions)))
}

func (r *Report) judgeOrder() Promise {
	var wrong []string
	for _, p := range r.Pairs {
		if len(p.Unordered) > 0 {
			wrong = append(wrong, fmt.Sprintf("%s got values of %s after later ones: %s", p.Session, p.Publisher, some(p.Unordered)))
		}
	}
	return verdict(Promise{ID: "order", Text: "The values of a topic arrive in the order in which they were published."}, wrong, r.arrived(false),
		fmt.Sprintf("%d pairs of session and publisher", len(r.Pairs)))
}

func (r *Report) judgeOnce() Promise {
	var wrong []string
	pairs, excused := 0, 0
	for _, p := range r.Pairs {
		if len(p.Doubled) > 0 {
			wrong = append(wrong, fmt.Sprintf("%s got values of %s again, QoS 2 at both sides: %s", p.Session, p.Publisher, some(p.Doubled)))
		}
		excused += p.Excused
		pairs++
	}
	counted := []string{fmt.Sprintf("%d pairs looked at; those of QoS 2 at both sides may have no repetition", pairs)}
	if excused > 0 {
		counted = append(counted, fmt.Sprintf("%d repetitions are of the documented edge case: the device had no PUBREC and had to send again", excused))
	}
	return verdict(Promise{ID: "exactly-once", Text: "A QoS 2 value reaches a QoS 2 subscriber once, from the moment its device holds the PUBREC."}, wrong, r.arrived(false), counted...)
}

func (r *Report) judgeLive() Promise {
	var wrong []string
	missed, away := 0, 0
	for _, p := range r.Pairs {
		if !p.Live {
			continue
		}
		missed += len(p.MissingWhileConnected)
		away += len(p.Missing) - len(p.MissingWhileConnected)
		if len(p.MissingWhileConnected) > 0 {
			wrong = append(wrong, fmt.Sprintf("%s was connected and did not get %d values of %s: %s", p.Session, len(p.MissingWhileConnected), p.Publisher, some(p.MissingWhileConnected)))
		}
	}
	return verdict(Promise{ID: "live", Text: "A live subscriber misses nothing while the replica that serves it does."}, wrong, r.arrived(true),
		fmt.Sprintf("%d values came while a live session had no connection, or at its end: those are in history", away))
}

func (r *Report) judgeWills(f *fleet.Fleet) Promise {
	p := Promise{ID: "wills", Text: "No device that comes back in time is reported dead by its Last Will; one that stays away is, once."}
	var wrong []string
	left := 0
	for _, w := range r.Wills {
		if w.Left {
			left++
		} else {
			wrong = append(wrong, fmt.Sprintf("the will of %s, which came back, was sent at %s", w.Device, w.At.Format("15:04:05.000")))
		}
	}
	if r.Left.IsZero() {
		p.Verdict, p.Evidence = unseen, []string{"no fault was done"}
		return p
	}
	if left > 1 || left == 0 && !r.Interrupted {
		wrong = append(wrong, fmt.Sprintf("the will of %s, which left at %s, was sent %d times", f.Leaver.ID, r.Left.Format("15:04:05"), left))
	}
	var counted []string
	if at := slices.IndexFunc(r.Wills, func(w Will) bool { return w.Left }); at >= 0 {
		counted = append(counted, fmt.Sprintf("the will of the device that left was sent %.1f s after its connection was lost", r.Wills[at].At.Sub(r.Left).Seconds()))
	}
	return verdict(p, wrong, 1, append(counted, fmt.Sprintf("%d devices lost connections and came back", r.cameBack()))...)
}

// cameBack is how many devices lost a connection and made another.
func (r *Report) cameBack() (n int) {
	for _, d := range r.Devices {
		lost := slices.IndexFunc(d.Events, func(e DeviceTime) bool { return e.What == "lost" })
		if lost >= 0 && slices.ContainsFunc(d.Events[lost:], func(e DeviceTime) bool { return e.What == "connected" }) {
			n++
		}
	}
	return n
}

func (r *Report) judgeFlow() Promise {
	p := Promise{ID: "flow", Text: "Devices reconnect by themselves and values flow again, and the cluster becomes whole."}
	var wrong, counted []string
	for _, f := range r.Faults {
		switch {
		case f.Skipped != "" || f.Unseen != "" || f.Ended.IsZero():
			continue
		case f.FlowedAfter > f.Within:
			wrong = append(wrong, fmt.Sprintf("%s: values flowed after %.1f s, promised within %.0f s", f.Name, f.FlowedAfter, f.Within))
		default:
			counted = append(counted, fmt.Sprintf("%s: %.1f s", f.Name, f.FlowedAfter))
		}
		if f.NotWhole {
			wrong = append(wrong, fmt.Sprintf("%s: not every replica served and was linked again within %v", f.Name, wholeWithin))
		}
	}
	if len(wrong)+len(counted) == 0 {
		p.Verdict, p.Evidence = unseen, []string{"no fault was seen to its end"}
		return p
	}
	return verdict(p, wrong, 1, counted...)
}
