package testserver

import (
	_ "embed"
	"testing"
	"time"
)

//go:embed dkimpy_arc.py
var arcScript string

// arcJob is what the script reads.
type arcJob struct {
	Records  map[string]string `json:"records"`
	Key      string            `json:"key"`
	At       int64             `json:"at"`
	Messages [][]byte          `json:"messages"` // in base64, as JSON has octets
}

// ARCVerdict is what dkimpy says of a chain.
type ARCVerdict struct {
	CV     string `json:"cv"` // none, pass, fail; ended when the newest seal says fail
	Reason string `json:"reason"`
	Seal   bool   `json:"seal"` // the newest set is valid on its own
}

// VerifyARC verifies the ARC chains of messages with dkimpy, which shares no code with ours.
// Records are the TXT records of the DNS, by name.
func VerifyARC(t testing.TB, records map[string]string, messages ...string) []ARCVerdict {
	t.Helper()
	var out []ARCVerdict
	arc(t, arcJob{Records: records}, messages, &out)
	if len(out) != len(messages) {
		t.Fatalf("dkimpy has verified %d of %d messages", len(out), len(messages))
	}
	return out
}

// SealARC verifies the chains of messages and continues them with dkimpy, as sealer.example with
// the selector s1 and an RSA key in PEM, dated at.
func SealARC(t testing.TB, records map[string]string, key string, at time.Time, messages ...string) []string {
	t.Helper()
	var sealed [][]byte
	arc(t, arcJob{Records: records, Key: key, At: at.Unix()}, messages, &sealed)
	if len(sealed) != len(messages) {
		t.Fatalf("dkimpy has sealed %d of %d messages", len(sealed), len(messages))
	}
	out := make([]string, len(sealed))
	for i, m := range sealed {
		out[i] = string(m)
	}
	return out
}

func arc(t testing.TB, job arcJob, messages []string, out any) {
	t.Helper()
	for _, m := range messages {
		job.Messages = append(job.Messages, []byte(m))
	}
	runDKIMPy(t, arcScript, job, out)
}
