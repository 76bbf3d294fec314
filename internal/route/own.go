package route

import (
	"cmp"
	"strings"

	"postrider/internal/address"
)

// OwnAddress is what becomes of a recipient that is the address of the inbox in which the message is: who reads that has
// it, and what is sent there comes back. A rule that names none leaves it out, and has its other recipients. The name that
// the inbox is logged in with does not count: it says who may read, and that person's own mailbox may be another one.
type OwnAddress string

// The ways.
const (
	SkipOwnAddress    OwnAddress = "skip"
	ForwardOwnAddress OwnAddress = "forward" // the relay knows another mailbox by that address, as while a server is moved
)

// own reports whether an address is that of the inbox, in any spelling. A sub-address (office+x) is another one.
func (m Mail) own(addr string) bool {
	return m.Inbox != "" && spelt(addr) == spelt(m.Inbox)
}

// spelt is the same for all spellings of an address, and also there for what is none.
func spelt(addr string) string {
	a, err := address.Parse(addr)
	if err != nil {
		return strings.ToLower(addr)
	}
	return a.Key()
}

// add adds recipients, but for the inbox's own address.
func (r *result) add(m Mail, to ...string) {
	for _, addr := range to {
		if r.OwnAddress != ForwardOwnAddress && m.own(addr) {
			r.leftOut = cmp.Or(r.leftOut, addr)
			continue
		}
		r.to = append(r.to, addr)
	}
}

// Note is one line for a person that says who is left out and why, and the mend; empty when nobody is.
func (d Decision) Note() string {
	if d.LeftOut == "" {
		return ""
	}
	return d.LeftOut + " is left out: it is the inbox's own address, which has the message already (if the relay knows another mailbox by it, say own_address: forward)"
}
