package message

import "testing"

func TestAutomated(t *testing.T) {
	tests := []struct {
		name, header string
		why          string // Automated
		answers      bool
	}{
		{"an ordinary message", "Return-Path: <a@x.example>\r\nContent-Type: text/plain", "", false},
		{"no header to speak of", "X: y", "", false},
		{"a bounce", "Return-Path: <>", "its reverse-path is null, as that of a bounce", true},
		{"null with a space", "Return-Path: < >", "its reverse-path is null, as that of a bounce", true},
		{"an empty Return-Path says nothing", "Return-Path:", "", false},
		{"the topmost Return-Path counts", "Return-Path: <a@x.example>\r\nReturn-Path: <>", "", false},
		{
			"a delivery report", "Content-Type: multipart/report; report-type=delivery-status; boundary=b",
			"it is a report (delivery-status)", true,
		},
		{
			"a receipt", "Content-Type: Multipart/Report;\r\n report-type=\"Disposition-Notification\"; boundary=b",
			"it is a report (Disposition-Notification)", true,
		},
		{
			"a complaint is for people to answer",
			"Return-Path: <fbl@x.example>\r\nContent-Type: multipart/report; report-type=feedback-report; boundary=b",
			"it is a report (feedback-report)", false,
		},
		{"a report of some kind", "Content-Type: multipart/report; boundary=b", "it is a report", false},
		{"a report with a broken parameter", "Content-Type: multipart/report; boundary=", "it is a report", false},
		{
			"a bounce with a faulty boundary",
			"Content-Type: multipart/report; boundary=----=_b; report-type=delivery-status",
			"it is a report (delivery-status)", true,
		},
		{"auto-generated", "Auto-Submitted: auto-generated", "it says Auto-Submitted: auto-generated", false},
		{"an absence note", "Auto-Submitted: auto-replied (vacation)", "it says Auto-Submitted: auto-replied", true},
		{
			"with a parameter", "auto-submitted: Auto-Replied; owner-email=\"a@x.example\"",
			"it says Auto-Submitted: auto-replied", true,
		},
		{
			"auto-notified (RFC 5436)", "Auto-Submitted: auto-notified; owner-email=\"a@x.example\"",
			"it says Auto-Submitted: auto-notified", false,
		},
		{"by a person", "Auto-Submitted: no", "", false},
		{"by a person, in capitals", "Auto-Submitted: NO (really)", "", false},
		{"Auto-Submitted that says nothing", "Auto-Submitted:", "", false},
		{
			"null with a comment", "Return-Path: <> (postmaster@x.example)",
			"its reverse-path is null, as that of a bounce", true,
		},
		{
			"null after a folded comment", "Return-Path:\r\n (a (bounce\\))\r\n of yours)\r\n <>",
			"its reverse-path is null, as that of a bounce", true,
		},
		{
			"null with a comment that does not end", "Return-Path: <> (postmaster",
			"its reverse-path is null, as that of a bounce", true,
		},
		{"only a comment is no path", "Return-Path: (none)", "", false},
		{"a comment in quotes is none", "Return-Path: <\"(a)\"@x.example> (Ann)", "", false},
		{
			"a keyword after a comment", "Auto-Submitted: (comment) auto-replied",
			"it says Auto-Submitted: auto-replied", true,
		},
		{
			"a keyword between comments", "Auto-Submitted:\r\n (a)(b)\r\n Auto-Replied(c); x=y",
			"it says Auto-Submitted: auto-replied", true,
		},
		{"by a person, after a comment", "Auto-Submitted: (auto-replied) no", "", false},
		{"a keyword in a comment", "Auto-Submitted: (auto-replied)", "", false},
		{
			"a report with comments",
			"Content-Type: (a) multipart/report (b); report-type=delivery-status (c); boundary=b",
			"it is a report (delivery-status)", true,
		},
		{"to a list", "Precedence: list\r\nList-Id: <l.x.example>", "", false},
		{"in bulk", "Precedence: bulk\r\nX-Auto-Response-Suppress: All", "", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := parse(t, tt.header+"\r\nSubject: x\r\n\r\nbody").Header
			if why, answers := h.Automated(), h.Answers(); why != tt.why || answers != tt.answers {
				t.Errorf("Automated = %q, Answers = %v; want %q, %v", why, answers, tt.why, tt.answers)
			}
		})
	}
}

// TestReturnPathWithComments checks that comments around the path are removed.
func TestReturnPathWithComments(t *testing.T) {
	for v, want := range map[string]string{
		"(Ann) <a@x.example> (of X)":   "a@x.example",
		`<"a\")(b"@x.example>`:         `"a\")(b"@x.example`,
		"<a@x.example>) (a) ( b ( c )": "a@x.example>)",
	} {
		if path, given := parse(t, "Return-Path: "+v+"\r\n\r\n").Header.ReturnPath(); path != want || !given {
			t.Errorf("the path in %s is %q, given %v; want %q", v, path, given, want)
		}
	}
}
