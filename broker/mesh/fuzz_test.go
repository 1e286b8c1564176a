package mesh

import (
	"io"
	"log/slog"
	"net"
	"slices"
	"testing"
)

// vectors is one frame of each kind.
func vectors() map[string][]byte {
	share := Share{Value: sample("s"), Flags: 1, Key: "g/x/#", Session: "dev"}
	return map[string][]byte{
		"hello":     appendHello(nil, hello{versions: Spoken, from: "a", incarnation: 7, to: "b", attempt: 3}),
		"refuse":    appendRefuse(nil, &refusal{code: refusedEnded, reason: "over"}),
		"resume":    appendNumber(nil, kindResume, 1<<40),
		"ping":      appendNumber(nil, kindPing, 0),
		"ack":       appendNumber(nil, kindAck, 0),
		"skip":      appendNumber(nil, kindSkip, 5),
		"applied":   appendApplied(nil, Applied{Routes: 3, Sessions: 1 << 50}),
		"bye":       appendBye(nil, "stops"),
		"value":     appendValue(nil, sample("21.5"), 2),
		"share":     appendShare(nil, 9, &share),
		"settled":   appendSettled(nil, 9, ShareReturned),
		"release":   appendRelease(nil, 4, Release{ClientID: "dev", ConnectionID: "c2"}),
		"released":  appendReleased(nil, 4, Released{Ended: ClosedByTakeover, ConnectionID: "c1"}),
		"returning": appendReturning(nil, "dev"),
		"report":    appendNumber(nil, kindReport, 6),
		"reported":  appendReported(nil, 6, []byte("figures")),
	}
}

func TestEveryFrameDecodesToWhatWasSent(t *testing.T) {
	v := vectors()
	payload := func(name string) []byte {
		k, n, ok, err := parseHeader(v[name])
		if err != nil || !ok || headerBytes+n != len(v[name]) || k == 0 {
			t.Fatalf("%s: header %d %d %v %v", name, k, n, ok, err)
		}
		return v[name][headerBytes:]
	}
	s, err := decodeShare(payload("share"))
	if err != nil || s.call != 9 || s.key != "g/x/#" || s.session != "dev" || s.flags != 1 {
		t.Errorf("share %+v, %v", s, err)
	}
	if call, o, err := decodeSettled(payload("settled")); err != nil || call != 9 || o != ShareReturned {
		t.Errorf("settled %d %d, %v", call, o, err)
	}
	if call, r, err := decodeRelease(payload("release")); err != nil || call != 4 || r != (Release{"dev", "c2"}) {
		t.Errorf("release %d %+v, %v", call, r, err)
	}
	if call, r, err := decodeReleased(payload("released")); err != nil || call != 4 || r != (Released{ClosedByTakeover, "c1"}) {
		t.Errorf("released %d %+v, %v", call, r, err)
	}
	if call, err := decodeReport(payload("report")); err != nil || call != 6 {
		t.Errorf("report %d, %v", call, err)
	}
	if call, r, err := decodeReported(payload("reported")); err != nil || call != 6 || string(r) != "figures" {
		t.Errorf("reported %d %q, %v", call, r, err)
	}
	if id, err := decodeReturning(payload("returning")); err != nil || id != "dev" {
		t.Errorf("returning %q, %v", id, err)
	}
	if a, err := decodeApplied(payload("applied")); err != nil || a != (Applied{3, 1 << 50}) {
		t.Errorf("applied %+v, %v", a, err)
	}
	if reason, err := decodeBye(payload("bye")); err != nil || reason != "stops" {
		t.Errorf("bye %q, %v", reason, err)
	}
	if r, err := decodeRefuse(payload("refuse")); err != nil || r.code != refusedEnded || r.reason != "over" || !r.theirs {
		t.Errorf("refuse %+v, %v", r, err)
	}
}

