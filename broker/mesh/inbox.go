package mesh

import "fmt"

// inbox counts the numbered frames of one pair that were handled: its Handler call has returned. What was
// read from a link and not handled is not counted, and comes again.
type inbox struct {
	handled uint64
}

// skip takes in that the numbers up to one are left out.
func (i *inbox) skip(to uint64) error {
	if to <= i.handled {
		return fmt.Errorf("skip to frame %d after frame %d", to, i.handled)
	}
	i.handled = to
	return nil
}

// check compares the other end's count with ours.
func (i *inbox) check(theirs uint64) error {
	if theirs != i.handled {
		return fmt.Errorf("the other end has sent %d frames, %d were handled", theirs, i.handled)
	}
	return nil
}
