package demo

import (
	"strings"

	"postrider/internal/tasks"
)

// sample is one message of the demo, with its expected outcome.
type sample struct {
	id      string // its Message-ID
	subject string // decoded
	from    string
	text    string // the whole message, with LF line ends
	want    tasks.Status
	to      []string // who must receive it, once
}

// raw returns the message as the IMAP server stores it.
func (l sample) raw() []byte {
	return []byte(strings.ReplaceAll(l.text, "\n", "\r\n"))
}

const (
	deskInbox = "desk@kt.example" // the inbox that receives all messages

	heldID            = "<scan-88213@clients.example>" // pass 1 is killed while it sends it
	unknownRecipient  = "h.olsen@kt.example"           // refused by the relay
	deferredRecipient = "support@kt.example"           // deferred by the relay at first

	toDesk = "To: Koch & Tanaka <" + deskInbox + ">\nMIME-Version: 1.0\n"
)

// samples returns the messages of the demo, in the order of their UIDs.
func samples() []sample {
	return []sample{courtNotice(), contract(), scan(), ticket(), newsletter(), forOlsen(), deadline()}
}

// courtNotice is German: Latin-1, quoted-printable.
func courtNotice() sample {
	return sample{
		id: "<4-O-112-26@lg.example>", subject: "Ladung: Termin zur mündlichen Verhandlung", from: "court@lg.example",
		want: tasks.Forwarded, to: []string{"intake@kt.example"},
		text: `From: =?ISO-8859-1?Q?Gesch=E4ftsstelle?= <court@lg.example>
Subject: =?ISO-8859-1?Q?Ladung:_Termin_zur_m=FCndlichen_Verhandlung?=
Message-ID: <4-O-112-26@lg.example>
Date: Mon, 05 Oct 2026 08:02:11 +0200
` + toDesk + `Content-Type: text/plain; charset=ISO-8859-1
Content-Transfer-Encoding: quoted-printable

Sehr geehrte Damen und Herren,

in dem Rechtsstreit Br=FCckner ./. H=F6fer GmbH wird Termin zur m=FCndlichen
Verhandlung bestimmt auf Dienstag, den 17. November, 10:30 Uhr, Saal 214.

Auf Anordnung
Gesch=E4ftsstelle der 4. Zivilkammer
`,
	}
}

// contract is Chinese: GB18030, base64. It goes to two people.
func contract() sample {
	return sample{
		id: "<20261005.0817@haiyuan.example>", subject: "采购合同修订稿，请审阅", from: "chen@haiyuan.example",
		want: tasks.Forwarded, to: []string{"contracts@kt.example", "tanaka@kt.example"},
		text: `From: =?GB18030?B?s8K+sg==?= <chen@haiyuan.example>
Subject: =?GB18030?B?ssm5urrPzazQ3rapuOWjrMfryfPUxA==?=
Message-ID: <20261005.0817@haiyuan.example>
Date: Mon, 05 Oct 2026 14:17:40 +0800
` + toDesk + `Content-Type: text/plain; charset=GB18030
Content-Transfer-Encoding: base64

uPfOu8LJyqajug0KDQq4vcnPv827p9DeuMS687XEtdrI/bjlo6zW99KqseS2r9TatdrG38z1o6i4
tr/uxtrP3qOpus212squtv7M9aOo1fnS6b3ivvajqaGjDQrH69Pa1tzO5daux7C72Li00uK8+6Gj
DQoNCrPCvrINCrqj1LTDs9LXt6jO8bK/DQo=
`,
	}
}

