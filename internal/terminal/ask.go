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
	answer, err := ask(in, out, question+": ")
	return cmp.Or(answer, proposal), err
}

// Confirm asks a question and reports whether the answer is yes. An empty answer is byDefault; the
// end of the input is no.
func Confirm(in io.Reader, out io.Writer, question string, byDefault bool) (bool, error) {
	choice := " [y/N] "
	if byDefault {
		choice = " [Y/n] "
	}
	answer, err := ask(in, out, question+choice)
	if errors.Is(err, ErrNoAnswer) {
		return false, nil
	}
	answer = strings.ToLower(answer)
	return err == nil && (answer == "y" || answer == "yes" || answer == "" && byDefault), err
}

func ask(in io.Reader, out io.Writer, question string) (answer string, _ error) {
	_, _ = fmt.Fprint(out, question)
	line, err := bufio.NewReader(in).ReadString('\n')
	switch {
	case errors.Is(err, io.EOF):
		_, _ = fmt.Fprintln(out)
		return "", ErrNoAnswer
	case err != nil:
		return "", fmt.Errorf("read the answer: %w", err)
	}
	return strings.TrimSpace(line), nil
}
