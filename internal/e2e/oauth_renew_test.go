//go:build unix

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gorm.io/gorm"

	"postrider/internal/inbox"
	"postrider/internal/testserver"
	"postrider/internal/tokens"
)

// ageToken changes when the inbox's token was issued, and when it ends.
func (w *world) ageToken(issued, expires time.Duration) {
	w.t.Helper()
	w.behind(func(tx *gorm.DB) error {
		var row struct {
			ID              int64
			Account, Sealed string
		}
		err := tx.Raw("SELECT e.id, t.account, t.sealed FROM oauth_tokens t, monitored_emails e "+
			"WHERE e.email_address = ?", office).Scan(&row).Error
		if err != nil {
			return err
		}
		sealer, binding := inbox.OpenSealer(w.path("postrider.key")), w.binding(row.ID)
		text, err := sealer.Decrypt(row.Sealed, binding)
		if err != nil {
			return err
		}
		var token map[string]any
		if err := json.Unmarshal([]byte(text), &token); err != nil {
			return err
		}
		token["issued"], token["expires"] = time.Now().Add(issued).UTC(), time.Now().Add(expires).UTC()
		changed, err := json.Marshal(token)
		if err != nil {
			return err
		}
		sealed, err := sealer.Encrypt(string(changed), binding)
		if err != nil {
			return err
		}
		return tx.Exec("UPDATE oauth_tokens SET sealed = ? WHERE account = ?", sealed, row.Account).Error
	})
}

// binding is what the token of the inbox is encrypted for.
func (w *world) binding(id int64) []byte {
	in := inbox.Inbox{
		ID: id, Address: office, Host: "127.0.0.1", Port: w.imapPort, Security: inbox.None, Username: office,
	}
	return tokens.ForInbox(in, w.app).Binding()
}

// expireToken has the inbox's token be at its end.
func (w *world) expireToken() { w.ageToken(-time.Hour, -time.Minute) }

// TestTokenIsRefused is a token that was revoked before its end: the server refuses it, and takes
// the next one.
func TestTokenIsRefused(t *testing.T) {
	w, provider := withProvider(t, "sqlite", browsers)
	w.logIn(provider)
	provider.Switch("forget")
	w.ageToken(-time.Hour, time.Hour)
	w.put(office, "one")
	w.pass(0)
	provider.Switch("forget") // and the new one, too: then it is not the token that the server refuses
	r, _ := w.pass(75)
	if !strings.Contains(r.Inboxes[0].Error, "check that the account may use IMAP") {
		t.Errorf("the error is %q, want what to check", r.Inboxes[0].Error)
	}
	if counts := provider.Switch("counts"); counts != "1 renewed, 0 reused" {
		t.Errorf("the provider counts %s, want one renewal", counts)
	}
}

// TestTokenEndsInMidPass breaks the connection while messages are fetched, and the token is of no
// use any more: it is renewed once, and the pass goes on.
func TestTokenEndsInMidPass(t *testing.T) {
	for name, end := range map[string]func(*world){
		"refused": func(w *world) { w.ageToken(-time.Hour, time.Hour) },
		"expired": (*world).expireToken,
	} {
		t.Run(name, func(t *testing.T) {
			w, provider := withProvider(t, "sqlite", browsers)
			w.extra += "concurrency: {page: 3}\n"
			w.configure()
			w.must(0, "inbox", "set", office, "--start", "all")
			w.logIn(provider)
			msgs := mails(9, "mid-pass")
			w.imap.Append(t, office, "INBOX", msgs...)
			fetches := 0
			w.proxy.Watch(func() testserver.Look {
				return func(p testserver.Piece) (int, func() testserver.End) {
					if p.FromServer || !strings.Contains(string(p.Data), "BODY.PEEK") {
						return 0, nil
					}
					if fetches++; fetches != 2 {
						return 0, nil
					}
					return 0, func() testserver.End {
						provider.Switch("forget")
						end(w)
						return testserver.RST
					}
				}
			})
			w.pass(0)
			w.wantOnce(msgs)
			if counts := provider.Switch("counts"); counts != "1 renewed, 0 reused" {
				t.Errorf("the provider counts %s, want one renewal", counts)
			}
		})
	}
}

// atOnce has hosts renew a token at the same moment, three times: the provider revokes all tokens
// when it sees a refresh token twice.
func (w *world) atOnce(provider *testserver.OIDC, configs []string) {
	w.t.Helper()
	w.logIn(provider)
	w.whileRenewed(provider, configs)
	for range 3 {
		w.expireToken()
		var all sync.WaitGroup
		for _, config := range configs {
			all.Go(func() {
				if res := w.start(nil, "-c", config, "check").wait(); res.code != 0 {
					w.t.Errorf("check: exit %d, want 0\n%s%s", res.code, res.stdout, res.stderr)
				}
			})
		}
		all.Wait()
	}
	if counts := provider.Switch("counts"); counts != "4 renewed, 0 reused" {
		w.t.Errorf("the provider counts %s, want one renewal a round", counts)
	}
	w.put(office, "one")
	w.pass(0)
}

