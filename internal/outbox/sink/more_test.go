//go:build events_all

package sink

import (
	"context"
	"fmt"
	"testing"

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
	return broker{
		url: "kafka://" + s.Address + "/events", kill: s.Kill, start: s.Start, freeze: s.Freeze, thaw: s.Thaw,
		prepare: func(t testing.TB) {
			client := must[*kgo.Client](t)(kgo.NewClient(kgo.SeedBrokers(s.Address)))
			defer client.Close()
			topic := kmsg.NewCreateTopicsRequestTopic()
			topic.Topic, topic.NumPartitions, topic.ReplicationFactor = "events", 4, 1
			create := kmsg.NewPtrCreateTopicsRequest()
			create.Topics = append(create.Topics, topic)
			must[kmsg.Response](t)(client.Request(t.Context(), create))
		},
		ids: func(t testing.TB) []string {
			client := must[*kgo.Client](t)(kgo.NewClient(kgo.SeedBrokers(s.Address), kgo.ConsumeTopics("events"),
				kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())))
			defer client.Close()
			var ids []string
			for {
				ctx, cancel := context.WithTimeout(t.Context(), idle)
				fetches := client.PollFetches(ctx)
				cancel()
				for record := range fetches.RecordsAll() {
					ids = append(ids, string(record.Headers[1].Value))
				}
				if fetches.NumRecords() == 0 {
					return ids
				}
			}
		},
	}
}
