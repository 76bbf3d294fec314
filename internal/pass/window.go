package pass

// window walks through a range of UIDs in bounded steps. After a step that finds nothing, the next
// step is twice as large, so that a UIDNEXT far above the highest UID costs only a few searches. No
// step asks for more than the server can answer.
type window struct {
	from, to uint32 // the step, both ends included
	next     uint32 // the end of the range, not included
	width    uint32
	max      uint32 // of width
}

const (
	firstWidth = 10_000
	maxWidth   = 1 << 28
)

func newWindow(from, next uint32) *window {
	w := &window{from: from, next: next, width: firstWidth, max: maxWidth}
	w.to = w.end()
	return w
}

func (w *window) more() bool { return w.from < w.next }

func (w *window) end() uint32 {
	return uint32(min(uint64(w.from)+uint64(w.width), uint64(w.next)) - 1)
}

// advance goes to the next step, found being how many UIDs the last one held.
func (w *window) advance(found int) {
	if found == 0 && w.width < w.max {
		w.width *= 2
	}
	w.from = w.to + 1
	w.to = w.end()
}
