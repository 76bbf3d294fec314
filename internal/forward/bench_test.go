package forward

import (
	"strings"
	"sync/atomic"
	"testing"

	"postrider/internal/testserver/smtpsink"
)

// BenchmarkSend sends messages of 4 KiB over four connections.
func BenchmarkSend(b *testing.B) {
	s, err := smtpsink.Start(smtpsink.Options{Extensions: []string{"SIZE", "8BITMIME", "PIPELINING"}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(s.Close)
	r := relayOn(b, s.Port(), func(c *Config) { c.Connections = 4 })
	c := content(b, "Subject: x\r\n\r\n"+strings.Repeat(strings.Repeat("x", 62)+"\r\n", 64))
	var sent atomic.Int64
	b.SetParallelism(4)
	b.SetBytes(c.Size())
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if res, err := send(b, r, c, "a@x.example"); err != nil || res.Outcomes[0].Status != Accepted {
				b.Fatal(res, err)
			}
			sent.Add(1)
		}
	})
	b.ReportMetric(float64(sent.Load())/b.Elapsed().Seconds(), "msgs/s")
}
