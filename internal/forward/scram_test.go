package forward

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
)

// TestScramIterations: a relay that asks for too many iterations, or for none, is at fault at once.
func TestScramIterations(t *testing.T) {
	encode := base64.StdEncoding.EncodeToString
	for count, says := range map[string]string{
		"1": "", "4096": "", "1000000": "",
		"0": `"0" SCRAM iterations`, "-1": `"-1"`, "1000001": `"1000001"`, "999999999999": `"999999999999"`,
		"x": `"x"`, "": `""`,
	} {
		for _, mechanism := range []string{"SCRAM-SHA-1", "SCRAM-SHA-256"} {
			t.Run(mechanism+" i="+count, func(t *testing.T) {
				port := scripted(t, nil, func(line string) string {
					word, rest, _ := strings.Cut(line, " ")
					first, _ := base64.StdEncoding.DecodeString(line)
					_, nonce, isFirst := strings.Cut(string(first), ",r=")
					switch {
					case line == "":
						return "220 here"
					case word == "EHLO":
						return "250-here\r\n250 AUTH " + mechanism
					case word == "AUTH" && rest == mechanism:
						return "334 "
					case isFirst && strings.HasPrefix(string(first), "n,,"):
						salt := encode([]byte("salt"))
						return "334 " + encode(fmt.Appendf(nil, "r=%s0,s=%s,i=%s", nonce, salt, count))
					case line == "*", word == "QUIT":
						return "501 ok"
					}
					return "535 5.7.8 that is not the password" // it knows none
				})
				_, err := relayOn(t, port, login).Info(t.Context(), nil)
				want := "AUTH 0 temporary"
				if says == "" {
					want = "AUTH 535 permanent"
				}
				if briefError(err) != want || !strings.Contains(err.Error(), says) {
					t.Errorf("Info = %v, want %s with %q", err, want, says)
				}
			})
		}
	}
}
