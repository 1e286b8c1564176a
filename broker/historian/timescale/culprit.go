package timescale

import "context"

// culprit finds the first value without which those before it could be stored:
// PostgreSQL says what is wrong, not with which row. It tries halves in transactions
// that are rolled back. fault is nil if all can be stored after all; index is -1 if
// something else went wrong.
func (h *Historian) culprit(ctx context.Context, b *batch, fault error) (index int, _ error) {
	if len(b.pending) == 1 {
		return b.pending[0].index, plain(fault)
	}
	good, bad := 0, len(b.pending) // the first good ones pass, the first bad ones do not
	for good+1 < bad {
		middle := (good + bad) / 2
		err := h.try(ctx, b, b.pending[:middle])
		switch judge(err) {
		case fine:
			good = middle
		case valueFault:
			bad, fault = middle, err
		default:
			return -1, err
		}
	}
	if bad == len(b.pending) {
		// The last one was never tried without a doubt.
		err := h.try(ctx, b, b.pending)
		switch judge(err) {
		case fine:
			return -1, nil
		case valueFault:
			fault = err
		default:
			return -1, err
		}
	}
	return b.pending[bad-1].index, plain(fault)
}

func (h *Historian) try(ctx context.Context, b *batch, rows []*row) error {
	s, err := h.session(ctx, h.writes)
	if err != nil {
		return err
	}
	defer s.release()
	if err := h.nameTopics(ctx, s, rows); err != nil {
		return err
	}
	if err := h.makeRoom(ctx, s, rows); err != nil {
		return err
	}
	return h.insert(ctx, s, b, rows, true)
}
