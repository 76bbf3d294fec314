//go:build events_all

package sink

import (
	"context"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sns"
	snstypes "github.com/aws/aws-sdk-go-v2/service/sns/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"postrider/internal/outbox"
)

func sendSQS(ctx context.Context, client *sqs.Client, queue string, fifo bool, batch []outbox.Message) (answer, error) {
	in := &sqs.SendMessageBatchInput{QueueUrl: &queue}
	for i, m := range batch {
		entry := sqstypes.SendMessageBatchRequestEntry{
			Id: aws.String(strconv.Itoa(i)), MessageBody: aws.String(string(m.Body)),
		}
		if fifo {
			entry.MessageGroupId, entry.MessageDeduplicationId = aws.String(m.Key), aws.String(m.ID)
		}
		in.Entries = append(in.Entries, entry)
	}
	out, err := client.SendMessageBatch(ctx, in)
	if err != nil {
		return answer{}, err
	}
	said := answer{map[int]entryError{}, map[int]bool{}}
	for _, e := range out.Failed {
		said.failed[indexOf(e.Id)] = entryError{aws.ToString(e.Code), aws.ToString(e.Message), e.SenderFault}
	}
	for _, e := range out.Successful {
		said.taken[indexOf(e.Id)] = true
	}
	return said, nil
}

func sendSNS(ctx context.Context, client *sns.Client, topic string, fifo bool, batch []outbox.Message) (answer, error) {
	in := &sns.PublishBatchInput{TopicArn: &topic}
	for i, m := range batch {
		entry := snstypes.PublishBatchRequestEntry{Id: aws.String(strconv.Itoa(i)), Message: aws.String(string(m.Body))}
		if fifo {
			entry.MessageGroupId, entry.MessageDeduplicationId = aws.String(m.Key), aws.String(m.ID)
		}
		in.PublishBatchRequestEntries = append(in.PublishBatchRequestEntries, entry)
	}
	out, err := client.PublishBatch(ctx, in)
	if err != nil {
		return answer{}, err
	}
	said := answer{map[int]entryError{}, map[int]bool{}}
	for _, e := range out.Failed {
		said.failed[indexOf(e.Id)] = entryError{aws.ToString(e.Code), aws.ToString(e.Message), e.SenderFault}
	}
	for _, e := range out.Successful {
		said.taken[indexOf(e.Id)] = true
	}
	return said, nil
}

// indexOf is -1 for an id that was not sent.
func indexOf(id *string) int {
	i, err := strconv.Atoi(aws.ToString(id))
	if err != nil {
		return -1
	}
	return i
}
