package pass

import (
	"encoding/json"
	"reflect"
	"testing"

	"postrider/internal/inbox"
)

func TestForwardsEachOnce(t *testing.T) {
	r := newRig(t, nil)
	r.add(inbox.StartAll, "INBOX", "Junk")
	check(t, r.imap.CreateFolder(address, "Junk"))
	first, junk := mails(30), mails(3)
	r.put("INBOX", first...)
	r.put("Junk", junk...)
	r.want(r.run(), Counters{Registered: 33, Forwarded: 33})
	r.wantArrived(first, junk)
	r.want(r.run(), Counters{})
	more := mails(5)
	r.put("INBOX", more...)
	r.want(r.run(), Counters{Registered: 5, Forwarded: 5})
	r.wantArrived(first, junk, more)
}

// TestReportJSON: the counters of an inbox stand beside its other fields, which scripts depend on.
func TestReportJSON(t *testing.T) {
	in := InboxReport{Email: address, Busy: "b", Counters: Counters{Registered: 3, Waiting: 1}}
	text, err := json.Marshal(in)
	check(t, err)
	want := `{"email":"desk@firm.example","error":"","busy":"b","registered":3,"forwarded":0,"skipped_no_match":0,` +
		`"skipped":0,"retry":0,"dead":0,"uncertain":0,"waiting":1,"backlog":0}`
	if string(text) != want {
		t.Errorf("the report is %s, want %s", text, want)
	}
	var back InboxReport
	if err := json.Unmarshal(text, &back); err != nil || !reflect.DeepEqual(back, in) {
		t.Errorf("read back it is %+v, %v; want %+v", back, err, in)
	}
}
