package anthropic

import (
	"cmp"
	"log/slog"
	"net/http"
	"strings"

	"github.com/bouldermgr/manager/providers"
)

// DefaultModel is the ledger model that is used when the user named none: a default of the configuration, not knowledge
// of the code. It is the vendor's middle model of November 2026; any other can be configured.
const DefaultModel = "claude-sonnet-5-5"

const (
	name    = "anthropic"
	keyEnv  = "ANTHROPIC_API_KEY"
	baseURL = "https://api.anthropic.com"
)

// Options are for [Sources] and [New].
type Options struct {
	// BaseURL is the address up to and without "/v1/messages". Defaults to Anthropic's own server.
	BaseURL string
	// HTTPClient is copied, and extended by the recording of answers and a redirect policy. Defaults to a client with
	// the default transport. Leave its Timeout zero: attempts are bounded by their context.
	HTTPClient *http.Client
	// Logger defaults to none.
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	o.BaseURL = strings.TrimRight(cmp.Or(o.BaseURL, baseURL), "/")
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Sources gives the source for a registry: "anthropic", with ANTHROPIC_API_KEY and, if opts names no address,
// ANTHROPIC_BASE_URL. Nothing else that the SDK would read from the environment or from files counts.
func Sources(getenv func(string) string, opts Options) []providers.Source {
	opts.BaseURL = cmp.Or(opts.BaseURL, getenv("ANTHROPIC_BASE_URL"))
	return []providers.Source{{
		Name:         name,
		KeyEnv:       []string{keyEnv},
		DefaultModel: DefaultModel,
		Open: func(key providers.Key) (providers.Completer, error) {
			return New(key, opts)
		},
	}}
}
