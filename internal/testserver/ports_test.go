package testserver

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
)

// ownPorts are ports that are given back after the test.
func ownPorts(t *testing.T) *portBlocks {
	p := &portBlocks{}
	t.Cleanup(func() {
		for _, g := range p.guards {
			_ = g.Close()
		}
	})
	return p
}

// TestFreePorts: a server that gets the same port twice does not start.
func TestFreePorts(t *testing.T) {
	p := ownPorts(t)
	for _, n := range []int{1, 100, 3 * blockSize} {
		found, err := p.free(n)
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(found)
		if got := len(slices.Compact(found)); got != n {
			t.Errorf("of %d ports only %d are different", n, got)
		}
	}
}

// TestFreePortsOnce: a port that nothing listens on may be that of a server that restarts.
func TestFreePortsOnce(t *testing.T) {
	p, given := ownPorts(t), map[int]bool{}
	for range 3 * blockSize {
		found, err := p.free(1)
		if err != nil {
			t.Fatal(err)
		}
		if given[found[0]] {
			t.Fatalf("port %d was given twice", found[0])
		}
		given[found[0]] = true
	}
}

// TestFreePortsWhileStarting: a port that was found is free at once, also while processes are
// started.
func TestFreePortsWhileStarting(t *testing.T) {
	p, directory := ownPorts(t), t.TempDir()
	done := make(chan struct{})
	var starting sync.WaitGroup
	for range 3 {
		starting.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					_ = (&exec.Cmd{Path: directory}).Run() // fails at exec
				}
			}
		})
	}
	defer starting.Wait()
	defer close(done)
	for range 2000 {
		found, err := p.free(1)
		if err != nil {
			t.Fatal(err)
		}
		ln, err := net.Listen("tcp", address(found[0]))
		if err != nil {
			t.Fatal(err)
		}
		_ = ln.Close()
	}
}

// TestFreePortsOfProcesses: no process is given a port of another one, also while nothing listens
// on it yet.
func TestFreePortsOfProcesses(t *testing.T) {
	const name = "POSTRIDER_TEST_PORTS"
	if os.Getenv(name) != "" {
		found, err := freePorts(blockSize / 2)
		fmt.Println("PORTS", found, err)
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n') // the block is this process's until then
		os.Exit(0)
	}
	owner := map[string]int{}
	for i := range 3 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestFreePortsOfProcesses$")
		cmd.Env = append(os.Environ(), name+"=1")
		stdin, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = stdin.Close()
			_ = cmd.Wait()
		})
		line := ""
		for lines := bufio.NewScanner(stdout); !strings.HasPrefix(line, "PORTS") && lines.Scan(); {
			line = lines.Text()
		}
		list, ok := strings.CutSuffix(strings.TrimPrefix(line, "PORTS ["), "] <nil>")
		if !ok {
			t.Fatalf("process %d prints %q, want ports", i, line)
		}
		for _, port := range strings.Fields(list) {
			if other, taken := owner[port]; taken {
				t.Errorf("the processes %d and %d have both port %s", other, i, port)
			}
			owner[port] = i
		}
	}
	if want := 3 * blockSize / 2; len(owner) != want {
		t.Errorf("three processes have %d ports, want %d", len(owner), want)
	}
}
