package smtpsink

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"hash"
	"strings"
)

// authSCRAM is the server's side of SCRAM without channel binding (RFC 5802 section 3 and 5).
func (c *session) authSCRAM(newHash func() hash.Hash, initial string) (string, bool, error) {
	const iterations = 4096
	clientFirst, err := c.first(initial, "")
	if err != nil {
		return "", false, err
	}
	bare, ok := strings.CutPrefix(clientFirst, "n,,")
	if !ok {
		return "", false, nil
	}
	attrs := attributes(bare)
	user := strings.NewReplacer("=2C", ",", "=3D", "=").Replace(attrs["n"])
	password, known := c.s.opts.Users[user]
	salt, nonce := rand.Text(), attrs["r"]+rand.Text()
	serverFirst := fmt.Sprintf("r=%s,s=%s,i=%d", nonce, base64.StdEncoding.EncodeToString([]byte(salt)), iterations)
	clientFinal, err := c.challenge(serverFirst)
	if err != nil {
		return "", false, err
	}
	withoutProof, proof, _ := strings.Cut(clientFinal, ",p=")
	if !known || attributes(withoutProof)["r"] != nonce {
		return user, false, nil
	}
	salted, err := pbkdf2.Key(newHash, password, []byte(salt), iterations, newHash().Size())
	if err != nil {
		return "", false, fmt.Errorf("salt a password: %w", err)
	}
	signed := bare + "," + serverFirst + "," + withoutProof
	if proof != clientProof(newHash, salted, signed) {
		return user, false, nil
	}
	signature := sign(newHash, sign(newHash, salted, "Server Key"), signed)
	// The client answers with an empty line.
	_, err = c.challenge("v=" + base64.StdEncoding.EncodeToString(signature))
	return user, err == nil, err
}

// clientProof is ClientKey XOR HMAC(H(ClientKey), signed).
func clientProof(newHash func() hash.Hash, salted []byte, signed string) string {
	clientKey := sign(newHash, salted, "Client Key")
	stored := newHash()
	stored.Write(clientKey)
	proof := sign(newHash, stored.Sum(nil), signed)
	for i := range proof {
		proof[i] ^= clientKey[i]
	}
	return base64.StdEncoding.EncodeToString(proof)
}

func sign(newHash func() hash.Hash, key []byte, text string) []byte {
	mac := hmac.New(newHash, key)
	mac.Write([]byte(text))
	return mac.Sum(nil)
}

// attributes splits "n=user,r=nonce".
func attributes(text string) map[string]string {
	attrs := map[string]string{}
	for field := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(field, "=")
		attrs[name] = value
	}
	return attrs
}
