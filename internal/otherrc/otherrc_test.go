package otherrc

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"postrider/internal/inbox"
	"postrider/internal/text"
)

var update = flag.Bool("update", false, "write the golden files")

// shown is all that was read, passwords too.
func shown(format, name, src string) string {
	var b strings.Builder
	var notes Notes
	accounts, err := Read(format, name, strings.NewReader(src), &notes)
	for _, a := range accounts {
		fmt.Fprintf(&b, "%s: %q port %d %s user %q password %q folders %q skipped %v",
			a.Where, a.Host, a.Port, a.Security, a.Username, a.Password, a.Folders, a.Skipped)
		if a.OAuth != "" {
			fmt.Fprintf(&b, " OAuth2: %s", a.OAuth)
		}
		if a.Fault != nil {
			fmt.Fprintf(&b, " fault: %v", a.Fault)
		}
		b.WriteString("\n")
	}
	for _, n := range notes.All() {
		b.WriteString("note: " + n + "\n")
	}
	if err != nil {
		fmt.Fprintf(&b, "error: %v\n", err)
	}
	return b.String()
}

func TestFiles(t *testing.T) {
	for _, format := range Formats {
		t.Run(format, func(t *testing.T) {
			src, err := os.ReadFile("testdata/" + format)
			if err != nil {
				t.Fatal(err)
			}
			got := shown(format, format, string(src))
			golden := "testdata/" + format + ".golden"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("it reads\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// getmailrc is what many getmailrcs begin with.
const getmailrc = "[retriever]\ntype=SimpleIMAPSSLRetriever\nserver=h\nusername=a\n"

func TestRead(t *testing.T) {
	tests := []struct{ name, format, src, want string }{
		{
			"empty", "fetchmailrc", "# nothing\n",
			"error: rc: there is no account; a fetchmailrc names each server after `poll` or `skip`\n",
		},
		{
			"no server", "fetchmailrc", "defaults proto imap\n",
			"error: rc: there is no account; a fetchmailrc names each server after `poll` or `skip`\n",
		},
		{
			"not one", "fetchmailrc", "[retriever]\n",
			"error: rc:1: the file does not begin with `poll`, `skip`, `defaults` or `set`, " +
				"so this is not a fetchmailrc\n",
		},
		{
			"open quotes", "fetchmailrc", "poll h\nuser 'a\n",
			"error: rc:2: the text that begins with ' has no end; close the quotes\n",
		},
		{
			"a port without a number", "fetchmailrc", "poll h proto imap port mail user a pass x ssl",
			`rc:1: "h" port 0 tls user "a" password "x" folders [] skipped false ` +
				"fault: the port in line 1 is not a number from 1 to 65535\n",
		},
		{
			"half a password", "fetchmailrc", "poll h proto imap user a pass half:geheim ssl",
			`rc:1: "h" port 0 tls user "a" password "half" folders [] skipped false` + "\n" +
				"note: rc:1: a part of this line is not understood; put a password with special characters in quotes\n",
		},
		{
			"a password after an option that is unknown", "fetchmailrc", "poll h proto imap user a pass y ssl 'geheim'",
			`rc:1: "h" port 0 tls user "a" password "y" folders [] skipped false` + "\n" +
				"note: rc:1: a part of this line is not understood; put a password with special characters in quotes\n",
		},
		{
			"users have their own options", "fetchmailrc",
			"poll h proto imap user a pass x folder F ssl\nuser b pass y",
			`rc:1: "h" port 0 tls user "a" password "x" folders ["F"] skipped false` + "\n" +
				`rc:2: "h" port 0 starttls user "b" password "y" folders [] skipped false` + "\n" +
				"note: rc:2: without ssl, fetchmail uses STARTTLS if the server offers it; " +
				"postrider requires STARTTLS\n",
		},
		{
			"several folder options", "fetchmailrc",
			"defaults proto imap ssl folder D folder E\n" +
				"poll h user a pass x folder F folder G, H\n" +
				"user b pass y\nuser c pass z folder I\n" +
				"poll i user d pass w folder J",
			`rc:2: "h" port 0 tls user "a" password "x" folders ["F" "G" "H"] skipped false` + "\n" +
				`rc:3: "h" port 0 tls user "b" password "y" folders ["D" "E"] skipped false` + "\n" +
				`rc:4: "h" port 0 tls user "c" password "z" folders ["I"] skipped false` + "\n" +
				`rc:5: "i" port 0 tls user "d" password "w" folders ["J"] skipped false` + "\n",
		},
		{
			"folders in modified UTF-7", "fetchmailrc",
			"poll h proto imap user a pass x ssl folder Entw&APw-rfe 'A&-B'\n" +
				"folder '&U,BTFw-/&ZeVnLIqe-' 'C & D' E&A- 'Bücher'",
			`rc:1: "h" port 0 tls user "a" password "x" ` +
				`folders ["Entwürfe" "A&B" "台北/日本語" "C & D" "E&A-" "Bücher"] skipped false` + "\n",
		},
		{
			"the password in .netrc", "getmailrc", getmailrc + "[options]\nuse_netrc = true\n",
			`rc:2: "h" port 0 tls user "a" password "" folders [] skipped false fault: there is no password; ` +
				"getmail asks for it, or takes it from a keyring or .netrc; add `password` to the file\n",
		},
		{
			"a password like a place", "fetchmailrc", "poll h proto imap user a pass 'command:ls' ssl",
			`rc:1: "h" port 0 tls user "a" password "" folders [] skipped false ` +
				"fault: the password begins with command:, which postrider would take for the place of a password; " +
				"change the password\n",
		},
		{
			"the local name first", "fetchmailrc",
			"poll h proto imap user ann here is jdoe there pass x sslmode wrapped",
			`rc:1: "h" port 0 tls user "jdoe" password "x" folders [] skipped false` + "\n",
		},
		{
			"user = name", "fetchmailrc", "server h proto IMAP service imaps user = a pass = x sslmode 'starttls=must'",
			`rc:1: "h" port 993 starttls user "a" password "x" folders [] skipped false` + "\n" +
				"note: rc:1: without ssl, fetchmail uses STARTTLS if the server offers it; " +
				"postrider requires STARTTLS\n",
		},
		{
			"no retriever", "getmailrc", "[options]\nx = 1\n",
			"error: rc: there is no [retriever] with a type, so this is not a getmailrc\n",
		},
		{"no section", "getmailrc", "x = 1\n", "error: rc:1: this line is neither [SECTION] nor NAME = VALUE\n"},
		{
			"POP", "getmailrc", "[retriever]\ntype = SimplePOP3Retriever\n",
			"note: rc:2: the type is SimplePOP3Retriever; postrider reads IMAP only, so this account is ignored\n",
		},
		{
			"indented", "getmailrc",
			"  [retriever] # office\n  type = SimpleIMAPSSLRetriever\n  server = h\n  username = a\n" +
				"  password = x\n  mailboxes = (\n   'A',\n  # more\n\t\t\t'B')\n  port = 1\n",
			`rc:2: "h" port 1 tls user "a" password "x" folders ["A" "B"] skipped false` + "\n",
		},
		{
			"a password that continues the type", "getmailrc",
			"[retriever]\nserver = h\ntype = SimplePOP3Retriever\n password = geheim\n",
			`rc:3: "" port 0  user "" password "" folders [] skipped false ` +
				"fault: the value of type in line 3 continues on the next line, which is indented deeper; " +
				"remove the blanks before that line\n",
		},
		{
			"a password that continues the username", "getmailrc",
			"[retriever]\ntype = SimpleIMAPSSLRetriever\nserver = h\nusername = a\n  password = geheim\n",
			`rc:2: "" port 0  user "" password "" folders [] skipped false ` +
				"fault: the value of username in line 4 continues on the next line, which is indented deeper; " +
				"remove the blanks before that line\n",
		},
		{
			"a command", "getmailrc",
			"[retriever]\ntype=SimpleIMAPRetriever\nserver=localhost\nusername=a\n" +
				"password_command = (\"pass\", \"my mail\")\nmailboxes = ALL",
			`rc:2: "localhost" port 0 none user "a" password "command:pass 'my mail'" folders [] skipped false` + "\n" +
				"note: rc:6: mailboxes is ALL; only INBOX is taken; " +
				"`inbox set` changes that, with `--folder NAME` for each folder, INBOX too\n",
		},
		{
			"a password and a command", "getmailrc",
			getmailrc + "password_command = (\"pass\",)\npassword = x\n",
			`rc:2: "h" port 0 tls user "a" password "x" folders [] skipped false` + "\n",
		},
		{
			"OAuth2", "getmailrc",
			"[retriever]\ntype=MultidropIMAPSSLRetriever\nserver=h\nusername=a\nuse_xoauth2 = True\n",
			`rc:2: "h" port 0 tls user "a" password "" folders [] skipped false OAuth2: use_xoauth2 in line 5` + "\n" +
				"note: rc:2: multidrop: getmail sorts by the recipient in a header field; " +
				"postrider forwards by its routes, which can match that field\n",
		},
		{
			"OAuth2 of one user", "fetchmailrc",
			"poll h proto imap ssl\nuser a auth XOAUTH2\npass token\nuser b auth any pass x",
			`rc:2: "h" port 0 tls user "a" password "" folders [] skipped false OAuth2: auth in line 2` + "\n" +
				`rc:4: "h" port 0 tls user "b" password "x" folders [] skipped false` + "\n" +
				"note: rc:4: auth is ignored: postrider chooses how to log in; `inbox set --auth` changes that\n",
		},
		{
			"certificates", "fetchmailrc", "poll h proto imap user a pass x ssl\nsslcertfile ca.pem\nsslcert c.pem",
			`rc:1: "h" port 0 tls user "a" password "x" folders [] skipped false` + "\n" +
				"note: rc:2: sslcertfile is ignored: postrider always checks certificates; " +
				"for your own certificate use `inbox set --ca-file` or `--tls-fingerprint`\n" +
				"note: rc:3: sslcert is ignored: for a client certificate: `inbox set --client-cert`\n",
		},
		{
			"certificates of getmail", "getmailrc", getmailrc + "password=x\nca_certs=ca.pem\nkeyfile=k.pem\n",
			`rc:2: "h" port 0 tls user "a" password "x" folders [] skipped false` + "\n" +
				"note: rc:6: ca_certs is ignored: postrider always checks certificates; " +
				"for your own certificate use `inbox set --ca-file` or `--tls-fingerprint`\n" +
				"note: rc:7: keyfile is ignored: for a client certificate: `inbox set --client-cert`\n",
		},
		{
			"defaults of getmail", "getmailrc",
			getmailrc + "password=x\n" +
				"[DEFAULT]\nserver=g\nport=1993\ndelete=true\nca_certs=ca.pem\npath=/bin/x\n",
			`rc:2: "h" port 1993 tls user "a" password "x" folders [] skipped false` + "\n" +
				"note: rc:9: delete: getmail deletes mail on the server; postrider leaves it there\n" +
				"note: rc:10: ca_certs is ignored: postrider always checks certificates; " +
				"for your own certificate use `inbox set --ca-file` or `--tls-fingerprint`\n",
		},
		{
			"a byte order mark", "getmailrc", "\ufeff" + getmailrc + "password=x\n",
			`rc:2: "h" port 0 tls user "a" password "x" folders [] skipped false` + "\n",
		},
		{
			"a byte order mark of fetchmail", "fetchmailrc", "\ufeffpoll h proto imap user a pass x ssl\n",
			`rc:1: "h" port 0 tls user "a" password "x" folders [] skipped false` + "\n",
		},
		{"Latin-1", "getmailrc", "\xe4", "error: rc: is not UTF-8 (perhaps Latin-1); save it as UTF-8\n"},
		{
			"too large", "fetchmailrc", strings.Repeat("#", maxFile+1),
			"error: rc: is larger than 1 MiB; split it into several files\n",
		},
		{"unknown", "mbsyncrc", "", "error: the format is \"mbsyncrc\"; use fetchmailrc or getmailrc\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := shown(tt.format, "rc", tt.src); got != tt.want {
				t.Errorf("it reads\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

// TestMailboxes compares with what Python's eval makes of a value, or is stricter.
func TestMailboxes(t *testing.T) {
	tests := []struct {
		value, want string // no want: a fault
	}{
		{`("[Gmail]/All Mail",) # comment`, `["[Gmail]/All Mail"]`},
		{"('A', # it's one\n  \"B\"\n  )", `["A" "B"]`},
		{`"A", 'B'`, `["A" "B"]`},
		{`(u'A', r'B\n', b'C#', 'D\'"\"',)`, `["A" "B\\n" "C#" "D'\"\""]`},
		{`('A\d', 'x\\y', '\x41\u00e4\t')`, `["A\\d" "x\\y" "Aä\t"]`},
		{`INBOX`, `["INBOX"]`},
		{`ALL # of them`, `[]`},
		{`()`, `[]`},
		{`("A" "B")`, ""},
		{`("A",, "B")`, ""},
		{`("A", "B"`, ""},
		{`("A",) + more`, ""},
		{`["A"]`, ""},
		{`("A", f"B")`, ""},
		{`("A", "B)`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.value, func(t *testing.T) {
			src := getmailrc + "password=x\nmailboxes = " + tt.value + "\n"
			accounts, err := Read("getmailrc", "rc", strings.NewReader(src), &Notes{})
			if err != nil {
				t.Fatal(err)
			}
			a := accounts[0]
			if got := fmt.Sprintf("%q", a.Folders); a.Fault == nil && got != tt.want {
				t.Errorf("the folders are %s, want %s", got, cmp.Or(tt.want, "a fault"))
			}
			const fault = `the mailboxes in line 6 are not a list like ("INBOX", "Clients")`
			if a.Fault != nil && (tt.want != "" || a.Fault.Error() != fault) {
				t.Errorf("the fault is %v, want the folders %s",
					a.Fault, cmp.Or(tt.want, "and a fault that names the line"))
			}
		})
	}
}

func TestEntries(t *testing.T) {
	account := func(host, user string) Account { return Account{Where: "rc:1", Host: host, Username: user} }
	faulty := Account{Host: "h.example", Username: "a", Fault: errors.New("no port")}
	tests := []struct {
		name      string
		account   Account
		addresses map[string]string
		want      string // the address, or a part of the fault
	}{
		{"the username", account("h.example", "a@h.example"), nil, "a@h.example"},
		{"given", account("h.example", "a"), map[string]string{"a": "a@x.example"}, "a@x.example"},
		{
			"given for the server", account("h.example", "a"),
			map[string]string{"a@h.example": "b@x.example"},
			"b@x.example",
		},
		{
			"not given", account("imap.h.example", "a"), nil,
			`the user "a" of imap.h.example is not an address; say which address it has: --address a=a@h.example`,
		},
		{
			"of a domain", account("imap.h.example", `FIRM\a`), nil,
			`--address ` + text.Arg(`FIRM\a=a@h.example`),
		},
		{
			"of a shared mailbox", account("h.example", `info@h.example\a`), nil,
			`is not an address; say which address it has: --address ` + text.Arg(`info@h.example\a=a@h.example`),
		},
		{"no domain", account("h.example", "a@"), nil, "--address a@=a@h.example"},
		{"no user", account("h.example", ""), nil, "there is no user for h.example"},
		{"not UTF-8", account("h.example", "a\xff"), nil, "not UTF-8"},
		{"two faults", faulty, nil, "no port\nthe user \"a\" of h.example is not an address"},
		{"given, with a fault", faulty, map[string]string{"a": "a@x.example"}, "no port"},
		{
			"misspelt", account("h.example", "a@h.example"),
			map[string]string{"b": "b@x.example"},
			"--address b=b@x.example: no account has that user",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			entries, err := Entries([]Account{tt.account}, tt.addresses, "")
			got := fmt.Sprint(err)
			if err == nil {
				got = entries[0].Address + fmt.Sprint(entries[0].Fault)
			}
			if !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	login := Account{Where: "rc:1", Host: "h", Security: inbox.TLS, Username: "a@x.example", Password: "x"}
	other, second, third := login, login, login
	second.Where, second.Port, second.Folders = "rc:2", 993, []string{"Junk", "INBOX"}
	third.Host, third.Folders, other.Password = "H", []string{"Sent"}, "y"
	merged, err := Entries([]Account{login, second, other, third}, nil, "")
	const both = "rc:1[INBOX Junk INBOX Sent]"
	if err != nil || len(merged) != 2 || fmt.Sprint(merged[0].Where, merged[0].Set.Folders) != both {
		t.Errorf("the entries are %+v (%v), want one for the login with all folders, and one with another password",
			merged, err)
	}
	plain := Account{Where: "rc:1", Host: "h", Security: inbox.STARTTLS, Username: "a@x.example"}
	e, err := Entries([]Account{plain}, nil, "corp")
	if err != nil || *e[0].Set.Port != 143 || fmt.Sprint(e[0].Set.Folders) != "[INBOX]" {
		t.Errorf("the entry is %+v (%v), want port 143 and the folder INBOX, whatever an existing inbox has", e, err)
	}
}
