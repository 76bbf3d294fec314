package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strconv"
	"strings"
	"time"
)

// The size of a key, in octets, as Standard Webhooks wants it.
const (
	minKey = 24
	maxKey = 64
)

// parseSecrets returns the keys of secrets. No error shows a secret.
func parseSecrets(secrets []string) ([][]byte, error) {
	var keys [][]byte
	for _, secret := range secrets {
		encoded, ok := strings.CutPrefix(strings.TrimSpace(secret), "whsec_")
		key, err := base64.StdEncoding.DecodeString(encoded)
		if !ok || err != nil || len(key) < minKey || len(key) > maxKey {
			return nil, errors.New("the secret of a webhook is not whsec_ and 24 to 64 octets in Base64; " +
				`make one with: echo "whsec_$(openssl rand -base64 32)"`)
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, errors.New("a webhook has no secret; " +
			`make one with: echo "whsec_$(openssl rand -base64 32)", give it to the receiver, too, ` +
			"and write secrets: env:NAME")
	}
	return keys, nil
}

// sign returns the header webhook-signature: a signature for each key. The receiver accepts the
// message when one of them is right.
func sign(keys [][]byte, id string, at time.Time, body []byte) string {
	var signatures []string
	for _, key := range keys {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(id + "." + strconv.FormatInt(at.Unix(), 10) + "."))
		mac.Write(body)
		signatures = append(signatures, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	return strings.Join(signatures, " ")
}
