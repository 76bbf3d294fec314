package forward

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/wneessen/go-mail/smtp"
)

// maxIterations is the largest iteration count that a relay may ask for in SCRAM (RFC 5802 5.1). To
// compute that many takes up to a second. Servers ask for 4096 to some hundred thousand.
const maxIterations = 1_000_000

// scram is a SCRAM login with a limit on the iteration count, which the library does not check.
type scram struct{ smtp.Auth }

func (s scram) Next(challenge []byte, more bool) ([]byte, error) {
	for attr := range strings.SplitSeq(string(challenge), ",") {
		count, ok := strings.CutPrefix(attr, "i=")
		if !ok || !more {
			continue
		}
		if n, err := strconv.Atoi(count); err != nil || n < 1 || n > maxIterations {
			return nil, fmt.Errorf("the relay asks for %q SCRAM iterations, and only 1 to %d are allowed",
				short(count), maxIterations)
		}
	}
	return s.Auth.Next(challenge, more)
}