// scan has an attachment.
func scan() sample {
	return sample{
		id: heldID, subject: "Signed power of attorney", from: "m.abara@clients.example",
		want: tasks.Forwarded, to: []string{"records@kt.example"},
		text: `From: Miriam Abara <m.abara@clients.example>
Subject: Signed power of attorney
Message-ID: ` + heldID + `
Date: Mon, 05 Oct 2026 09:21:03 +0200
` + toDesk + `Content-Type: multipart/mixed; boundary="page-7f3a"

--page-7f3a
Content-Type: text/plain; charset=us-ascii

Please find the signed original scanned below. The paper follows by post.

--page-7f3a
Content-Type: application/pdf
Content-Disposition: attachment; filename="power-of-attorney.pdf"
Content-Transfer-Encoding: base64

JVBERi0xLjQKMSAwIG9iajw8L1R5cGUvQ2F0YWxvZy9QYWdlcyAyIDAgUj4+ZW5kb2JqCjIgMCBv
Ymo8PC9UeXBlL1BhZ2VzL0tpZHNbMyAwIFJdL0NvdW50IDE+PmVuZG9iagozIDAgb2JqPDwvVHlw
ZS9QYWdlL1BhcmVudCAyIDAgUi9NZWRpYUJveFswIDAgMjAwIDEwMF0vQ29udGVudHMgNCAwIFIv
UmVzb3VyY2VzPDwvRm9udDw8L0YgNSAwIFI+Pj4+Pj5lbmRvYmoKNCAwIG9iajw8L0xlbmd0aCA1
MD4+c3RyZWFtCkJUIC9GIDEyIFRmIDIwIDUwIFRkIChQb3dlciBvZiBhdHRvcm5leSkgVGogRVQK
ZW5kc3RyZWFtIGVuZG9iago1IDAgb2JqPDwvVHlwZS9Gb250L1N1YnR5cGUvVHlwZTEvQmFzZUZv
bnQvSGVsdmV0aWNhPj5lbmRvYmoKdHJhaWxlcjw8L1Jvb3QgMSAwIFI+PgolJUVPRgo=
--page-7f3a--
`,
	}
}

// ticket goes to a recipient that the relay defers at first.
func ticket() sample {
	return sample{
		id: "<ticket-4711@portal.example>", subject: "[Ticket #4711] Portal login fails",
		from: "noreply@portal.example",
		want: tasks.Forwarded, to: []string{deferredRecipient},
		text: `From: Client Portal <noreply@portal.example>
Subject: [Ticket #4711] Portal login fails
Message-ID: <ticket-4711@portal.example>
Date: Mon, 05 Oct 2026 09:40:55 +0200
Auto-Submitted: auto-generated
` + toDesk + `Content-Type: text/plain; charset=us-ascii

Since this morning the portal shows "session expired" right after the login.
.
Browser and version: see the ticket. (The line above is a lone dot.)
`,
	}
}

// newsletter matches no route.
func newsletter() sample {
	return sample{
		id: "<autumn-26@chairs.example>", subject: "20% off all office chairs", from: "news@chairs.example",
		want: tasks.SkippedNoMatch,
		text: `From: Chairs and More <news@chairs.example>
Subject: 20% off all office chairs
Message-ID: <autumn-26@chairs.example>
Date: Mon, 05 Oct 2026 09:58:00 +0200
List-Unsubscribe: <mailto:leave@chairs.example>
` + toDesk + `Content-Type: text/plain; charset=us-ascii

Only this week. Sit better, bill longer.
`,
	}
}

// forOlsen goes to a recipient that the relay does not know.
func forOlsen() sample {
	return sample{
		id: "<8f1c@jensen.example>", subject: "Lunch on Thursday?", from: "pia@jensen.example",
		want: tasks.Dead,
		text: `From: Pia Jensen <pia@jensen.example>
Subject: Lunch on Thursday?
Message-ID: <8f1c@jensen.example>
Date: Mon, 05 Oct 2026 10:05:31 +0200
Cc: Henrik Olsen <` + unknownRecipient + `>
` + toDesk + `Content-Type: text/plain; charset=us-ascii

Henrik, are you still in town? The usual place at noon would suit me.
`,
	}
}

// deadline is Japanese: ISO-2022-JP, base64.
func deadline() sample {
	return sample{
		id: "<jp-2026-1005@sato-ip.example>", subject: "意見書提出期限のご連絡", from: "sato@sato-ip.example",
		want: tasks.Forwarded, to: []string{"deadlines@kt.example"},
		text: `From: =?ISO-2022-JP?B?GyRCOjRGIxsoQiAbJEI3chsoQg==?= <sato@sato-ip.example>
Subject: =?ISO-2022-JP?B?GyRCMFU4Kz1xRHM9UDR8OEIkTiQ0TyJNbRsoQg==?=
Message-ID: <jp-2026-1005@sato-ip.example>
Date: Mon, 05 Oct 2026 17:12:09 +0900
` + toDesk + `Content-Type: text/plain; charset=ISO-2022-JP
Content-Transfer-Encoding: base64

GyRCRURDZkBoQDgbKEINCg0KGyRCRkM1dj1QNGokS0JQJDkkazVxQGRNfU0zRExDTiRLJEQkLSRe
JDckRiEiMFU4Kz1xJE5Ecz1QNHw4QiRPGyhCDQobJEI9PTBsN25Gcz09RnwkRyQ5ISMkNDNORyck
TiRbJEkkaCRtJDckLyQqNGokJCQkJD8kNyReJDkhIxsoQg0KDQobJEI6NEYjGyhCIBskQjdyGyhC
DQo=
`,
	}
}
