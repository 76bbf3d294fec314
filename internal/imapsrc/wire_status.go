package imapsrc

import (
	"strings"

	"github.com/emersion/go-imap/v2"
)

// findStatus looks for BYE, which says why the server will close the connection (RFC 3501 7.1.5),
// for UIDNOTSTICKY, which says that UIDs are not persistent (RFC 4315 4), and for capabilities in a
// tagged OK (RFC 3501 7.1).
func (w *wire) findStatus(p []byte) {
	for _, c := range p {
		if c != '\n' {
			if len(w.line) < maxStatusLine {
				w.line = append(w.line, c)
			}
			continue
		}
		line := string(w.line)
		if !strings.HasPrefix(line, "* ") {
			w.listed = listsCapabilities(line)
		}
		if strings.HasSuffix(strings.ToUpper(strings.TrimRight(line, "\r")), " EXISTS") {
			w.counted++
		}
		if status := parseStatus(line); status != nil {
			if status.Type == imap.StatusResponseTypeBye {
				w.bye = status
			}
			if status.Code == "UIDNOTSTICKY" {
				w.sticky = false
			}
		}
		w.line = w.line[:0]
	}
}

// countedAgain reports whether the number of messages changed while the current command ran.
func (w *wire) countedAgain() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.counted > 1
}

func (w *wire) capabilitiesListed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.listed
}

func (w *wire) uidsStick() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sticky
}
