package imapsrc_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"postrider/internal/imapsrc"
	"postrider/internal/testserver/fakeimap"
)

func TestMetadata(t *testing.T) {
	const date = `INTERNALDATE " 2-Jan-2024 03:04:05 +0100"`
	ask := func(set, reply string) fakeimap.Step {
		return fakeimap.Step{Expect: "UID FETCH " + set + " ", Reply: reply}
	}
	c := open(t,
		ask("1:5,8", "* 3 FETCH (RFC822.SIZE 30 UID 3 "+date+")\r\n"+fetched(9, 9, "RFC822.SIZE 90 "+date)+
			fetched(1, 1, date+" RFC822.SIZE 10")+"{tag} NO some\r\n"),
		ask("2", tagOK), ask("4", "{tag} NO broken\r\n"),
		ask("5", fetched(5, 5, `FLAGS ()`)+fetched(5, 5, "RFC822.SIZE 0")+tagOK),
		ask("8", fetched(8, 8, "RFC822.SIZE 80")+tagOK))
	metas, err := c.Metadata(t.Context(), []uint32{8, 5, 4, 3, 2, 1})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range metas {
		day := "unknown"
		if !m.Received.IsZero() {
			day = m.Received.UTC().Format("2006-01-02T15:04:05")
		}
		got = append(got, fmt.Sprintf("%d %d %s", m.UID, m.Size, day))
	}
	want := []string{
		"1 10 2024-01-02T02:04:05", "3 30 2024-01-02T02:04:05", "4 0 unknown", "5 0 unknown",
		"8 80 unknown",
	}
	if !slices.Equal(got, want) {
		t.Errorf("Metadata = %q; want %q: 2 has vanished, 4 is there and cannot be described", got, want)
	}
}

// TestMetadataEndsWithTheConnection: what came before that is returned.
func TestMetadataEndsWithTheConnection(t *testing.T) {
	c := open(t, fakeimap.Step{
		Expect: "FETCH", Close: true,
		Reply: fetched(1, 1, "RFC822.SIZE 10") + fetched(2, 2, "RFC822.SIZE 20") + "* 3 FETCH (UID 3 RFC822.SIZE 3",
	})
	metas, err := c.Metadata(t.Context(), []uint32{1, 2, 3, 4})
	wantError(t, err, imapsrc.KindNetwork, "closed the connection")
	if len(metas) != 2 || metas[0].Size != 10 || metas[1].Size != 20 {
		t.Errorf("Metadata = %v; want the two that came", metas)
	}
}

// TestDates: one that cannot be read is unknown, and changes nothing of what stands beside it.
func TestDates(t *testing.T) {
	const good, day = `"17-Jul-1996 02:44:25 -0700"`, "1996-07-17 09:44:25"
	for sent, want := range map[string]string{
		"INTERNALDATE " + good:                                    day,
		"internaldate " + good:                                    day,
		`INTERNALDATE " 7-Jul-1996 02:44:25 -0700"`:               "1996-07-07 09:44:25",
		`INTERNALDATE "01-Jan-2026 00:00:00 +2400"`:               "2025-12-31 00:00:00",
		`INTERNALDATE "31-Dec-9999 23:59:59 +0000"`:               "9999-12-31 23:59:59",
		`INTERNALDATE "31-Dec-9999 23:59:59 -1200"`:               "",
		`INTERNALDATE "01-Jan-0000 00:00:00 +0100"`:               "",
		`INTERNALDATE "01-Jan-0001 00:00:00 +0000"`:               "",
		`INTERNALDATE "Wed, 17 Jul 1996 02:44:25 -0700 (\"(PDT)"`: "",
		`INTERNALDATE "17-Jul-1996"`:                              "",
		`INTERNALDATE ""`:                                         "",
		`INTERNALDATE  NIL`:                                       "",
		`INTERNALDATE NIL`:                                        "",
		`INTERNALDATE 0`:                                          "",
		`FLAGS (INTERNALDATE old) INTERNALDATE ` + good:           day,
		`BODY[] "INTERNALDATE old" INTERNALDATE ` + good:          day,
		"BODY[] {18}\r\n INTERNALDATE NIL  INTERNALDATE " + good:  day,
	} {
		for _, items := range []string{sent + " RFC822.SIZE 10", "RFC822.SIZE 10 " + sent} {
			t.Run(items, func(t *testing.T) {
				reply := fetched(1, 1, items) + fetched(2, 2, "RFC822.SIZE 20 INTERNALDATE "+good) + tagOK
				c := open(t, fakeimap.Step{Expect: "FETCH", Reply: reply})
				metas, err := c.Metadata(t.Context(), []uint32{1, 2})
				if err != nil || len(metas) != 2 || metas[0].Size != 10 || metas[1].Size != 20 {
					t.Fatalf("Metadata = %v, %v; want two messages of 10 and 20 octets", metas, err)
				}
				got := ""
				if !metas[0].Received.IsZero() {
					got = metas[0].Received.Format(time.DateTime)
				}
				if got != want || metas[1].Received.Format(time.DateTime) != day {
					t.Errorf("the dates are %q and %v, want %q and %s in UTC", got, metas[1].Received, want, day)
				}
			})
		}
	}
}
