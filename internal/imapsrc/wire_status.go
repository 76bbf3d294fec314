package imapsrc

import (
	"bytes"
	"errors"
	"strconv"
	"strings"

	"github.com/emersion/go-imap/v2"
)

// findStatus looks for BYE, which says why the server will close the connection (RFC 3501 7.1.5),
// for UIDNOTSTICKY, which says that UIDs are not persistent (RFC 4315 4), and for capabilities and
// READ-ONLY in a tagged OK (RFC 3501 7.1). It reports false for an EXPUNGE response of message 0 to
// UID EXPUNGE: the library would take it for the end of the command, and read no further.
func (w *wire) findStatus(p []byte) bool {
	for _, c := range p {
		if c != '\n' {
			if len(w.line) < maxStatusLine {
				w.line = append(w.line, c)
			}
			continue
		}
		line := string(w.line)
		if !strings.HasPrefix(line, "* ") {
			w.listed, w.readOnly = listsCapabilities(line), opensReadOnly(line)
		}
		switch words := strings.Fields(strings.ToUpper(line)); {
		case len(words) != 3:
		case words[2] == "EXISTS":
			w.counted(words[1])
		case w.expunges && words[2] == "EXPUNGE" && strings.Trim(words[1], "0") == "":
			return false
		case words[2] == "EXPUNGE":
			w.exists--
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
	return true
}

// counted notes how many messages an EXISTS response says there are. Some servers repeat it. While
// the folder is being opened, too: UIDNEXT may be from before that.
func (w *wire) counted(number string) {
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return // the library refuses it
	}
	w.arrived = w.arrived || w.exists >= 0 && n > w.exists
	w.exists = n
}

// errExpunge is a plain EXPUNGE: it would delete every message with \Deleted.
var errExpunge = errors.New("an EXPUNGE without UIDs is never sent")

func plainExpunge(commands []byte) bool {
	for line := range bytes.Lines(commands) {
		words := bytes.Fields(line)
		if len(words) == 2 && bytes.EqualFold(words[1], []byte("EXPUNGE")) {
			return true
		}
	}
	return false
}

// expunging says that UID EXPUNGE comes, until the end of do.
func (w *wire) expunging() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.expunges = true
}

// opening says that a folder is about to be opened: the answer says what is in it.
func (w *wire) opening() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.exists, w.arrived = -1, false
}

// hasArrived reports whether a message has arrived since the folder was opened.
func (w *wire) hasArrived() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.arrived
}

func (w *wire) capabilitiesListed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.listed
}

// isReadOnly reports whether the server has just opened a folder read-only.
func (w *wire) isReadOnly() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.readOnly
}

func (w *wire) uidsStick() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sticky
}
