package secrets

import (
	"errors"
	"fmt"
	"time"
)

// decision is what follows from a plan and what was found: writes, in order, or problems. Notes are for the log either way.
type decision struct {
	plan   *Plan
	found  map[Ref]*Secret // a missing Secret has no entry
	now    time.Time
	writes []write
	notes  []string
	wrong  []error

	authorities map[Ref]*authority // those that can sign or are trusted
	passwords   map[Ref]*Secret    // as they will be
}

// decide looks at everything and writes nothing. With an error no write may be made.
func decide(plan *Plan, found map[Ref]*Secret, now time.Time) ([]write, []string, error) {
	d := &decision{plan: plan, found: found, now: now, authorities: map[Ref]*authority{}, passwords: map[Ref]*Secret{}}
	for i := range plan.Authorities {
		d.authority(&plan.Authorities[i])
	}
	for i := range plan.Passwords {
		d.passwordSecret(&plan.Passwords[i])
	}
	for i := range plan.Certificates {
		d.certificate(&plan.Certificates[i])
	}
	for i := range plan.Accounts {
		d.accounts(&plan.Accounts[i])
	}
	return d.writes, d.notes, errors.Join(d.wrong...)
}

func (d *decision) problem(format string, args ...any) {
	d.wrong = append(d.wrong, fmt.Errorf(format, args...))
}

func (d *decision) note(format string, args ...any) {
	d.notes = append(d.notes, fmt.Sprintf(format, args...))
}

// create has a Secret made.
func (d *decision) create(r Ref, kind, word string, data map[string][]byte, why string) *Secret {
	s := &Secret{Ref: r, Type: kind, Labels: map[string]string{}, Annotations: map[string]string{}, Data: data}
	for k, v := range d.plan.Labels {
		s.Labels[k] = v
	}
	s.Labels[Made] = MadeValue
	if word != "" {
		s.Annotations[renewedAnnotation] = word
	}
	d.writes = append(d.writes, write{create: s, why: why})
	return s
}

// change has a Secret changed; nil data removes a key.
func (d *decision) change(s *Secret, word string, data map[string][]byte, why string) {
	c := &Change{Ref: s.Ref, Revision: s.Revision, Data: data}
	if word != "" && s.Annotations[renewedAnnotation] != word {
		c.Annotations = map[string]string{renewedAnnotation: word}
	}
	d.writes = append(d.writes, write{change: c, why: why})
}

// due says whether a Secret is to be made anew for the plan's word.
func (s *Secret) due(word string) bool { return word != "" && s.Annotations[renewedAnnotation] != word }
