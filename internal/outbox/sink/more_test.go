//go:build events_all

package sink

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"postrider/internal/testserver"
)

func moreRunning() map[string]func(testing.TB) broker {
	return map[string]func(testing.TB) broker{
		"Kafka": kafkaBroker,
		"SQS":   amazonBroker(fmt.Sprintf(queueURL, "")),
		"SNS":   amazonBroker(fmt.Sprintf(topicURL, "")),
	}
}

func kafkaBroker(t testing.TB) broker {
	s := testserver.Kafka(t, "others")
	const partitions = 4
	return broker{
		url: "kafka://" + s.Address + "/events", kill: s.Kill, start: s.Start, freeze: s.Freeze, thaw: s.Thaw,
		prepare: func(t testing.TB) {
			client := must[*kgo.Client](t)(kgo.NewClient(kgo.SeedBrokers(s.Address)))
			defer client.Close()
			topic := kmsg.NewCreateTopicsRequestTopic()
			topic.Topic, topic.NumPartitions, topic.ReplicationFactor = "events", partitions, 1
			create := kmsg.NewPtrCreateTopicsRequest()
			create.Topics = append(create.Topics, topic)
			must[kmsg.Response](t)(client.Request(t.Context(), create))
		},
		ids: func(t testing.TB) []string {
			client := must[*kgo.Client](t)(kgo.NewClient(kgo.SeedBrokers(s.Address), kgo.ConsumeTopics("events"),
				kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.RecordPartitioner(kgo.ManualPartitioner())))
			defer client.Close()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			for i := range int32(partitions) { // the last one of each
				must[*kgo.Record](t)(client.ProduceSync(ctx, &kgo.Record{Topic: "events", Partition: i}).First())
			}
			var ids []string
			for ends := 0; ends < partitions; {
				fetches := client.PollFetches(ctx)
				if ctx.Err() != nil {
					t.Fatalf("the broker has %q, and does not come to the end", ids)
				}
				for record := range fetches.RecordsAll() {
					if len(record.Headers) == 0 {
						ends++
						continue
					}
					ids = append(ids, string(record.Headers[1].Value))
				}
			}
			return ids
		},
	}
}
