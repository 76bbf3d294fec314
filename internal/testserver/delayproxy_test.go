package testserver

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"
)

// echo is a backend that repeats what it is given, after a greeting.
func echo(t *testing.T, greeting string) string {
	t.Helper()
	return address(Listen(t, func(conn net.Conn) {
		_, _ = io.WriteString(conn, greeting)
		_, _ = io.Copy(conn, conn)
	}))
}

func dialDelayed(t *testing.T, backend string, roundTrip time.Duration) *net.TCPConn {
	t.Helper()
	conn, err := net.Dial("tcp", NewDelayProxy(t, backend, roundTrip).Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return conn.(*net.TCPConn)
}

// TestDelayProxyDelays measures the least time only: a busy machine adds to it.
func TestDelayProxyDelays(t *testing.T) {
	const roundTrip = 40 * time.Millisecond
	start := time.Now()
	conn := dialDelayed(t, echo(t, "hello"), roundTrip)
	trips := func(want int, what string) {
		t.Helper()
		if _, err := io.ReadFull(conn, make([]byte, 5)); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if took := time.Since(start); took < time.Duration(want)*roundTrip {
			t.Errorf("%s came after %v; want %d round trips of %v at least", what, took, want, roundTrip)
		}
	}
	trips(2, "the greeting") // one to connect, one half each for the last of that and for the greeting
	for i, word := range []string{"first", "other"} {
		if _, err := io.WriteString(conn, word); err != nil {
			t.Fatal(err)
		}
		trips(3+i, word)
	}
	if err := conn.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(conn); err != nil || len(rest) != 0 {
		t.Errorf("after the end read %q, %v; want the end", rest, err)
	}
	if took := time.Since(start); took < 5*roundTrip {
		t.Errorf("the end came after %v; want 5 round trips of %v at least", took, roundTrip)
	}
}

// TestDelayProxyKeepsThroughput sends many pieces without waiting: they are on their way together,
// and come in order.
func TestDelayProxyKeepsThroughput(t *testing.T) {
	const roundTrip, pieces = 200 * time.Millisecond, 200
	conn := dialDelayed(t, echo(t, ""), roundTrip)
	var want bytes.Buffer
	start := time.Now()
	go func() {
		for i := range pieces {
			_, _ = conn.Write(bytes.Repeat([]byte{byte(i)}, 32<<10))
		}
		_ = conn.CloseWrite()
	}()
	for i := range pieces {
		want.Write(bytes.Repeat([]byte{byte(i)}, 32<<10))
	}
	got, err := io.ReadAll(conn)
	if err != nil || !bytes.Equal(got, want.Bytes()) {
		t.Errorf("read %d octets, %v; want the %d octets that were sent, in order", len(got), err, want.Len())
	}
	if took := time.Since(start); took > pieces*roundTrip/4 {
		t.Errorf("%d pieces took %v; want them on their way together", pieces, took)
	}
}

func TestDelayProxyPassesReset(t *testing.T) {
	backend := address(Listen(t, func(conn net.Conn) {
		_, _ = io.ReadFull(conn, make([]byte, 4))
		reset(conn.(*net.TCPConn))
	}))
	conn := dialDelayed(t, backend, time.Millisecond)
	if _, err := io.WriteString(conn, "over"); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(conn); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("read %q, %v; want a connection reset", rest, err)
	}
}

func TestDelayProxyToNowhere(t *testing.T) {
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	proxy := NewDelayProxy(t, address(port), time.Millisecond)
	conn, err := net.Dial("tcp", address(proxy.Port))
	if err == nil { // else it was reset before Dial had returned
		defer func() { _ = conn.Close() }()
		_, err = io.ReadAll(conn)
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("%v; want a connection reset: the backend does not listen", err)
	}
}

// TestDelayProxyEnds: the test is over while both sides hold the connection and one floods it.
func TestDelayProxyEnds(t *testing.T) {
	t.Run("flooded", func(t *testing.T) {
		conn := dialDelayed(t, speaker(t, strings.Repeat("x", 1<<20)), time.Millisecond)
		if _, err := io.ReadFull(conn, make([]byte, 1<<10)); err != nil {
			t.Fatal(err)
		}
	})
}
