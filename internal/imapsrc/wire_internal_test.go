package imapsrc

import (
	"errors"
	"net"
	"os"
	"testing"
	"time"
)

// The library reads again after an error. A read that timed out once must fail forever.
func TestWireFailsForGood(t *testing.T) {
	near, far := net.Pipe()
	defer func() { _ = far.Close() }()
	w := newWire(near, 10*time.Millisecond).newReader()
	defer w.kill()
	w.begin(100, time.Minute)
	if _, err := w.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("Read from a silent server = %v; want os.ErrDeadlineExceeded", err)
	}
	written := make(chan struct{})
	go func() {
		defer close(written)
		_, _ = far.Write([]byte("x"))
	}()
	w.begin(100, time.Minute)
	if n, err := w.Read(make([]byte, 1)); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Read after that = %d, %v; want the same error again", n, err)
	}
	w.kill()
	_ = far.Close()
	<-written
}

func TestPlainExpunge(t *testing.T) {
	for line, want := range map[string]bool{
		"T1 EXPUNGE\r\n": true, "T1 NOOP\r\nT2 expunge\r\n": true,
		"T1 UID EXPUNGE 4\r\n": false, "T1 SELECT EXPUNGE\r\n": false, "": false,
	} {
		if got := plainExpunge([]byte(line)); got != want {
			t.Errorf("%q is one: %v, want %v", line, got, want)
		}
	}
}
