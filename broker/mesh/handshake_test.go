package mesh

import (
	"errors"
	"testing"
)

// converse runs two handshakes against each other until both have ended.
func converse(dialer, acceptor *handshake) (d, a error) {
	type end struct {
		h    *handshake
		f    frames
		err  error
		over bool
	}
	ends := [2]*end{{h: dialer}, {h: acceptor}}
	deliver := func(to *end, b []byte) {
		copy(to.f.space(), b)
		to.f.end += len(b)
	}
	deliver(ends[1], dialer.begin())
	for moved := true; moved; {
		moved = false
		for i, e := range ends {
			for !e.over {
				k, payload, _, ok, err := e.f.next()
				if err != nil {
					e.err, e.over = err, true
				}
				if !ok {
					break
				}
				moved = true
				out, done, err := e.h.step(k, payload)
				deliver(ends[1-i], out)
				e.err, e.over = err, done || err != nil
			}
		}
	}
	for _, e := range ends {
		if !e.over {
			e.err = errors.New("never ended")
		}
	}
	return ends[0].err, ends[1].err
}

func TestEveryPairOfVersionRangesAgreesOrSaysWhyNot(t *testing.T) {
	var ranges []Versions
	for low := uint64(1); low <= 4; low++ {
		for high := low; high <= 4; high++ {
			ranges = append(ranges, Versions{low, high})
		}
	}
	for _, x := range ranges {
		for _, y := range ranges {
			d := handshake{dialing: true, own: hello{versions: x, from: "a", incarnation: 7, to: "b", attempt: 1}}
			d.admit = func(hello) (hello, uint64, *refusal) { return d.own, 11, nil }
			a := handshake{own: hello{versions: y, from: "b"}}
			a.admit = func(theirs hello) (hello, uint64, *refusal) {
				return hello{versions: y, from: "b", incarnation: 9, to: theirs.from}, 22, nil
			}
			derr, aerr := converse(&d, &a)
			if max(x.Min, y.Min) > min(x.Max, y.Max) {
				var dr, ar *refusal
				if !errors.As(derr, &dr) || !errors.As(aerr, &ar) || dr.code != refusedVersion || ar.code != refusedVersion || !dr.lasting() || !dr.theirs || ar.theirs {
					t.Errorf("%v and %v: %v, %v", x, y, derr, aerr)
				}
				continue
			}
			if derr != nil || aerr != nil {
				t.Errorf("%v and %v: %v, %v", x, y, derr, aerr)
				continue
			}
			if d.version != a.version || d.version != min(x.Max, y.Max) {
				t.Errorf("%v and %v: versions %d and %d", x, y, d.version, a.version)
			}
			if d.resumed != 22 || a.resumed != 11 || d.theirs.incarnation != 9 || a.theirs.incarnation != 7 {
				t.Errorf("%v and %v: %+v, %+v", x, y, d, a)
			}
		}
	}
}

func TestEitherEndRefusesWhoItDidNotMean(t *testing.T) {
	yes := func(own hello) func(hello) (hello, uint64, *refusal) {
		return func(hello) (hello, uint64, *refusal) { return own, 0, nil }
	}
	no := func(code refusalCode) func(hello) (hello, uint64, *refusal) {
		return func(hello) (hello, uint64, *refusal) { return hello{}, 0, &refusal{code: code, reason: "no"} }
	}
	a, b := hello{versions: Spoken, from: "a", to: "b"}, hello{versions: Spoken, from: "b", to: "a"}
	c := hello{versions: Spoken, from: "c", to: "b"}
	answersAsC := hello{versions: Spoken, from: "c", to: "a"}
	cases := map[string]struct {
		dialer, acceptor hello
		dAdmit, aAdmit   func(hello) (hello, uint64, *refusal)
		want             refusalCode
	}{
		"another replica answers":    {a, hello{versions: Spoken, from: "c"}, yes(a), yes(answersAsC), refusedReplica},
		"the answer is not the name": {a, b, yes(a), yes(answersAsC), refusedReplica},
		"the higher id dials":        {c, b, yes(c), yes(b), refusedReplica},
		"the same id dials":          {hello{versions: Spoken, from: "b", to: "b"}, b, yes(b), yes(b), refusedReplica},
		"the acceptor refuses":       {a, b, yes(a), no(refusedEnded), refusedEnded},
		"the dialer refuses":         {a, b, no(refusedUnknown), yes(b), refusedUnknown},
	}
	for name, c := range cases {
		d, s := handshake{dialing: true, own: c.dialer, admit: c.dAdmit}, handshake{own: c.acceptor, admit: c.aAdmit}
		derr, aerr := converse(&d, &s)
		var dr, ar *refusal
		if !errors.As(derr, &dr) || !errors.As(aerr, &ar) || dr.code != c.want || ar.code != c.want {
			t.Errorf("%s: %v, %v", name, derr, aerr)
		}
	}
}

func TestNothingButTheHandshakeIsTakenInIt(t *testing.T) {
	frames := map[string][]byte{
		"resume first": appendNumber(nil, kindResume, 1), "value": appendValue(nil, sample("x"), 0), "bye": appendBye(nil, "x"),
		"damaged hello": endFrame(beginFrame(nil, kindHello), 0), "ping": appendNumber(nil, kindPing, 0),
	}
	for name, b := range frames {
		for _, dialing := range []bool{true, false} {
			h := handshake{dialing: dialing, own: hello{versions: Spoken, from: "b"}}
			out, done, err := h.step(kind(b[1]), b[headerBytes:])
			var r *refusal
			if done || !errors.As(err, &r) || r.code != refusedProtocol || kind(out[1]) != kindRefuse {
				t.Errorf("%s: done %v, %v", name, done, err)
			}
		}
	}
}

func TestAHelloOfALaterReleaseIsRead(t *testing.T) {
	want := hello{versions: Versions{1, 9}, from: "a", incarnation: 3, to: "b", attempt: 4}
	b := append(appendHello(nil, want), 1, 2, 3)
	got, err := decodeHello(b[headerBytes:])
	if err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
}
