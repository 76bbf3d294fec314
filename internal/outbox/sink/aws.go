//go:build events_all

package sink

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/sns"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/logging"

	"postrider/internal/outbox"
)

// What one request may have.
const (
	awsEntries = 10
	awsOctets  = 256 << 10
)

// amazon sends batches to a queue of SQS or a topic of SNS. To a FIFO one it gives the key as the
// group, which keeps the order, and the event's ID, by which repeats within five minutes are
// dropped.
type amazon struct {
	name string // for errors
	fifo bool
	send func(ctx context.Context, batch []outbox.Message) (answer, error)
}

// answer is what became of the messages of a request, by their place in it.
type answer struct {
	failed map[int]entryError
	taken  map[int]bool
}

// entryError is why the service did not take one message of a batch.
type entryError struct {
	code, message string
	sender        bool // the fault of the message, as the service says
}

func openSQS(set Settings) (outbox.Publisher, error) {
	at, err := parse(set.URL, "443", "region", "endpoint")
	if err != nil {
		return nil, err
	}
	host := strings.TrimSuffix(at.hosts[0], ":443")
	if at.path == "" {
		return nil, fmt.Errorf("the url %s has no queue; "+
			"write awssqs://sqs.REGION.amazonaws.com/ACCOUNT/QUEUE?region=REGION", at.name())
	}
	p := &amazon{name: "awssqs://" + host + "/" + at.path, fifo: strings.HasSuffix(at.path, ".fifo")}
	conf, err := awsConfig(set, at)
	if err != nil {
		return nil, err
	}
	client := sqs.NewFromConfig(conf, func(o *sqs.Options) { o.BaseEndpoint = conf.BaseEndpoint })
	queue := "https://" + host + "/" + at.path
	if strings.HasPrefix(at.query.Get("endpoint"), "http://") { // servers that are not Amazon's compare the whole URL
		queue = "http://" + host + "/" + at.path
	}
	p.send = func(ctx context.Context, batch []outbox.Message) (answer, error) {
		return sendSQS(ctx, client, queue, p.fifo, batch)
	}
	return p, nil
}

func openSNS(set Settings) (outbox.Publisher, error) {
	at, err := parse(set.URL, "443", "region", "endpoint")
	if err != nil {
		return nil, err
	}
	topic := at.path
	if !strings.HasPrefix(topic, "arn:") {
		return nil, errors.New("the url awssns://... has no topic; " +
			"write awssns:///arn:aws:sns:REGION:ACCOUNT:TOPIC?region=REGION")
	}
	p := &amazon{name: "awssns:///" + topic, fifo: strings.HasSuffix(topic, ".fifo")}
	conf, err := awsConfig(set, at)
	if err != nil {
		return nil, err
	}
	client := sns.NewFromConfig(conf, func(o *sns.Options) { o.BaseEndpoint = conf.BaseEndpoint })
	p.send = func(ctx context.Context, batch []outbox.Message) (answer, error) {
		return sendSNS(ctx, client, topic, p.fifo, batch)
	}
	return p, nil
}

// awsConfig takes credentials from where Amazon's tools take them: the environment, ~/.aws, the
// role of the instance or the container.
func awsConfig(set Settings, at address) (aws.Config, error) {
	client := awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
		t.TLSClientConfig = tlsConfig(set)
	})
	options := []func(*config.LoadOptions) error{
		config.WithHTTPClient(client), config.WithAppID(set.Agent), config.WithLogger(logging.Nop{}),
	}
	if region := at.query.Get("region"); region != "" {
		options = append(options, config.WithRegion(region))
	}
	ctx, cancel := context.WithTimeout(context.Background(), set.Timeout)
	defer cancel()
	conf, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return conf, fmt.Errorf("read the settings of Amazon's tools for %s://...: %w", at.scheme, err)
	}
	if conf.Region == "" {
		return conf, fmt.Errorf("the url %s://... has no region; add ?region=REGION", at.scheme)
	}
	if endpoint := at.query.Get("endpoint"); endpoint != "" {
		if u, err := url.Parse(endpoint); err != nil || u.Host == "" || u.User != nil {
			return conf, fmt.Errorf("the url %s://... has an endpoint that is not a URL", at.scheme)
		}
		conf.BaseEndpoint = aws.String(endpoint)
	}
	return conf, nil
}

func (p *amazon) Publish(ctx context.Context, batch []outbox.Message) []error {
	var errs []error
	for len(errs) < len(batch) {
		some := firstRequest(batch[len(errs):])
		answer, err := p.send(ctx, some)
		for i := range some {
			errs = append(errs, p.judge(ctx, answer.failed[i], answer.taken[i], err, len(some) == 1))
		}
		if last := errs[len(errs)-1]; err != nil && !refused(last) {
			return append(errs, all(len(batch)-len(errs), last)...)
		}
	}
	return errs
}

// firstRequest returns what fits into one request, at least one message.
func firstRequest(batch []outbox.Message) []outbox.Message {
	octets := 0
	for i, m := range batch {
		octets += len(m.Body)
		if i > 0 && (i == awsEntries || octets > awsOctets) {
			return batch[:i]
		}
	}
	return batch
}

func (p *amazon) judge(ctx context.Context, failed entryError, taken bool, err error, alone bool) error {
	var api smithy.APIError
	switch {
	case err != nil:
		said := fmt.Errorf("send to %s: %w", p.name, because(ctx, err))
		if errors.As(err, &api) && alone && aboutContent(api.ErrorCode()) {
			return &outbox.Refused{Err: said}
		}
		return said
	case failed.code != "":
		said := fmt.Errorf("send to %s: %s: %s", p.name, failed.code, failed.message)
		if failed.sender && (aboutContent(failed.code) || aboutParameter(failed.code)) {
			return &outbox.Refused{Err: said}
		}
		return said
	case !taken:
		return fmt.Errorf("send to %s: the answer does not name the event", p.name)
	}
	return nil
}

// aboutContent knows the codes of errors that another try would meet again.
func aboutContent(code string) bool {
	switch code {
	case "InvalidMessageContents", "BatchRequestTooLong", "AWS.SimpleQueueService.BatchRequestTooLong":
		return true
	}
	return false
}

// aboutParameter knows the codes that mean the message in the error of an entry. In the error of a
// request they may mean the topic or the queue.
func aboutParameter(code string) bool {
	return code == "InvalidParameterValue" || code == "InvalidParameter"
}

func (p *amazon) Close(context.Context) error { return nil }
