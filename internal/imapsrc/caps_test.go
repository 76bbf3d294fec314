package imapsrc_test

import (
	"strings"
	"testing"

	"postrider/internal/testserver/fakeimap"
)

// TestNamesOfBothVersions: a server that has IMAP4rev1 gets names in modified UTF-7, whatever else
// it has, and one that has only IMAP4rev2 in UTF-8. Either has what IMAP4rev2 includes.
func TestNamesOfBothVersions(t *testing.T) {
	const utf7, utf8 = ` "Entw&APw-rfe"`, ` "Entwürfe"`
	for caps, name := range map[string]string{
		"IMAP4rev1":                utf7,
		"IMAP4rev1 IMAP4rev2":      utf7,
		"imap4REV2 ID IMAP4rev1":   utf7,
		"IMAP4rev1 IMAP4rev2  ID ": utf7,
		"IMAP4rev2":                utf8,
		"ID IMAP4rev2":             utf8,
	} {
		for kind, login := range map[string]string{
			"in a code": "{tag} OK [CAPABILITY " + caps + "] in\r\n",
			"asked for": "{tag} OK in\r\n",
		} {
			t.Run(caps+", "+kind, func(t *testing.T) {
				replies := map[string]string{
					"LOGIN": login, "EXAMINE": examined.Reply,
					"CAPABILITY": "* CAPABILITY " + caps + "\r\n" + tagOK,
				}
				c := dial(t, fakeConfig(t, func(c *fakeimap.Conn) {
					c.Send(greeting.Reply)
					for line, ok := c.ReadLine(); ok; line, ok = c.ReadLine() {
						command := strings.Fields(line)[1]
						if command == "EXAMINE" && !strings.HasSuffix(line, name) {
							t.Errorf("the client sent %q; want the name%s", line, name)
						}
						c.Send(replies[command])
					}
				}))
				if _, err := c.Select(t.Context(), "Entwürfe"); err != nil {
					t.Error(err)
				}
				rev2 := strings.Contains(strings.ToUpper(caps), "REV2")
				if c.Moves() != rev2 || c.ExpungesByUID() != rev2 || c.Idles() != rev2 {
					t.Errorf("it has %q; want MOVE, UIDPLUS and IDLE: %v", c.Capabilities(), rev2)
				}
			})
		}
	}
}
