package sink

import (
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"

	"postrider/internal/outbox"
)

const maxStreams = 1024 // by the parameter streams

func openRedis(set Settings) (outbox.Publisher, error) {
	at, err := parse(set.URL, "6379", "stream", "streams", "maxlen", "replicas")
	if err != nil {
		return nil, err
	}
	cluster := strings.HasSuffix(at.scheme, "-cluster")
	p := &redisStreams{set: set, at: at, stream: at.query.Get("stream")}
	if p.stream == "" {
		return nil, fmt.Errorf("the url %s has no stream; add ?stream=NAME", at.name())
	}
	usual := int64(0)
	if cluster {
		usual = 1
	}
	count, err1 := at.number("streams", 1, 1, maxStreams)
	maxLen, err2 := at.number("maxlen", 0, 1, math.MaxInt64)
	replicas, err3 := at.number("replicas", usual, 0, 100)
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	p.count, p.maxLen, p.replicas = int(count), maxLen, int(replicas)
	database := 0
	if at.path != "" {
		if database, err = strconv.Atoi(at.path); err != nil || cluster {
			return nil, fmt.Errorf("the url %s has the database %q; it is a number, and a cluster has none",
				at.name(), at.path)
		}
	}
	logging.Disable() // it would write to standard error
	options := p.options(database)
	if cluster {
		p.cluster = redis.NewClusterClient(options.Cluster())
		return p, nil
	}
	if len(at.hosts) > 1 {
		return nil, fmt.Errorf("the url %s has several hosts; that is for redis-cluster://", at.name())
	}
	p.single = redis.NewClient(options.Simple())
	return p, nil
}

// options turns the library's retries off: the outbox does them, and counts them. Maintenance
// notifications are of Redis Enterprise.
func (p *redisStreams) options(database int) *redis.UniversalOptions {
	var secure *tls.Config
	if strings.HasPrefix(p.at.scheme, "rediss") {
		secure = tlsConfig(p.set)
	}
	return &redis.UniversalOptions{
		Addrs: p.at.hosts, ClientName: "postrider", DB: database, Username: p.at.user, Password: p.at.password,
		TLSConfig: secure, MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true,
		DialTimeout: p.set.Timeout, ReadTimeout: p.set.Timeout, WriteTimeout: p.set.Timeout,
		PoolSize: 2, Protocol: 2, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}
