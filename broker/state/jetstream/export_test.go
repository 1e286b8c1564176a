package jetstream

// GoneFor is how long a stream is another one, or missing, before it is gone for good.
const GoneFor = goneFor

// StampKey is the metadata that a stream's stamp is in.
const StampKey = stampKey

// Stamps are those of the streams that the store has opened.
func (s *Store) Stamps() map[string]string {
	s.opened.mu.Lock()
	defer s.opened.mu.Unlock()
	stamps := map[string]string{}
	for _, o := range s.opened.all {
		stamps[o.name] = o.stamp
	}
	return stamps
}
