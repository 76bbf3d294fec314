package forward

import (
	"strings"
	"testing"
)

func TestParsePath(t *testing.T) {
	tests := []struct {
		address, wire string
		utf8          bool
	}{
		{"a@x.example", "a@x.example", false},
		{"a.b+c=d@x-y.example", "a.b+c=d@x-y.example", false},
		{"a@localhost", "a@localhost", false},
		{"a@[192.0.2.1]", "a@[192.0.2.1]", false},
		{"a@[IPv6:2001:db8::1]", "a@[IPv6:2001:db8::1]", false},
		{`"a b"@x.example`, `"a b"@x.example`, false},
		{`"a>\"<@\\b"@x.example`, `"a>\"<@\\b"@x.example`, false},
		{`""@x.example`, `""@x.example`, false},
		{"a@bücher.example", "a@xn--bcher-kva.example", false},
		{"jörg@bücher.example", "jörg@xn--bcher-kva.example", true},
		{"用户@例え.example", "用户@xn--r8jz45g.example", true},
		{"a@under_score.example", "a@under_score.example", false},
		{strings.Repeat("x", 100) + "@x.example", strings.Repeat("x", 100) + "@x.example", false},
	}
	for _, tt := range tests {
		t.Run(tt.address, func(t *testing.T) {
			got, err := parsePath(tt.address)
			if want := (path{tt.address, tt.wire, tt.utf8}); err != nil || got != want {
				t.Errorf("parsePath(%q) = %+v, %v, want %+v", tt.address, got, err, want)
			}
		})
	}
	for _, bad := range []string{
		"", "a", "@x.example", "a@", "a@x..example", "a@.example", "a@x.example.", "a..b@x.example", ".a@x.example", "a.@x.example",
		"a@x.example>\r\nDATA", "a\r\n@x.example", "a b@x.example", "a@x example", "<a@x.example>", "a>@x.example", "a@x.example SIZE=1",
		"a\x00@x.example", "\"a\r\nb\"@x.example", `"a"b"@x.example`, `"a\"@x.example`, "\"a\x7f\"@x.example", "a@-x.example", "a@x-.example",
		"a@[192.0.2.1", "a@[300.0.0.1]", "a@[2001:db8::1]", "a@[IPv6:192.0.2.1]", "a@[IPv6:fe80::1%eth0]", "a\xff@x.example", "a\u0085@x.example",
		"a@x.ex\u2028ample", "a@" + strings.Repeat("x", 64) + ".example", strings.Repeat("x", 250) + "@x.example", "@a.example:b@x.example",
	} {
		if got, err := parsePath(bad); err == nil {
			t.Errorf("parsePath(%q) = %+v, want an error", bad, got)
		}
	}
}