// whileRenewed has the first host wait for the provider. The others use the token that still lasts
// meanwhile, and do not ask the provider.
func (w *world) whileRenewed(provider *testserver.OIDC, configs []string) {
	w.t.Helper()
	w.ageToken(-58*time.Minute, 2*time.Minute)
	provider.Switch("delay")
	first := w.start(nil, "-c", configs[0], "check")
	provider.Switch("held")
	for _, config := range configs[1:] {
		w.must(0, "-c", config, "check")
	}
	provider.Switch("letgo")
	first.wantEnd(0, "")
}

// TestRenewalsAtOnce is two hosts that share a database.
func TestRenewalsAtOnce(t *testing.T) {
	for _, kind := range all {
		t.Run(kind, func(t *testing.T) {
			w, provider := withProvider(t, kind, browsers)
			var configs []string
			for _, host := range []string{"alpha", "beta"} {
				configs = append(configs, w.configOf(host, strings.NewReplacer()))
			}
			w.atOnce(provider, configs)
		})
	}
}

// TestGaleraRenewalsAtOnce is three hosts with a node each.
func TestGaleraRenewalsAtOnce(t *testing.T) {
	w, provider := withProvider(t, "galera", browsers)
	g := testserver.GaleraCluster(t)
	var configs []string
	for i := range g.Nodes {
		configs = append(configs, w.configOf(fmt.Sprint("node", i+1), toNode(g, i)))
	}
	w.atOnce(provider, configs)
}

// configOf writes the configuration of a host.
func (w *world) configOf(host string, change *strings.Replacer) string {
	w.t.Helper()
	text, err := os.ReadFile(w.path("postrider.yaml"))
	if err != nil {
		w.t.Fatal(err)
	}
	path := w.path(host + ".yaml")
	own := change.Replace(string(text)) + "concurrency: {host: " + host + "}\n"
	if err := os.WriteFile(path, []byte(own), 0o600); err != nil {
		w.t.Fatal(err)
	}
	return path
}

// TestKilledWhileRenewing kills a pass at each step of a renewal. The token is lost only between
// the provider's answer and the commit, and the next pass says so.
func TestKilledWhileRenewing(t *testing.T) {
	const cutShort = "an earlier renewal was cut short, so its token was not stored"
	for _, kind := range []string{"sqlite", "mariadb"} {
		for _, step := range []struct {
			name string
			kill func(*world, *testserver.OIDC) // starts a pass and kills it
			lost bool
		}{
			{"before the provider gets the request", killedWhile("stall"), false},
			{"before its answer", killedWhile("hold"), true},
			{"before the commit", killedBeforeCommit, true},
			{"after the commit", killedAfterCommit, false},
		} {
			t.Run(kind+"/"+step.name, func(t *testing.T) {
				w, provider := withProvider(t, kind, browsers)
				w.logIn(provider)
				w.expireToken()
				w.put(office, "one")
				step.kill(w, provider)
				w.sql("UPDATE oauth_tokens SET held_until = 0") // the killed process's leases
				w.sql("UPDATE monitored_emails SET scan_until = 0")
				if step.lost {
					r, _ := w.pass(75)
					if !strings.Contains(r.Inboxes[0].Error, cutShort) {
						t.Errorf("the error is %q, want what happened", r.Inboxes[0].Error)
					}
					w.logIn(provider)
				}
				w.pass(0)
				if n := len(w.sink.Messages()); n != 1 {
					t.Errorf("%d messages arrived, want 1", n)
				}
				counts := provider.Switch("counts")
				want := map[bool]string{true: "1 renewed, 1 reused", false: "1 renewed, 0 reused"}[step.lost]
				if counts != want {
					t.Errorf("the provider counts %s, want %s", counts, want)
				}
			})
		}
	}
}

func (p *process) kill() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		p.t.Fatal(err)
	}
	p.wait()
}

// killedWhile kills a pass while its request, or the answer, waits at the provider.
func killedWhile(waits string) func(*world, *testserver.OIDC) {
	return func(w *world, provider *testserver.OIDC) {
		provider.Switch(waits)
		p := w.start(nil, "run")
		provider.Switch("held")
		p.kill()
		provider.Switch("letgo")
	}
}

// killedBeforeCommit gives the pass the answer while it cannot write the database.
func killedBeforeCommit(w *world, provider *testserver.OIDC) {
	provider.Switch("hold")
	p := w.start(nil, "run")
	provider.Switch("held")
	w.behind(func(tx *gorm.DB) error {
		err := tx.Exec("UPDATE oauth_tokens SET held_until = 0").Error
		provider.Switch("letgo")
		p.kill()
		return err
	})
}

// killedAfterCommit kills the pass when it connects to the server, with the new token.
func killedAfterCommit(w *world, _ *testserver.OIDC) {
	connected := make(chan struct{})
	w.proxy.Watch(func() testserver.Look {
		close(connected)
		return nil
	})
	p := w.start(nil, "run")
	<-connected
	p.kill()
	w.proxy.Watch(nil)
}
