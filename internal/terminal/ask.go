package terminal

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Ask asks a question and returns the answer without spaces around it. An empty answer is the
// proposal. The end of the input is ErrNoAnswer.
func Ask(in io.Reader, out io.Writer, question, proposal string) (string, error) {
	if proposal != "" {
		question += " [" + proposal + "]"
	}
	_, _ = fmt.Fprint(out, question+": ")
	line, err := bufio.NewReader(in).ReadString('\n')
	switch {
	case errors.Is(err, io.EOF):
		_, _ = fmt.Fprintln(out)
		return "", ErrNoAnswer
	case err != nil:
		return "", fmt.Errorf("read the answer: %w", err)
	}
	return cmp.Or(strings.TrimSpace(line), proposal), nil
}
