package cluster

// Route is one filter an incarnation wants live values of, in state.Routes,
// keyed by RouteKey: those of its clean sessions, and of its connected persistent
// ones for QoS 0.
type Route struct {
	Incarnation Incarnation
	Filter      string // as the clients gave it, $share/ included
	QoS         byte   // the highest granted
	// Members are the clients behind a shared filter, for the publisher's
	// replica to choose from.
	Members []string
}

// RouteKey is the key of an incarnation's route.
func RouteKey(i Incarnation, filter string) string { return RouteKeys(i) + filter }

// RouteKeys is what the keys of all routes of an incarnation begin with.
func RouteKeys(i Incarnation) string { return i.ID.String() + "/" }

// Encode returns the record in the floor's format.
func (r *Route) Encode(floor Format) []byte {
	a := record(floor)
	a.incarnation(r.Incarnation)
	a.string(r.Filter)
	a.byte(r.QoS)
	a.uint(uint64(len(r.Members)))
	for _, m := range r.Members {
		a.string(m)
	}
	return a.b
}

// DecodeRoute reads a Route.
func DecodeRoute(b []byte) (*Route, error) {
	p, r := parse("route record", b), &Route{}
	r.Incarnation = p.incarnation("incarnation")
	r.Filter = p.string("filter")
	r.QoS = p.enum("QoS", 2)
	for range p.count("members", 1) {
		r.Members = append(r.Members, p.string("member"))
	}
	if err := p.end(); err != nil {
		return nil, err
	}
	return r, nil
}

// FloorKey is the one key of state.ClusterFloor.
const FloorKey = "floor"

// Floor is the record of the format floor: the format everything is written in
// and every replica that joins must read.
type Floor struct {
	Format Format
	// Touched is the incarnation that joined last. It is there to be written: a
	// raise that did not see that incarnation's entry then fails.
	Touched Incarnation
}

// Encode returns the record. It is written in the oldest format, for a replica
// must read it to learn that it may read nothing else.
func (f Floor) Encode() []byte {
	a := record(Oldest)
	a.uint(uint64(f.Format))
	a.incarnation(f.Touched)
	return a.b
}

// DecodeFloor reads a Floor.
func DecodeFloor(b []byte) (f Floor, err error) {
	p := parse("floor record", b)
	f.Format = Format(p.uint("floor"))
	f.Touched = p.incarnation("touched")
	return f, p.end()
}
