// Command release makes the parts of a release that no other tool makes here: manual pages,
// completions, archives, the list of components, the licences and the trusted certificates of the
// container image. scripts/package runs it.
//
// The same input gives the same octets: times are those of SOURCE_DATE_EPOCH, names are sorted, and
// nothing is asked of the network.
package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"
)

const usage = `usage: release man DIR VERSION
       release completions DIR
       release sbom BINARY VERSION FILE
       release licenses BINARY FILE
       release roots FILE
       release archive DIR FILE.tar.gz|FILE.zip`

func main() {
	if err := run(os.Args[1:]); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	at, err := sourceDate(os.Getenv("SOURCE_DATE_EPOCH"))
	if err != nil {
		return err
	}
	arity := map[string]int{"man": 3, "completions": 2, "sbom": 4, "licenses": 3, "roots": 2, "archive": 3}
	if len(args) == 0 || arity[args[0]] != len(args) {
		return errors.New(usage)
	}
	switch args[0] {
	case "man":
		return writeManual(args[1], args[2], at)
	case "completions":
		return writeCompletions(args[1])
	case "sbom":
		return writeSBOM(args[1], args[2], args[3], at)
	case "licenses":
		return writeLicenses(args[1], args[2])
	case "roots":
		return writeRoots(args[1])
	}
	return writeArchive(args[1], args[2], at)
}

// sourceDate is the time of all that is made: SOURCE_DATE_EPOCH, in seconds.
func sourceDate(epoch string) (time.Time, error) {
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return time.Time{}, errors.New("SOURCE_DATE_EPOCH is not a number of seconds")
	}
	return time.Unix(seconds, 0).UTC(), nil
}
