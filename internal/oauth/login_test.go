package oauth

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/oauth2"
)

// says makes a client of a function that answers.
type says func(*http.Request) (code int, body string)

func (f says) RoundTrip(r *http.Request) (*http.Response, error) {
	code, body := f(r)
	return &http.Response{
		StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(body)), Request: r,
	}, nil
}

// TestDevice has the answers of providers at the token endpoint, and when it is asked.
func TestDevice(t *testing.T) {
	const (
		token       = `{"access_token":"a1","refresh_token":"r1","token_type":"Bearer"}`
		pending     = `{"error":"authorization_pending"}`
		slowDown    = `{"error":"slow_down"}`
		unavailable = `{"error":"temporarily_unavailable"}`
	)
	type answer struct {
		code int
		body string
	}
	for _, tt := range []struct {
		name     string
		interval int
		answers  []answer
		asked    []int // seconds after the code was shown
		says     string
	}{
		{"no interval", 0, []answer{{200, token}}, []int{5}, ""},
		{"an interval below 0", -1, []answer{{400, pending}, {200, token}}, []int{5, 10}, ""},
		{"a huge interval", 1 << 40, []answer{{200, token}}, []int{5}, ""},
		{"trouble", 5, []answer{{503, unavailable}, {502, "<html>"}, {200, token}}, []int{5, 15, 30}, ""},
		{"trouble after slow_down", 5, []answer{{400, slowDown}, {503, "busy"}, {200, token}}, []int{5, 15, 25}, ""},
		{"refused", 5, []answer{{400, `{"error":"access_denied"}`}}, []int{5}, "access_denied"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var asked []int
				var begin time.Time
				client := &http.Client{Transport: says(func(r *http.Request) (int, string) {
					if r.URL.Path == "/device" {
						begin = time.Now()
						return 200, fmt.Sprintf(`{"device_code":"d","user_code":"u",`+
							`"verification_uri":"https://id.example/enter","interval":%d,"expires_in":900}`,
							tt.interval)
					}
					asked = append(asked, int(time.Since(begin).Seconds()))
					a := tt.answers[min(len(asked), len(tt.answers))-1]
					return a.code, a.body
				})}
				ctx := context.WithValue(t.Context(), oauth2.HTTPClient, client)
				config := &oauth2.Config{ClientID: "id", Endpoint: oauth2.Endpoint{
					DeviceAuthURL: "https://id.example/device", TokenURL: "https://id.example/token",
					AuthStyle: oauth2.AuthStyleInParams,
				}}
				got, err := (&App{Name: "corp"}).device(ctx, config, &nobody{})
				ok := err == nil && got.AccessToken == "a1"
				if tt.says != "" {
					ok = err != nil && strings.Contains(err.Error(), tt.says)
				}
				if !ok {
					t.Errorf("the login ends with %v, %v; want the token, or the error %q", got, err, tt.says)
				}
				if !slices.Equal(asked, tt.asked) {
					t.Errorf("the provider was asked after %d s, want %d", asked, tt.asked)
				}
			})
		})
	}
}
