package route

import (
	"cmp"
	"strings"

	"postrider/internal/address"
)

// OwnAddress says what happens to a recipient that is the address of the message's inbox. A copy
// would come back to the same inbox, so the default is SkipOwnAddress. The login name of the inbox
// does not count, because it may have another mailbox.
type OwnAddress string

// The values of OwnAddress.
const (
	SkipOwnAddress    OwnAddress = "skip"
	ForwardOwnAddress OwnAddress = "forward" // while a server is moved, the relay may deliver elsewhere
)

// isOwn reports whether an address is that of the inbox, in any spelling. A sub-address (office+x)
// is another address.
func (m Mail) isOwn(addr string) bool {
	return m.Inbox != "" && canonical(addr) == canonical(m.Inbox)
}

// canonical is the same for all spellings of an address. It also accepts text that is not an
// address.
func canonical(addr string) string {
	a, err := address.Parse(addr)
	if err != nil {
		return strings.ToLower(addr)
	}
	return a.Key()
}

// add adds recipients, except for the inbox's own address.
func (r *result) add(m Mail, to ...string) {
	for _, addr := range to {
		if r.OwnAddress != ForwardOwnAddress && m.isOwn(addr) {
			r.leftOut = cmp.Or(r.leftOut, addr)
			continue
		}
		r.to = append(r.to, addr)
	}
}

// Note says in one line who is left out, why, and how to change that. It is empty if nobody is.
func (d Decision) Note() string {
	if d.LeftOut == "" {
		return ""
	}
	return d.LeftOut + " is left out: it is the inbox's own address, which has the message already " +
		"(if this address is another mailbox at the relay, set own_address: forward)"
}
