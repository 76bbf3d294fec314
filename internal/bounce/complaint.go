package bounce

import (
	"cmp"
	"strings"
)

// readComplaint reads a feedback report (RFC 5965). One about authentication (RFC 6591), or that
// says a message is wanted after all, is no complaint.
func (r *reader) readComplaint(s string) {
	for _, g := range groups(s) {
		about := strings.ToLower(g.get("feedback-type"))
		if about == "" || about == "auth-failure" || about == "not-spam" {
			continue
		}
		r.addAddress(g.get("original-mail-from"))
		f := Fate{Action: Complained, Reply: about, Remote: host(g.get("reporting-mta"))}
		before := len(r.Fates)
		for _, field := range g {
			if field.name == "original-rcpt-to" || field.name == "removal-recipient" {
				if f.Recipient = mailbox(word(field.value)); f.Recipient != "" {
					r.add(Complaint, f)
				}
			}
		}
		if len(r.Fates) == before { // most providers hide who complained
			f.Recipient = ""
			r.add(Complaint, f)
		}
		r.EnvelopeID = cmp.Or(r.EnvelopeID, short(g.get("original-envelope-id")))
	}
}
