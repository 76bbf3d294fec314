package arc

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"postrider/internal/message"
)

// suiteCase is a case of the ARC test suite, with what its scenario says for all its cases. A
// message has line ends of one LF.
type suiteCase struct {
	name    string
	records zone
	key     string // of the sealer, in PEM
	domain  string // of the sealer
	sel     string // of the sealer

	Message string
	CV      string // what the chain is
	SrvID   string `yaml:"srv-id"` // whose results are trusted
	T       int64  // the time of sealing

	// The set that the sealer adds: values of fields, empty if it adds none.
	AS  string `yaml:"AS"`
	AMS string `yaml:"AMS"`
	AAR string `yaml:"AAR"`
}

// suite are the cases of one file of the suite, in order.
func suite(t *testing.T, file string) []suiteCase {
	t.Helper()
	folder := os.Getenv("ARC_TEST_SUITE")
	if folder == "" {
		t.Skip("ARC_TEST_SUITE is not set: it names the folder of a clone of " +
			"ValiMail's ARC test suite, github.com/ValiMail/arc_test_suite")
	}
	f, err := os.Open(filepath.Join(folder, "tests", file))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	var all []suiteCase
	for d := yaml.NewDecoder(f); ; {
		var scenario struct {
			Domain, Sel, PrivateKey string
			Records                 zone      `yaml:"txt-records"`
			Tests                   yaml.Node // a mapping that has some keys twice
		}
		if err := d.Decode(&scenario); errors.Is(err, io.EOF) && len(all) > 0 {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		for of := range slices.Chunk(scenario.Tests.Content, 2) {
			c := suiteCase{
				name: of[0].Value, records: scenario.Records,
				key: scenario.PrivateKey, domain: scenario.Domain, sel: scenario.Sel,
			}
			if err := of[1].Decode(&c); err != nil {
				t.Fatal(err)
			}
			c.Message = strings.ReplaceAll(c.Message, "\n", "\r\n")
			all = append(all, c)
		}
	}
}

// noWord is what the suite lacks, up to the step of RFC 8617 5.2.
const noWord = "it has no word for a chain whose seal says fail; this chain fails (RFC 8617 5.2, "

// wrongInSuite are the cases for which the suite does not want what the RFCs say: that the chain
// fails.
var wrongInSuite = map[string]string{
	"cv_fail_i1_as_cv_fail": noWord + "step 2)",
	"cv_fail_i2_as2_fail":   noWord + "step 2)",
	"cv_fail_i2_as1_fail":   noWord + "step 3C)",
	"ams_fields_c_na": "it takes relaxed/relaxed for a missing c=; " +
		"the default is simple/simple (RFC 6376 3.5, RFC 8617 4.1.2)",
	"ams_fields_h_empty": "it takes an empty h=; a signature has to cover From (RFC 6376 5.4 and 6.1.1)",
}

// TestSuiteVerify: our verification says of each chain what the suite says, and so does our seal.
func TestSuiteVerify(t *testing.T) {
	cases := suite(t, "arc-draft-validation-tests.yml")
	for name, why := range wrongInSuite {
		if !slices.ContainsFunc(cases, func(c suiteCase) bool { return c.name == name }) {
			t.Errorf("the suite has no case %s, which is listed because %s", name, why)
		}
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			want, why := status(strings.ToLower(strings.TrimSpace(c.CV))), wrongInSuite[c.name]
			if why != "" {
				if want == failed {
					t.Errorf("the suite wants fail, but it is listed because %s", why)
				}
				want = failed
			}
			got, reason := verified(t, c.records, c.Message, now)
			if got != want {
				t.Errorf("the chain is %q (%s), want %q", got, reason, want)
			}
			set := seal(t, sealer(t, c.records, "firm.example"), c.records, c.Message)
			if want == failed && set.Says == "not ARC-sealed: its chain has failed before" {
				return
			}
			if !strings.Contains(set.Fields, fmt.Sprintf("\r\n cv=%s;", want)) {
				t.Errorf("Seal says %q, want cv=%s", set.Says, want)
			}
			if next, reason := verified(t, c.records, set.Fields+c.Message, now); (next == passed) != (want != failed) {
				t.Errorf("after our seal the chain is %s (%s), and was %s before", next, reason, want)
			}
		})
	}
	t.Logf("%d cases, of which the suite is wrong about %d", len(cases), len(wrongInSuite))
}

