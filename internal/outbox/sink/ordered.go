package sink

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"

	"postrider/internal/outbox"
)

// ordered keeps messages of the same key in order, for publishers that do not: it hands on rounds
// in which no key is twice, one after the other.
type ordered struct {
	next outbox.Publisher
	turn chan struct{} // holds one token, for the only one who publishes
}

func newOrdered(next outbox.Publisher) *ordered {
	return &ordered{next: next, turn: make(chan struct{}, 1)}
}

// Publish implements outbox.Publisher.
func (o *ordered) Publish(ctx context.Context, batch []outbox.Message) []error {
	select {
	case o.turn <- struct{}{}:
		defer func() { <-o.turn }()
	case <-ctx.Done():
		return all(len(batch), context.Cause(ctx))
	}
	var errs []error
	for len(errs) < len(batch) {
		round := firstRound(batch[len(errs):])
		errs = append(errs, explained(o.next.Publish(ctx, round))...)
		for _, err := range errs {
			if err != nil && !refused(err) {
				rest := fmt.Errorf("not sent, because one before it failed: %w", err)
				return append(errs, all(len(batch)-len(errs), rest)...)
			}
		}
	}
	return errs
}

// explained adds the fix to errors about an untrusted certificate and a port without TLS.
func explained(errs []error) []error {
	for i, err := range errs {
		_, noTLS := errors.AsType[tls.RecordHeaderError](err)
		if noTLS || errors.Is(err, http.ErrSchemeMismatch) {
			errs[i] = fmt.Errorf("%w; there is no TLS on this port: correct the port in url, "+
				"or its scheme if events may be sent unencrypted", err)
		}
		if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
			errs[i] = fmt.Errorf("%w; name a file with the certificate of its issuer in ca_file", err)
		}
	}
	return errs
}

// firstRound returns the messages up to the first one whose key was there before.
func firstRound(batch []outbox.Message) []outbox.Message {
	seen := map[string]bool{}
	for i, m := range batch {
		if seen[m.Key] {
			return batch[:i]
		}
		seen[m.Key] = true
	}
	return batch
}

// Close closes the connections when no batch is under way. When ctx ends before, they stay open.
func (o *ordered) Close(ctx context.Context) error {
	select {
	case o.turn <- struct{}{}:
		defer func() { <-o.turn }()
		return o.next.Close(ctx)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
