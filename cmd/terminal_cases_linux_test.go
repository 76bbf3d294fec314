package cmd

// The states that every command is run in.
const (
	idle       = "idle"       // all mail is forwarded
	working    = "working"    // there is new mail, and tasks that need an operator
	unreached  = "unreached"  // the inbox and the relay do not answer
	badLogin   = "bad login"  // the server refuses the password, and there is no folder of that name
	misconfig  = "misconfig"  // the configuration has errors
	noDatabase = "noDatabase" // the database cannot be opened
)

var terminalStates = []string{idle, working, unreached, badLogin, misconfig, noDatabase}

// byState is what is shown in some of the states.
type byState map[string]string

// terminalCase is a command, and what it ends with in each state. What it shows is a regular
// expression; in any state it shows something.
type terminalCase struct {
	args  string
	types string // the answer to its question
	codes string // exit codes in the states, in their order
	shows byState
}

// terminalCases has every command; a command without a case fails the test. Where there is a
// question it is answered with yes.
var terminalCases = []terminalCase{
	{"run", "", "0 75 75 75 2 1", byState{
		idle: `^Nothing new and nothing due\.\n$`,
		working: `(?is)REGISTER.*DEAD.*\n1 dead: postrider task list --status dead\n` +
			`1 to be retried: postrider task list --status error --status received\n$`,
		unreached: `(?s)^desk@firm\.example: connect: .*failed, see above`,
		badLogin: `(?s)^desk@firm\.example: log in as desk@firm\.example: the server refused the password ` +
			`.*postrider inbox set desk@firm\.example --password-stdin`,
	}},
	{"run -v", "", "0 75 75 75 2 1", byState{
		idle:    `desk@firm\.example: logged in \(server `,
		working: `message forwarded \(task \d+, folder INBOX,`,
	}},
	{"run --dry-run", "", "0 0 75 75 2 1", byState{
		idle:    `^There is nothing new and nothing due: a run would forward nothing\.\n$`,
		working: `"new": would be forwarded to intake@firm\.example by route all\n`,
	}},
	{"run --json", "", "0 75 75 75 2 1", byState{working: `^{"started_at"`}},
	{"watch --timeout 3s --listen 127.0.0.1:0", "", "0 0 75 75 2 1", byState{
		idle:      `^The status page is at http://127\.0\.0\.1:\d+/\nWatching; Ctrl-C ends it\.\n$`,
		unreached: `desk@firm\.example: .*connect: `,
	}},
	{"status", "", "0 0 0 0 2 1", byState{working: `(?m)^1 dead: postrider task list --status dead$`}},
	{"status --failing", "", "0 0 0 0 2 1", byState{
		idle:    `^1 inbox ok\n$`,
		working: `^0 inboxes ok, 1 with trouble\n`,
	}},
	{"status --label tenant=acme", "", "2 2 2 2 2 1", byState{idle: `^postrider: no inbox has a label; set one with`}},
	{"metrics", "", "0 0 0 0 2 1", byState{idle: `(?s)^# HELP postrider_build_info .*# EOF\n$`}},
	{"audit", "", "0 0 75 75 2 1", byState{
		working:   `\bnew\b`,
		unreached: `(?s)^desk@firm\.example: connect: .*failed, see above`,
		badLogin: `(?s)^desk@firm\.example: log in as desk@firm\.example: the server refused the password ` +
			`.*failed, see above`,
	}},
	{"audit --list", "", "0 0 75 75 2 1", nil},
	{"check", "", "0 75 75 75 2 75", byState{
		idle:      `(?m)^ok +inbox desk@firm\.example: logged in to .* and opened INBOX$`,
		unreached: `(?m)^FAILED +relay: `,
	}},
	{"migrate", "", "0 0 0 0 2 1", nil},
	{"migrate --status", "", "0 0 0 0 2 1", nil},
	{"recipient", "", "0 0 0 0 0 0", nil},
	{"recipient list", "", "0 0 0 0 2 1", byState{idle: `^No recipient has bounced too often\.\n$`}},
	{"recipient resume gone@other.example", "", "1 1 1 1 2 1", byState{idle: `gone@other\.example is not suspended; `}},
	{"event", "", "0 0 0 0 0 0", nil},
	{"event list", "", "0 0 0 0 2 1", byState{idle: `^There are no events\. The sections events and after`}},
	{"event show 1", "", "1 1 1 1 2 1", byState{idle: `^postrider: there is no event 1; `}},
	{"event retry 1", "", "1 1 1 1 2 1", byState{idle: `event 1: not changed, there is no such event`}},
	{"event skip --destination imap", "", "0 0 0 0 2 1", byState{idle: `^No event matches; nothing was changed\.\n$`}},
	{"event skip --destination crm", "", "2 2 2 2 2 1", byState{idle: `there is no destination "crm"`}},
	{"event purge --status waiting", "", "2 2 2 2 2 2", byState{
		idle: `is not for events that are waiting, but for done, dead or skipped`,
	}},
	{"event enable crm", "", "2 2 2 2 2 1", byState{
		idle: `^postrider: there is no destination "crm", neither in the configuration nor among the events`,
	}},
	{"inbox add new@firm.example --host 127.0.0.1 --security none --no-check", "sesame\r", "0 0 0 0 2 1", byState{
		idle: `Added new@firm\.example\.`,
	}},
	{"inbox add new@firm.example", "", "2 2 2 2 2 1", byState{
		idle: `^postrider: no IMAP server was found for firm\.example \(no MX record; .*\); ` +
			`give it with --host HOST\n$`,
	}},
	{"inbox login desk@firm.example", "", "2 2 2 2 2 1", byState{
		idle: `^postrider: inbox desk@firm\.example logs in with a password; to use OAuth2: `,
	}},
	{"smtp login", "", "2 2 2 2 2 1", byState{
		idle: `^postrider: the relay does not log in with OAuth2; set smtp\.auth to oauth`,
	}},
	{"serve --listen 0.0.0.0:0", "", "2 2 2 2 2 2", byState{
		idle: `^postrider: 0\.0\.0\.0:0 can be reached from other hosts, and no login would be needed;`,
	}},
	{"inbox list", "", "0 0 0 0 2 1", nil},
	{"inbox show desk@firm.example", "", "0 0 0 0 2 1", nil},
	{"inbox show deks@firm.example", "", "2 2 2 2 2 1", byState{idle: `did you mean desk@firm\.example\?`}},
	{"inbox set desk@firm.example --description new", "", "0 0 0 0 2 1", byState{
		idle: `^Changed desk@firm\.example\.`,
	}},
	{"inbox enable desk@firm.example", "", "0 0 0 0 2 1", byState{idle: `^Enabled `}},
	{"inbox disable desk@firm.example", "", "0 0 0 0 2 1", byState{idle: `^Disabled `}},
	{"inbox remove desk@firm.example", "y\r", "0 0 0 0 2 1", byState{
		idle: `Removed desk@firm\.example with its 2 tasks`,
	}},
	{"inbox check desk@firm.example", "", "0 0 1 1 2 1", byState{
		idle: `the cursor is at UID 2 with 0 messages above it`,
	}},
	{"inbox rewind desk@firm.example --to-start", "y\r", "0 0 1 1 2 1", byState{
		idle: `(?s)Rewind inbox desk@firm\.example\? .*Done: the cursor of desk@firm\.example INBOX is at UID 0\. ` +
			`All messages above it are registered already`,
		working:  `The next run registers 3 messages`,
		badLogin: `^postrider: .*the server refused the password`,
	}},
	{"inbox import FOLDER/inboxes.csv", "y\r", "0 0 0 0 2 1", byState{
		idle: `Done: 1 new, 0 changed, 0 unchanged\.\n$`,
	}},
	{"inbox import --from fetchmailrc FOLDER/fetchmailrc", "y\r", "2 2 2 2 2 2", byState{
		idle: `^postrider: import inboxes: nothing was changed:\nopen .*fetchmailrc: no such file`,
	}},
	{"inbox export", "", "0 0 0 0 2 1", byState{idle: `^address,host,port,security,`}},
	{"task list", "", "0 0 0 0 2 1", byState{working: `(?m)│ dead +│|^state +dead$`}},
	{"task list --from clerk@ --to intake --subject ONE --since 1d", "", "0 0 0 0 2 1", byState{
		idle: `(?m)│ forwarded +│|^state +forwarded$`,
	}},
	{"task list --status uncertain", "", "0 0 0 0 2 1", byState{idle: `^No message matches;`}},
	{"task show 1", "", "0 0 0 0 2 1", nil},
	{"task show 99", "", "1 1 1 1 2 1", byState{idle: `^postrider: there is no task 99;`}},
	{"task retry 2", "", "1 0 0 0 2 1", byState{
		idle:    `^task 2: not changed, it is forwarded`,
		working: `^task 2: requeued`,
	}},
	{"task skip --status dead", "y\r", "0 0 0 0 2 1", byState{
		idle:    `^No task matches; nothing was changed\.\n$`,
		working: `1 task changed\.\n$`,
	}},
	{"task resolve 2 --delivered", "", "1 1 1 1 2 1", nil},
	{"task purge --older-than 0s", "y\r", "0 0 0 0 2 1", byState{idle: `2 tasks deleted\.\n$`}},
	{"contact add Ann --email ann@firm.example", "", "0 0 0 0 2 1", byState{
		idle: `^Added Ann <ann@firm\.example>\.\n$`,
	}},
	{"contact list", "", "0 0 0 0 2 1", nil},
	{"contact remove Bob", "y\r", "0 0 0 0 2 1", byState{idle: `Removed Bob\.\n$`}},
	{"contact import FOLDER/people.csv", "y\r", "0 0 0 0 2 1", byState{idle: `Done: 1 new, `}},
	{"route test FOLDER/mail.eml --no-dns", "", "0 0 0 0 2 0", nil},
	{"route test FOLDER/nowhere.eml", "", "2 2 2 2 2 2", nil},
	{"route replay", "", "0 0 75 75 2 1", nil},
	{"srs decode x@firm.example", "", "2 2 2 2 2 2", nil},
	{"init", "", "2 2 2 2 2 2", byState{
		idle: `^postrider: .*postrider\.yaml exists already, and init never replaces a file; edit it,`,
	}},
	{"init --output FOLDER/new.yaml --smtp-host 127.0.0.1 --smtp-port 1 --smtp-security none --smtp-username none " +
		"--from a@firm.example --to b@firm.example", "y\r", "0 0 0 0 0 0", byState{
		idle: `(?s)\nFAILED  relay: .*The relay failed its test\. Write .*new\.yaml all the same\? ` +
			`.*Wrote .*new\.yaml\. To add an inbox:\npostrider -c .*new\.yaml inbox add ADDR\n$`,
	}},
	{"version", "", "0 0 0 0 0 0", nil},
	{"completion", "", "0 0 0 0 0 0", nil},
	{"completion bash", "", "0 0 0 0 0 0", nil},
	{"completion zsh", "", "0 0 0 0 0 0", nil},
	{"completion fish", "", "0 0 0 0 0 0", nil},
	{"completion powershell", "", "0 0 0 0 0 0", nil},
	{"help run", "", "0 0 0 0 0 0", nil},
	{"", "", "0 0 0 0 0 0", nil},
	{"inbox", "", "0 0 0 0 0 0", nil},
	{"task", "", "0 0 0 0 0 0", nil},
	{"contact", "", "0 0 0 0 0 0", nil},
	{"route", "", "0 0 0 0 0 0", nil},
	{"srs", "", "0 0 0 0 0 0", nil},
	{"smtp", "", "0 0 0 0 0 0", nil},
	{"nonsense", "", "2 2 2 2 2 2", byState{idle: "^postrider: unknown command \"nonsense\""}},
	{"run --foo", "", "2 2 2 2 2 2", byState{idle: "^postrider: unknown flag: --foo; see `postrider run --help`\n$"}},
}

// elsewhere are commands that have a test of their own: they start processes of this program.
var elsewhere = []string{"demo"}
