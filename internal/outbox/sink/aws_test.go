//go:build events_all

package sink

import (
	"crypto/md5" // SQS answers with it, and the library checks it
	"encoding/json"
	"encoding/xml"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"postrider/internal/outbox"
)

// fakeAmazon answers SendMessageBatch of SQS (JSON) and PublishBatch of SNS (forms and XML) as
// their documentation says. There is no server of Amazon's to be had.
type fakeAmazon struct {
	mu     sync.Mutex
	got    []fakeEntry
	broken bool          // takes a half and breaks off
	frozen chan struct{} // closed when it answers again
	refuse string        // the ID of an event that is refused
	queue  string        // the URL that was asked for last
}

type fakeEntry struct {
	ID, MessageBody, MessageGroupID, MessageDeduplicationID string
}

func (f *fakeAmazon) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	frozen := f.frozen
	f.mu.Unlock()
	select {
	case <-frozen:
	case <-r.Context().Done():
		return
	}
	if strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".SendMessageBatch") {
		f.sqs(w, r)
		return
	}
	f.sns(w, r)
}

func (f *fakeAmazon) sqs(w http.ResponseWriter, r *http.Request) {
	var in struct {
		QueueUrl string
		Entries  []struct{ Id, MessageBody, MessageGroupId, MessageDeduplicationId string }
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		panic(http.ErrAbortHandler)
	}
	f.mu.Lock()
	f.queue = in.QueueUrl
	f.mu.Unlock()
	var entries []fakeEntry
	for _, e := range in.Entries {
		entries = append(entries, fakeEntry{e.Id, e.MessageBody, e.MessageGroupId, e.MessageDeduplicationId})
	}
	taken, refused := f.take(entries)
	out := map[string][]map[string]any{"Successful": {}, "Failed": {}}
	for _, e := range taken {
		sum := fmt.Sprintf("%x", md5.Sum([]byte(e.MessageBody)))
		out["Successful"] = append(out["Successful"], map[string]any{
			"Id": e.ID, "MessageId": "m" + e.ID, "MD5OfMessageBody": sum,
		})
	}
	for _, e := range refused {
		out["Failed"] = append(out["Failed"], map[string]any{
			"Id": e.ID, "SenderFault": true, "Code": "InvalidMessageContents", "Message": "odd",
		})
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	_ = json.NewEncoder(w).Encode(out)
}

func (f *fakeAmazon) sns(w http.ResponseWriter, r *http.Request) {
	var entries []fakeEntry
	for i := 1; ; i++ {
		value := func(name string) string {
			return r.FormValue(fmt.Sprintf("PublishBatchRequestEntries.member.%d.%s", i, name))
		}
		if value("Id") == "" {
			break
		}
		entries = append(entries, fakeEntry{
			value("Id"), value("Message"), value("MessageGroupId"), value("MessageDeduplicationId"),
		})
	}
	type member struct {
		ID          string `xml:"Id"`
		MessageID   string `xml:"MessageId,omitempty"`
		Code        string `xml:",omitempty"`
		Message     string `xml:",omitempty"`
		SenderFault bool
	}
	var out struct {
		XMLName    xml.Name `xml:"PublishBatchResponse"`
		Successful []member `xml:"PublishBatchResult>Successful>member"`
		Failed     []member `xml:"PublishBatchResult>Failed>member"`
	}
	taken, refused := f.take(entries)
	for _, e := range taken {
		out.Successful = append(out.Successful, member{ID: e.ID, MessageID: "m" + e.ID})
	}
	for _, e := range refused {
		out.Failed = append(out.Failed, member{ID: e.ID, Code: "InvalidParameter", Message: "odd", SenderFault: true})
	}
	w.Header().Set("Content-Type", "text/xml")
	_ = xml.NewEncoder(w).Encode(out)
}

// take stores entries. A broken server stores a half of them, and does not say so.
func (f *fakeAmazon) take(entries []fakeEntry) (taken, refused []fakeEntry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.broken {
		f.got = append(f.got, entries[:len(entries)/2]...)
		panic(http.ErrAbortHandler)
	}
	for _, e := range entries {
		if f.refuse != "" && idOf(e) == f.refuse {
			refused = append(refused, e)
			continue
		}
		taken = append(taken, e)
	}
	f.got = append(f.got, taken...)
	return taken, refused
}

func idOf(e fakeEntry) string {
	return strings.TrimSuffix(strings.TrimPrefix(e.MessageBody, `{"id":"`), `"}`)
}

func (f *fakeAmazon) setBroken(broken bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.broken = broken
}

func (f *fakeAmazon) freeze() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.frozen = make(chan struct{})
}

