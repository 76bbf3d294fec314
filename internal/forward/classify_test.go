package forward

import "testing"

func TestClassify(t *testing.T) {
	const own, theirs = true, false
	const (
		notOwned = "5.7.1 <x>: Sender address rejected: not owned by user y"
		noDomain = "5.1.8 <x>: Sender address rejected: Domain not found"
	)
	tests := []struct {
		name string
		at   Stage
		code int
		text string
		own  bool
		want verdict
	}{
		{"greeting 554", StageGreeting, 554, "no service", own, relayRefuses},
		{"greeting 421", StageGreeting, 421, "busy", own, relayDown},
		{"greeting 450", StageGreeting, 450, "later", own, relayDown},
		{"EHLO 550", StageEHLO, 550, "5.7.1 who are you", own, relayRefuses},
		{"STARTTLS 454", StageSTARTTLS, 454, "TLS not available", own, relayDown},
		{"AUTH 535", StageAUTH, 535, "5.7.8 bad", own, relayRefuses},
		{"AUTH 534", StageAUTH, 534, "5.7.9 too weak", own, relayRefuses},
		{"AUTH 538", StageAUTH, 538, "5.7.11 encrypt", own, relayRefuses},
		{"AUTH 530", StageAUTH, 530, "5.7.0", own, relayRefuses},
		{"AUTH 432", StageAUTH, 432, "4.7.12 a password transition is needed", own, relayRefuses},
		{"AUTH 454", StageAUTH, 454, "4.7.0 temporary", own, relayDown},
		{"AUTH 504", StageAUTH, 504, "5.5.4", own, relayRefuses},

		{"MAIL 421", StageMAIL, 421, "4.3.2 shutting down", own, relayDown},
		{"MAIL 530", StageMAIL, 530, "5.7.0 log in", own, relayRefuses},
		{"MAIL 530, their sender", StageMAIL, 530, "5.7.0 Must issue a STARTTLS command first", theirs, relayRefuses},
		{"MAIL 503", StageMAIL, 503, "5.5.1 nested MAIL", own, relayDown},
		{"MAIL 552 without more", StageMAIL, 552, "too big", own, refused},
		{"MAIL 552 5.3.4", StageMAIL, 552, "5.3.4 too big", own, refused},
		{"MAIL 523 5.3.4", StageMAIL, 523, "5.3.4 too big", own, refused},
		{"MAIL 451", StageMAIL, 451, "4.3.0 later", own, deferred},
		{"MAIL 452", StageMAIL, 452, "4.3.1 disk", own, deferred},
		{"MAIL 555", StageMAIL, 555, "5.5.4 parameter", own, deferred},
		{"MAIL 501 5.5.4", StageMAIL, 501, "5.5.4 parameter", own, deferred},
		{"MAIL 504", StageMAIL, 504, "parameter", own, deferred},
		{"MAIL 501 of the sender", StageMAIL, 501, "5.1.7 bad sender", own, relayRefuses},
		{"MAIL 550 of the configured sender", StageMAIL, 550, "5.7.1 no", own, relayRefuses},
		{"MAIL 550 of their sender", StageMAIL, 550, "5.1.8 no such domain", theirs, refused},
		{"MAIL 553 of their sender, not owned", StageMAIL, 553, notOwned, theirs, deferred},
		{"MAIL 550 5.4.5, a quota", StageMAIL, 550, "5.4.5 Daily user sending limit exceeded", own, deferred},
		{"MAIL 250 is no refusal", StageMAIL, 354, "what?", own, deferred},

		{"RCPT 450", StageRCPT, 450, "4.2.1 busy", own, deferred},
		{"RCPT 550", StageRCPT, 550, "5.1.1 unknown", own, refused},
		{"RCPT 555", StageRCPT, 555, "5.5.4 parameter", own, refused},
		{"RCPT 504", StageRCPT, 504, "parameter", own, refused},
		{"RCPT 551", StageRCPT, 551, "try elsewhere", own, refused},
		{"RCPT 552, full", StageRCPT, 552, "5.2.2 full", own, refused},
		{"RCPT 552, too many", StageRCPT, 552, "too many recipients", own, tooMany},
		{"RCPT 452, too many", StageRCPT, 452, "4.5.3 too many recipients", own, tooMany},
		{"RCPT 452, without more", StageRCPT, 452, "too many", own, tooMany},
		{"RCPT 451, OpenSMTPD", StageRCPT, 451, "4.5.3 Too many recipients: Too many recipients", own, tooMany},
		{"RCPT 550, too many", StageRCPT, 550, "5.5.3 Too many recipients", own, tooMany},
		{"RCPT 452, full", StageRCPT, 452, "4.2.2 full", own, deferred},
		{"RCPT 421", StageRCPT, 421, "bye", own, relayDown},
		{"RCPT 530", StageRCPT, 530, "5.7.0 log in", own, relayRefuses},
		{"RCPT 550 5.7.60", StageRCPT, 550, "5.7.60 no permission to send as this sender", own, deferred},
		{"RCPT 553, not owned", StageRCPT, 553, notOwned, own, relayRefuses},
		{"RCPT 553, their sender not owned", StageRCPT, 553, notOwned, theirs, deferred},
		{
			"RCPT 553, not logged in", StageRCPT, 553,
			"5.7.1 <x>: Sender address rejected: not logged in", own, relayRefuses,
		},
		{"RCPT 554, sender access", StageRCPT, 554, "5.7.1 <x>: Sender address rejected: Access denied", own, deferred},
		{"RCPT 550 5.1.8, configured sender", StageRCPT, 550, noDomain, own, deferred},
		{"RCPT 550 5.1.8, their sender", StageRCPT, 550, noDomain, theirs, refused},
		{"RCPT 554, relay access", StageRCPT, 554, "5.7.1 <x>: Relay access denied", own, deferred},
		{
			"RCPT 554, client host", StageRCPT, 554,
			"5.7.1 <unknown[192.0.2.1]>: Client host rejected: Access denied", own, deferred,
		},
		{
			"RCPT 554, listed", StageRCPT, 554,
			"5.7.1 Service unavailable; Client host [192.0.2.1] blocked using list.example", theirs, deferred,
		},
		{
			"RCPT 550, cPanel", StageRCPT, 550,
			"Please turn on SMTP Authentication in your mail client, " +
				"or login to the IMAP/POP3 server before sending your message.", own, deferred,
		},
		{
			"RCPT 550, Exim", StageRCPT, 550,
			"box.example [192.0.2.1]:36825 is not permitted to relay through\n" +
				"this server without authentication.", own, deferred,
		},
		{
			"RCPT 553, qmail", StageRCPT, 553,
			"sorry, that domain isn't in my list of allowed rcpthosts (#5.7.1)", own, deferred,
		},
		{"RCPT 550, Google", StageRCPT, 550, "5.7.0 Mail relay denied [192.0.2.1]", own, deferred},
		{
			"RCPT 504, name in EHLO", StageRCPT, 504,
			"5.5.2 <box>: Helo command rejected: need fully-qualified hostname", own, deferred,
		},
		{"RCPT 550 5.7.1 of the recipient", StageRCPT, 550, "5.7.1 takes no mail from outside", own, refused},

		{"DATA 451", StageDATA, 451, "", own, deferred},
		{"DATA 554", StageDATA, 554, "5.5.1 no", own, refused},
		{"dot 451", StageDot, 451, "", own, deferred},
		{"dot 554", StageDot, 554, "5.7.1 spam", own, refused},
		{
			"dot 554, Amazon SES", StageDot, 554,
			"Message rejected: Email address is not verified. " +
				"The following identities failed the check in region EU-WEST-1: a@client.example", own, deferred,
		},
		{
			"dot 554, Amazon SES: no right to send", StageDot, 554,
			"Access denied: User `arn:aws:iam::123456789012:user/x' " +
				"is not authorized to perform `ses:SendRawEmail'", own, deferred,
		},
		{
			"dot 554, Amazon SES: suspended", StageDot, 554,
			"Message rejected: Sending suspended for this account. " +
				"For more information, please check the inbox", own, deferred,
		},
		{
			"dot 554, Amazon SES: paused", StageDot, 554,
			"Message rejected: Sending paused for this account. " +
				"For more information, please check the inbox", own, deferred,
		},
		{"dot 553, Zoho: sender", StageDot, 553, "Relaying disallowed as clerk@client.example", own, deferred},
		{
			"dot 550, Zoho: throttled", StageDot, 550,
			"5.4.6 Unusual sending activity detected. Please try after sometime", own, deferred,
		},
		{"dot 554, Zoho: blocked", StageDot, 554, "5.1.8 Email Outgoing Blocked", own, deferred},
		{
			"dot 550, Google", StageDot, 550,
			"5.7.1 Invalid credentials for relay [192.0.2.1]. The IP address you've\n" +
				"5.7.1 registered", own, deferred,
		},
		{"dot 550, iCloud", StageDot, 550, "5.7.0 From address is not one of your addresses.", own, deferred},
		{
			"dot 550, SendGrid", StageDot, 550,
			"The from address does not match a verified Sender Identity. " +
				"Mail cannot be sent until this error is resolved.", own, deferred,
		},
		{"dot 551, header", StageDot, 551, "5.7.1 Not authorised to send from this header address", own, deferred},
		{"dot 553, not owned", StageDot, 553, "5.7.1 Sender address rejected: not owned by auth user.", own, deferred},
		{
			"dot 554, Microsoft 365: the limit of the day", StageDot, 554,
			"5.2.0 STOREDRV.Submission.Exception:SubmissionQuotaExceededException; " +
				"Failed to process message due to a permanent exception", own, deferred,
		},
		{
			"dot 554, Microsoft 365: the login's mailbox is full", StageDot, 554,
			"5.2.2 mailbox full; " +
				"STOREDRV.Submission.Exception:QuotaExceededException.MapiExceptionShutoffQuotaExceeded", own, deferred,
		},
		{
			"dot 550, Microsoft 365: throttled", StageDot, 550,
			"5.2.252 Sender throttled due to continuous send as denied errors.", own, deferred,
		},
		{
			"dot 550, Microsoft 365: blocked", StageDot, 550,
			"5.1.8 Access denied, bad outbound sender AS(42004)", own, deferred,
		},
		{
			"dot 554, Microsoft 365: a fault of the message", StageDot, 554,
			"5.6.0 STOREDRV.Submission.Exception:CorruptDataException", own, refused,
		},
		{"dot 550 5.7.60", StageDot, 550, "5.7.60 SendAsDenied", own, deferred},
		{"dot 421", StageDot, 421, "", own, relayDown},
		{"dot 354", StageDot, 354, "what?", own, deferred},
		{"content 552", StageContent, 552, "5.3.4 too big", own, refused},
		{"a permanent code about the relay's state", StageDot, 554, "5.3.2 not taking mail", own, deferred},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got, _ := classify(tt.at, newReply(tt.code, tt.text), tt.own); got != tt.want {
				t.Errorf("classify(%s, %d %s, own sender %v) = %v, want %v",
					tt.at, tt.code, tt.text, tt.own, got, tt.want)
			}
		})
	}
}

func TestFixes(t *testing.T) {
	tests := []struct {
		at   Stage
		code int
		text string
		want string
	}{
		{StageEHLO, 504, "5.5.2 <box>: Helo command rejected: need fully-qualified hostname", fixName},
		{StageEHLO, 450, "4.7.1 <box>: Helo command rejected: Host not found", fixName},
		{StageEHLO, 501, "Syntactically invalid HELO argument(s)", fixName},
		{StageEHLO, 550, "5.7.1 no", "ask its operator whether it serves this host"},
		{StageAUTH, 530, "5.7.0 Must issue a STARTTLS command first", fixTLS},
		{StageRCPT, 450, "4.7.1 <box>: Helo command rejected: Host not found", fixName},
	}
	for _, tt := range tests {
		if _, got := classify(tt.at, newReply(tt.code, tt.text), true); got != tt.want {
			t.Errorf("the fix of %s, %d %s, is %q, want %q", tt.at, tt.code, tt.text, got, tt.want)
		}
	}
}

func (v verdict) String() string {
	return [...]string{"deferred", "refused", "too many", "relay down", "relay refuses"}[v]
}
