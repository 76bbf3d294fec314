//go:build events_all

package sink

func moreOpeners() map[string]opener {
	return map[string]opener{"kafka": openKafka, "awssqs": openSQS, "awssns": openSNS}
}
