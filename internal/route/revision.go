package route

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// Revision identifies the rules and the directory: two tables that may decide differently about a
// message have different revisions. It is 32 letters and digits.
func (t *Table) Revision() string {
	var all struct {
		Rules    []Rule
		Contacts []Contact
	}
	for _, r := range t.rules {
		all.Rules = append(all.Rules, r.Rule)
	}
	if t.directory != nil {
		all.Contacts = t.directory.contacts
	}
	text, err := json.Marshal(all)
	if err != nil {
		panic(err) // they are strings, numbers and lists of these
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}
