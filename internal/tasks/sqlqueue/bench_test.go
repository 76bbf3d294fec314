package sqlqueue

import (
	"sync"
	"testing"
	"time"

	"postrider/internal/tasks"
)

// BenchmarkForward processes messages as a pass does: claims of eight, and four senders that mark
// each as `sending` and finish it.
func BenchmarkForward(b *testing.B) {
	for _, kind := range []string{"sqlite", "mariadb", "mysql"} {
		b.Run(kind, func(b *testing.B) {
			r := newRegistry(b, kind)
			q := New(r.DB)
			inboxID := r.inbox(b, "bench@example.com")
			folderID := r.folder(b, inboxID, "INBOX", 1)
			for from := 0; from < b.N; from += 100 {
				page := tasks.Page{InboxID: inboxID, FolderID: folderID, Epoch: 1, Dedupe: tasks.DedupeInbox}
				page.Entries = entries(uint32(from+1), min(100, b.N-from))
				if _, err := q.Register(b.Context(), page); err != nil {
					b.Fatal(err)
				}
			}
			b.ResetTimer()
			claims := make(chan tasks.Claim)
			var senders sync.WaitGroup
			for range 4 {
				senders.Go(func() {
					for c := range claims {
						forwardOne(b, q, c)
					}
				})
			}
			want := tasks.Want{InboxID: inboxID, Max: 8, Lease: time.Hour, Worker: "bench", MaxLostLeases: 3}
			for done := 0; done < b.N; {
				got, err := q.Receive(b.Context(), want)
				if err != nil || len(got) == 0 {
					b.Fatalf("claimed %d after %d of %d: %v", len(got), done, b.N, err)
				}
				for _, c := range got {
					claims <- c
				}
				done += len(got)
			}
			close(claims)
			senders.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
		})
	}
}

func forwardOne(b *testing.B, q *Queue, c tasks.Claim) {
	ds := []tasks.Delivery{{Recipient: "desk@firm.example", Status: tasks.Sending, Attempts: 1}}
	if err := q.Sending(b.Context(), c, tasks.Form{Mode: "redirect"}, ds); err != nil {
		b.Error(err)
	}
	ds[0].Status, ds[0].Code, ds[0].Reply = tasks.Delivered, 250, "2.0.0 Ok: queued as 4F2B1"
	if err := q.Finish(b.Context(), c.Receipt, tasks.Result{Status: tasks.Forwarded, Deliveries: ds}); err != nil {
		b.Error(err)
	}
}