// TestSuiteSeal: the sets of the suite verify, and ours say the same. Their signatures differ,
// because the suite chooses the fields that they cover and the order of tags, and because its
// authserv-id is not the signing domain.
func TestSuiteSeal(t *testing.T) {
	cases := suite(t, "arc-draft-sign-tests.yml")
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			fields, body := parsed(t, c.Message)
			set, err := c.sealer(t).Seal(t.Context(), c.records, fields, body, time.Unix(c.T, 0))
			if err != nil {
				t.Fatal(err)
			}
			wanted := c.set()
			if set.Fields == "" || wanted == "" {
				if set.Fields != wanted {
					t.Errorf("Seal says %q and adds %q, want %q", set.Says, set.Fields, wanted)
				}
				return
			}
			if got, want := said(t, set.Fields), said(t, wanted); got != want {
				t.Errorf("Seal adds %s\nwant     %s", got, want)
			}
			c.verify(t, "our", set.Fields)
			c.verify(t, "the suite's", wanted)
		})
	}
	t.Logf("%d cases", len(cases))
}

func (c suiteCase) sealer(t *testing.T) *Sealer {
	t.Helper()
	s, err := New(keyFrom(t, c.domain, c.sel, c.key), []string{c.SrvID})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// set is the set that the suite wants. The file has line ends inside base64, which were not signed.
func (c suiteCase) set() string {
	var b strings.Builder
	unfold := strings.NewReplacer(";\n", ";\r\n ", "\n", "")
	for _, f := range [][2]string{
		{"ARC-Seal", c.AS}, {"ARC-Message-Signature", c.AMS}, {"ARC-Authentication-Results", c.AAR},
	} {
		if value := strings.TrimSpace(f[1]); value != "" {
			b.WriteString(f[0] + ": " + unfold.Replace(value) + "\r\n")
		}
	}
	return b.String()
}

// said is what a set says, but the authserv-id, the covered fields and the signatures.
func said(t *testing.T, set string) string {
	t.Helper()
	fields, _ := parsed(t, set+"\r\n")
	var out []string
	for _, f := range fields[:2] {
		tags, _ := parseTags(valueOf(f))
		for _, name := range []string{"a", "bh", "c", "cv", "d", "i", "s", "t"} {
			out = append(out, name+"="+tags[name])
		}
	}
	results, _ := uncommented(valueOf(fields[2]))
	return strings.Join(append(append(out, results[0]), results[2:]...), "; ")
}

// verify verifies a set on top of the message. The seal of a chain that has failed covers no set
// but its own (RFC 8617 5.1.2).
func (c suiteCase) verify(t *testing.T, whose, set string) {
	t.Helper()
	got, why := verified(t, c.records, set+c.Message, time.Unix(c.T, 0))
	if !strings.Contains(set, "cv=fail;") {
		if got != passed {
			t.Errorf("below %s set the chain is %s (%s), want it valid", whose, got, why)
		}
		return
	}
	f, _ := parsed(t, set+"\r\n")
	alone := chain{sets: map[int][3][]message.Field{1: {{f[2]}, {f[1]}, {f[0]}}}}
	if why := alone.seal(t.Context(), &verifier{dns: c.records}, 1); why != nil {
		t.Errorf("%s seal does not verify over its own set: %v", whose, why)
	}
	if got != failed {
		t.Errorf("below %s set the chain is %s, want it failed", whose, got)
	}
}
