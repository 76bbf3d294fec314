package cmd

import (
	"context"
	"time"

	"postrider/internal/measure"
	"postrider/internal/pass"
)

// ofRelay is where the relay's certificate stands among those of the inboxes.
const ofRelay = 0

// certificateOf notes the certificate of an inbox's server, or of the relay, for keepMeasures.
func (s *services) certificateOf(inboxID int64) func(until time.Time) {
	return func(until time.Time) { s.meter.Certificate(inboxID, until) }
}

// keepPass records a pass, and what it measured.
func (s *services) keepPass(ctx context.Context, r pass.Report) {
	s.meter.PassEnded(time.Duration(r.DurationMS)*time.Millisecond, relayTook(r))
	s.keepMeasures(ctx)
}

// keepMeasures records what was measured, and writes metrics.textfile. It has ten seconds, also
// when the pass was stopped.
func (s *services) keepMeasures(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := s.measures.Keep(ctx, s.meter); err != nil && s.news(ctx, "measures") {
		s.log.Warn("could not record the counters of this pass", "error", err)
	}
	if err := s.writeTextFile(ctx); err != nil && s.news(ctx, "textfile") {
		s.log.Warn("metrics.textfile could not be written; it is tried again", "error", err)
	}
}

// relayTook says whether the relay took mail in a pass; nil when it was not asked to.
func relayTook(r pass.Report) *bool {
	if !r.RelayTried {
		return nil
	}
	return new(r.RelayError == "")
}

// measured is what all passes measured. A server without TLS shows no certificate; one that was
// seen before TLS was turned off does not count.
func (s *services) measured(ctx context.Context) (measure.Numbers, error) {
	n, err := s.measures.Read(ctx)
	if s.cfg.SMTP.Security == "none" {
		delete(n.Certificates, ofRelay)
	}
	return n, err
}
