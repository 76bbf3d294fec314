package forward

import "postrider/internal/address"

// path is a forward-path or reverse-path.
type path struct {
	name string // as the caller wrote it
	wire string // as it goes into the command, without angle brackets
	utf8 bool   // it cannot be said without SMTPUTF8 (RFC 6531 3.3)
}

// parsePath checks an address, so that nothing in it can end the path or the command.
func parsePath(s string) (path, error) {
	a, err := address.Parse(s)
	return path{name: a.Text, wire: a.Wire, utf8: a.UTF8}, err
}

// parseReversePath takes the null reverse-path, too.
func parseReversePath(s string) (path, error) {
	if s == "" {
		return path{}, nil
	}
	return parsePath(s)
}
