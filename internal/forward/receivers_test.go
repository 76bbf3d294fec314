package forward

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"postrider/internal/dkim"
	"postrider/internal/dmarc"
	"postrider/internal/testserver"
	"postrider/internal/testserver/smtpsink"
)

var update = flag.Bool("update", false, "write the table of verdicts in docs/modes.md again")

// What a receiver does with a message.
const (
	isPassed   = "passes"   // it passes DMARC
	isAccepted = "accepted" // it does not, and no policy asks for anything
	isSpam     = "spam"
	isRefused  = "refused"
	notJudged  = "not judged"
	onItsWay   = "on its way"
)

// receivers are a world: the DNS, a relay with the address that the SPF record of firm.example
// names, and the servers of a receiver behind it.
type receivers struct {
	*sender
	composer *Composer
	relays   [2]*Relay // to the filters
	arrived  *smtpsink.Server
	sent     []*verdicts
	from     string // the reverse-path
}

// filters are what judges at the receiver.
var filters = [2]string{"rspamd", "OpenDMARC"}

const forwarder = "intake@firm.example"

// startReceivers starts the servers, with the records of the authors.
func startReceivers(t *testing.T, a *sender) *receivers {
	t.Helper()
	key, err := dkim.Load("firm.example", "rsa", keyFile(t, a.keys["rsa"]))
	if err != nil {
		t.Fatal(err)
	}
	name, record := key.Record()
	a.zone[name] = record
	a.zone["firm.example"] = "v=spf1 ip4:" + testserver.ReceiverClient + " -all"
	a.zone["_dmarc.firm.example"] = "v=DMARC1; p=reject; adkim=s; aspf=s"
	dns := testserver.NameServer(t, a.zone)
	for name, second := range a.second {
		dns.AddTXT(t, name, a.zone[name])
		dns.AddTXT(t, name, second)
	}
	arrived := sink(t, smtpsink.Options{Extensions: []string{"8BITMIME", "SMTPUTF8"}})
	w := &receivers{sender: a, from: forwarder, arrived: arrived}
	server := testserver.StartReceiver(t, dns, w.arrived.Port())
	for i, port := range []int{server.Rspamd, server.OpenDMARC} {
		w.relays[i] = relayOn(t, port, func(c *Config) {
			c.From, c.LocalName = "Intake <"+forwarder+">", "relay.firm.example"
		})
	}
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, dns.Address)
	}}
	w.composer = composer(t, ComposeConfig{
		From: "Intake <" + forwarder + ">", Key: key, Judge: dmarc.NewJudge(resolver),
	})
	return w
}

// verdicts are what the filters do with one message, in their order.
type verdicts [2]string

// best reports that no filter acts against the message.
func (v verdicts) best() bool {
	return v.worst() != isRefused && v.worst() != isSpam
}

func (v verdicts) worst() string {
	for _, one := range []string{isRefused, isSpam, notJudged, isAccepted} {
		if v[0] == one || v[1] == one {
			return one
		}
	}
	return isPassed
}

func (v verdicts) String() string {
	if v[0] == v[1] {
		return v[0]
	}
	return fmt.Sprintf("%s (%s), %s (%s)", v[0], filters[0], v[1], filters[1])
}

// send sends a message in a style to the receiver of each filter. The verdicts are complete after
// judge.
func (w *receivers) send(t *testing.T, raw string, s Style) (content *Content, v *verdicts) {
	t.Helper()
	content, v = compose(t, w.composer, parse(t, raw), s), &verdicts{}
	to := fmt.Sprintf("%d@receiver.example", len(w.sent))
	w.sent = append(w.sent, v)
	var both sync.WaitGroup
	for i, filter := range filters {
		both.Go(func() {
			res, err := deliver(t.Context(), w.relays[i], Envelope{From: w.from, To: []string{filter + to}}, content)
			switch {
			case err == nil && res.Outcomes[0].Status == Accepted:
				v[i] = onItsWay
			case err == nil && res.Outcomes[0].Status == Refused && byPolicy.MatchString(res.Outcomes[0].Reply):
				v[i] = isRefused
			default:
				t.Errorf("%s, %s: %+v, %v; want it accepted, or refused by the policy\n%s",
					filter, content.Mode, res.Outcomes, err, raw)
			}
		})
	}
	both.Wait()
	return content, v
}

// What the filters say when they refuse a message.
var byPolicy = regexp.MustCompile(`(?i)by DMARC policy|Action set by DMARC`)

// judge waits for all messages that were accepted, and fills in what was said about them.
func (w *receivers) judge(t *testing.T) {
	t.Helper()
	accepted := map[string]*string{} // by recipient
	for n, v := range w.sent {
		for i, filter := range filters {
			if v[i] == onItsWay {
				accepted[fmt.Sprintf("%s%d@receiver.example", filter, n)] = &v[i]
			}
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := w.arrived.Wait(ctx, len(accepted)); err != nil {
		t.Fatal(err)
	}
	for _, m := range w.arrived.Messages() {
		head, _, _ := strings.Cut(string(m.Data), "\r\n\r\n")
		verdict, expected := accepted[m.To[0]]
		if !expected {
			t.Errorf("a message arrived for %s, want none:\n%s", m.To, head)
			continue
		}
		*verdict = judged(unfold.Replace(head))
	}
}

var unfold = strings.NewReplacer("\r\n ", " ", "\r\n\t", " ")

// results are what the filters of the receiver found.
var results = regexp.MustCompile(`(?m)^Authentication-Results: mx\.receiver\.example; (?:.*; )?dmarc=(\w+)(.*)`)

// judged is the verdict in a header.
func judged(head string) string {
	found := results.FindStringSubmatch(head)
	switch {
	case found == nil:
		return notJudged
	case strings.Contains(head, "\r\nX-Spam: Yes"), found[1] == "fail" && strings.Contains(found[2], "(p=quarantine"):
		return isSpam
	case found[1] == "pass":
		return isPassed
	}
	return isAccepted
}

const tableFile = "../../docs/modes.md"

// checkTable compares the part of docs/modes.md between the markers with the table.
func checkTable(t *testing.T, table string) {
	t.Helper()
	doc, err := os.ReadFile(tableFile)
	if err != nil {
		t.Fatal(err)
	}
	const (
		begin = "<!-- verdicts: go test ./internal/forward -run TestReceivers -update -->\n"
		end   = "<!-- end of verdicts -->\n"
	)
	before, rest, ok := bytes.Cut(doc, []byte(begin))
	old, after, ok2 := bytes.Cut(rest, []byte(end))
	switch {
	case !ok || !ok2:
		t.Fatalf("%s has no lines %q and %q", tableFile, begin, end)
	case string(old) == table:
	case *update:
		doc = slices.Concat(before, []byte(begin), []byte(table), []byte(end), after)
		if err := os.WriteFile(tableFile, doc, 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("the table in %s is\n%s\nbut the receivers' verdicts are\n%s\nwrite it again with -update",
			tableFile, old, table)
	}
}
