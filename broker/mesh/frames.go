package mesh

// frames cuts a stream of bytes into frames. The zero value is ready.
type frames struct {
	buf        []byte
	start, end int // what was read and not taken
}

// space returns where the next bytes go.
func (f *frames) space() []byte {
	if f.buf == nil {
		f.buf = make([]byte, readBytes)
	}
	if f.start > 0 {
		copy(f.buf, f.buf[f.start:f.end])
		f.start, f.end = 0, f.end-f.start
	}
	if f.end == len(f.buf) { // one frame, larger than the buffer: as large as it says, but no faster than its bytes come
		grown := make([]byte, min(2*len(f.buf), headerBytes+maxPayload))
		if _, n, ok, err := parseHeader(f.buf); ok && err == nil {
			grown = grown[:min(len(grown), headerBytes+n)]
		}
		copy(grown, f.buf)
		f.buf = grown
	}
	return f.buf[f.end:]
}

// next takes one frame; ok is false if there is no whole one. The payload is valid until the next call of
// space, but for own: then it is nobody else's.
func (f *frames) next() (k kind, payload []byte, own, ok bool, err error) {
	k, n, ok, err := parseHeader(f.buf[f.start:f.end])
	if err != nil || !ok || f.end-f.start < headerBytes+n {
		return 0, nil, false, false, err
	}
	payload = f.buf[f.start+headerBytes : f.start+headerBytes+n : f.start+headerBytes+n]
	f.start += headerBytes + n
	if f.start == f.end && len(f.buf) > readBytes { // the buffer was made for this frame: it is given away
		f.buf, f.start, f.end = nil, 0, 0
		return k, payload, true, true, nil
	}
	return k, payload, false, true, nil
}
