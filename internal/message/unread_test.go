package message

import (
	"reflect"
	"testing"
)

// TestInvalidContentType: a part with an invalid type is text/plain (RFC 2045 5.2).
func TestInvalidContentType(t *testing.T) {
	for _, field := range []string{
		"text", "html", `"text/plain"`, `"text/plain"; charset=utf-8`, "text / plain; charset=utf-8", "text/", "/plain", "multipart; boundary=x",
	} {
		want := Content{Text: "the hearing"}
		if got := parse(t, "Content-Type: "+field+"\r\n\r\nthe hearing\r\n").Content(t.Context()); !reflect.DeepEqual(got, want) {
			t.Errorf("Content-Type: %s: the content is %+v, want %+v", field, got, want)
		}
	}
}
