package imapsrc_test

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"postrider/internal/imapsrc"
	"postrider/internal/message"
	"postrider/internal/testserver/fakeimap"
)

// headersOf fetches headers and returns the subject of each, by UID.
func headersOf(t *testing.T, c *imapsrc.Conn, uids []uint32) (map[uint32]string, imapsrc.Result, error) {
	t.Helper()
	got := map[uint32]string{}
	res, err := c.Headers(t.Context(), uids, func(uid uint32, m *message.Message) error {
		got[uid] = m.Subject()
		rest, _ := io.ReadAll(m.Body.Reader())
		if !m.HeaderOnly || !strings.HasSuffix(string(rest), "\r\n\r\n") {
			t.Errorf("UID %d: %q, HeaderOnly = %v, want a header and HeaderOnly", uid, rest, m.HeaderOnly)
		}
		return m.Close()
	})
	return got, res, err
}

func TestHeaders(t *testing.T) {
	const text = "Subject: large\r\n\r\n"
	section := fmt.Sprintf("BODY[HEADER]<0> {%d}\r\n%s", len(text), text)
	c := open(t, fakeimap.Step{
		Expect: `UID FETCH 1:2 \(UID RFC822.SIZE BODY.PEEK\[HEADER\]<0.1048576>\)$`,
		Reply:  fetched(1, 1, "RFC822.SIZE 90000000 "+section) + tagOK,
	}, fakeimap.Step{Expect: `UID FETCH 2 `, Reply: tagOK})
	got, res, err := headersOf(t, c, []uint32{1, 2})
	if err != nil || got[1] != "large" || !slices.Equal(res.Vanished, []uint32{2}) || len(res.Failed) > 0 {
		t.Errorf("Headers = %v, %+v, %v, want the first, and the second vanished", got, res, err)
	}
}

func TestDovecotHeaders(t *testing.T) {
	s, cfg := dovecotConfig(t)
	large := "Subject: large\r\nFrom: a@x.example\r\n\r\n" + strings.Repeat(strings.Repeat("x", 76)+"\r\n", 100_000)
	s.Append(t, "ann", "INBOX", []byte(large), mail(2))
	c := dial(t, cfg)
	f, err := c.Select(t.Context(), "INBOX")
	if err != nil || f.UIDNext != 3 {
		t.Fatalf("Select = %+v, %v, want two messages", f, err)
	}
	grown := watchHeap(t)
	got, res, err := headersOf(t, c, []uint32{1, 2, 3})
	if err != nil || len(got) != 2 || got[1] != "large" || !slices.Equal(res.Vanished, []uint32{3}) {
		t.Errorf("Headers = %v, %+v, %v, want two headers, and the third vanished", got, res, err)
	}
	if n := grown(); n > 4<<20 {
		t.Errorf("the heap grew by %d octets, want the body not to be read", n)
	}
}