func (f *fakeAmazon) thaw() {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.frozen)
}

func (f *fakeAmazon) ids(testing.TB) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var ids []string
	for _, e := range f.got {
		ids = append(ids, idOf(e))
	}
	return ids
}

// amazonBroker starts a fake, whose address is the end of url.
func amazonBroker(url string) func(testing.TB) broker {
	return func(t testing.TB) broker {
		f, at := newFakeAmazon(t)
		return broker{
			url: url + at, kill: func() { f.setBroken(true) }, start: func(testing.TB) { f.setBroken(false) },
			freeze: f.freeze, thaw: f.thaw, prepare: func(testing.TB) {}, ids: f.ids,
		}
	}
}

func newFakeAmazon(t testing.TB) (*fakeAmazon, string) {
	f := &fakeAmazon{frozen: make(chan struct{})}
	close(f.frozen)
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_EC2_METADATA_DISABLED": "true",
		"AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
	} {
		t.(*testing.T).Setenv(name, value)
	}
	return f, server.URL
}

const (
	queueURL = "awssqs://sqs.eu-west-1.amazonaws.com/123456789012/events%s?region=eu-west-1&endpoint="
	topicURL = "awssns:///arn:aws:sns:eu-west-1:123456789012:events%s?region=eu-west-1&endpoint="
)

// TestAmazon checks what a FIFO queue and topic get beside the event, and one event that is
// refused.
func TestAmazon(t *testing.T) {
	for name, url := range map[string]string{"SQS": queueURL, "SNS": topicURL} {
		for _, fifo := range []string{"", ".fifo"} {
			t.Run(name+fifo, func(t *testing.T) {
				f, at := newFakeAmazon(t)
				f.refuse = "7"
				errs := openAt(t, fmt.Sprintf(url, fifo)+at, 10*time.Second).Publish(t.Context(), messages(15))
				for i, err := range errs {
					if want := i == 7; (err != nil) != want || refused(err) != want {
						t.Errorf("event %d: %v, want only the 7 to be refused", i, err)
					}
				}
				if len(f.got) != 14 {
					t.Fatalf("%d events are there, want 14", len(f.got))
				}
				want := "http://sqs.eu-west-1.amazonaws.com/123456789012/events" + fifo
				if name == "SQS" && f.queue != want {
					t.Errorf("the queue is %q, want %q, by the scheme of the endpoint", f.queue, want)
				}
				group, id := "", ""
				if fifo != "" {
					group, id = "task 8", "8"
				}
				if e := f.got[7]; e.MessageGroupID != group || e.MessageDeduplicationID != id {
					t.Errorf("the group is %q and the ID %q, want %q and %q",
						e.MessageGroupID, e.MessageDeduplicationID, group, id)
				}
			})
		}
	}
}

// TestAmazonRequestRefused checks what the error of a whole request means for its only event. A
// parameter may be that of the topic.
func TestAmazonRequestRefused(t *testing.T) {
	for code, want := range map[string]bool{
		"InvalidParameter": false, "InvalidParameterValue": false,
		"InvalidMessageContents": true, "BatchRequestTooLong": true,
	} {
		t.Run(code, func(t *testing.T) {
			newFakeAmazon(t) // for its credentials
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/xml")
				w.WriteHeader(http.StatusBadRequest)
				_, _ = fmt.Fprintf(w, "<ErrorResponse><Error><Type>Sender</Type><Code>%s</Code>"+
					"<Message>odd</Message></Error></ErrorResponse>", code)
			}))
			t.Cleanup(server.Close)
			p := openAt(t, fmt.Sprintf(topicURL, "")+server.URL, 10*time.Second)
			if err := p.Publish(t.Context(), messages(1))[0]; err == nil || refused(err) != want {
				t.Errorf("it is refused: %t (%v), want %t", refused(err), err, want)
			}
		})
	}
}

// TestAmazonRequests checks that a request is no larger than allowed.
func TestAmazonRequests(t *testing.T) {
	long := outbox.Message{Body: make([]byte, awsOctets)}
	for _, tt := range []struct {
		batch []outbox.Message
		want  int
	}{{messages(3), 3}, {messages(25), 10}, {[]outbox.Message{long, long}, 1}, {append(messages(2), long), 2}} {
		if got := len(firstRequest(tt.batch)); got != tt.want {
			t.Errorf("%d of %d are sent, want %d", got, len(tt.batch), tt.want)
		}
	}
}
