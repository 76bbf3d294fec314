package imapsrc

import (
	"math"
	"strings"

	"github.com/emersion/go-imap/v2"
)

// maxRanges is the largest number of ranges of UIDs that the answer to one search may hold.
const maxRanges = 4 << 20

const errNumber = violation("the server's answer to SEARCH is not a list of numbers")

// hits reads the UIDs that a search found, from SEARCH (RFC 3501 7.2.5) and ESEARCH (RFC 4731)
// responses. The library does not get them: it inserts each at its place, which takes hours for a
// million UIDs in the wrong order.
type hits struct {
	set imap.UIDSet // as the server sends them

	extended bool
	uid      bool   // ESEARCH: the numbers are UIDs
	numbers  bool   // numbers may come now
	nested   bool   // between parentheses
	word     string // ESEARCH: the name of what comes next
	digits   int
	number   uint64
	low      uint64 // the first number of a range; 0 outside of a range
}

// begin begins a response.
func (h *hits) begin(extended bool) { *h = hits{set: h.set, extended: extended, numbers: !extended} }

func (h *hits) step(c byte) error {
	switch {
	case c == '(' && !h.nested:
		h.nested = true
	case c == ')' && h.nested:
		h.nested = false
	case c == '\n' && h.nested:
		return errNumber
	case h.nested || c == '\r':
	case c == ' ', c == '\n':
		return h.next()
	case !h.numbers:
		if h.word += string(c); len(h.word) > maxHead {
			return errNumber
		}
	case c >= '0' && c <= '9':
		h.digits++
		if h.number = h.number*10 + uint64(c-'0'); h.number > math.MaxUint32 {
			return errNumber
		}
	case h.extended && c == ',':
		return h.add()
	case h.extended && c == ':' && h.digits > 0 && h.low == 0:
		h.low, h.number, h.digits = h.number, 0, 0
	default:
		return errNumber
	}
	return nil
}

// next ends a word or a number.
func (h *hits) next() error {
	if h.numbers {
		if err := h.add(); err != nil {
			return err
		}
		h.numbers = !h.extended
		return nil
	}
	switch strings.ToUpper(h.word) {
	case "UID":
		h.uid = true
	case "ALL":
		h.numbers = h.uid
	}
	h.word = ""
	return nil
}

// add adds a number or a range. A server may say "0" for nothing.
func (h *hits) add() error {
	low, high := h.low, h.number
	if low == 0 {
		low = high
	}
	digits := h.digits
	h.low, h.number, h.digits = 0, 0, 0
	if digits == 0 || low == 0 || high == 0 {
		return nil
	}
	r := imap.UIDRange{Start: imap.UID(min(low, high)), Stop: imap.UID(max(low, high))}
	if n := len(h.set); n > 0 && h.set[n-1].Stop == r.Start-1 {
		h.set[n-1].Stop = r.Stop
		return nil
	}
	if len(h.set) >= maxRanges {
		return errTooMuch
	}
	h.set = append(h.set, r)
	return nil
}