// The layout of what two releases exchange before they know each other's is fixed, byte for byte.
func TestTheHandshakesLayoutIsForEver(t *testing.T) {
	want := map[string]string{
		"hello":  "\x01\x01\x00\x00\x00\x08\x01\x01\x01a\x07\x01b\x03",
		"refuse": "\x01\x02\x00\x00\x00\x06\x04\x04over",
		"resume": "\x01\x03\x00\x00\x00\x06\x80\x80\x80\x80\x80\x20",
	}
	for name, w := range want {
		if got := string(vectors()[name]); got != w {
			t.Errorf("%s is %q, want %q", name, got, w)
		}
	}
}

// deaf is a handler that answers everything at once.
type deaf struct{}

func (deaf) Values(Peer, []Received)                          {}
func (deaf) Share(_ Peer, _ Share, answer func(ShareOutcome)) { answer(ShareTaken) }
func (deaf) Release(_ Peer, _ Release, answer func(Released)) { answer(Released{}) }
func (deaf) Returning(Peer, string)                           {}
func (deaf) Applied(Peer, Applied)                            {}
func (deaf) LinksChanged()                                    {}

// bare is a peer with a pair, without network or goroutine.
func bare() (*peer, *link) {
	timing := normalTiming
	m := &Mesh{o: Options{Replica: "b", Handler: deaf{}, MayAct: func() bool { return true }, timing: &timing}.withDefaults(), timing: &timing}
	m.o.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	m.peers.Store(&peers{byID: map[string]*peer{}})
	p := newPeer(m, "a", 1)
	p.set(Peer{Replica: "a", Incarnation: 1}, &effects{})
	one, _ := net.Pipe()
	l := newLink(p, p.pair, newWire(one), nil, 1, 1)
	p.link = l
	return p, l
}

// FuzzLink feeds bytes to the reader of a link, cut into two reads: it must end with an error or take them
// all, count no frame twice and keep no more than it was given.
func FuzzLink(f *testing.F) {
	var all []byte
	for _, b := range vectors() {
		f.Add(b, 3)
		all = append(all, b...)
	}
	f.Add(all, 40)
	f.Add(slices.Concat(vectors()["value"], vectors()["value"], appendNumber(nil, kindPing, 2)), 10)
	f.Add([]byte{Format, byte(kindValue), 0, 200, 0, 0, 1}, 6)
	f.Fuzz(func(t *testing.T, stream []byte, cut int) {
		p, l := bare()
		r := reader{link: l, from: p.known}
		var err error
		cut = max(0, min(cut, len(stream)))
		for _, part := range [][]byte{stream[:cut], stream[cut:]} {
			for len(part) > 0 && err == nil {
				n := copy(r.frames.space(), part)
				r.frames.end += n
				part = part[n:]
				err = r.take()
			}
		}
		if len(r.frames.buf) > max(readBytes, 2*len(stream)+headerBytes) {
			t.Fatalf("%d bytes given, a buffer of %d", len(stream), len(r.frames.buf))
		}
		if len(l.gather(nil)) > 64*len(stream)+64 {
			t.Fatal("more is answered than was asked")
		}
	})
}

func FuzzHandshake(f *testing.F) {
	for _, b := range vectors() {
		f.Add(b, true)
		f.Add(b, false)
	}
	f.Fuzz(func(t *testing.T, b []byte, dialing bool) {
		h := handshake{dialing: dialing, own: hello{versions: Spoken, from: "b", to: "a"}}
		h.admit = func(theirs hello) (hello, uint64, *refusal) { return h.own, 0, nil }
		var fr frames
		for len(b) > 0 {
			n := copy(fr.space(), b)
			fr.end += n
			b = b[n:]
			for {
				k, payload, _, ok, err := fr.next()
				if err != nil {
					return
				}
				if !ok {
					break
				}
				out, done, err := h.step(k, payload)
				if done && err != nil || done && !h.greeted {
					t.Fatalf("done %v, %v", done, err)
				}
				if _, _, whole, err := parseHeader(out); len(out) > 0 && (!whole || err != nil) {
					t.Fatalf("answers with %q", out)
				}
				if done || err != nil {
					return
				}
			}
		}
	})
}
