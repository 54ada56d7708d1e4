package gemini

import (
	"cmp"
	"log/slog"
	"net/http"

	"github.com/bouldermgr/manager/providers"
)

// DefaultModel is the ledger model that is used when the user named none: a default of the configuration, not knowledge
// of the code. It is the vendor's middle model of November 2026; any other can be configured.
const DefaultModel = "gemini-3.8-flash"

const (
	name    = "google"
	baseURL = "https://generativelanguage.googleapis.com"
)

// keyEnv names the variables that may hold the key, the more specific one first.
var keyEnv = []string{"GEMINI_API_KEY", "GOOGLE_API_KEY"}

// Options are for [Sources] and [New].
type Options struct {
	// BaseURL is the address up to and without "/v1beta/models". Defaults to Google's own server.
	BaseURL string
	// KeyEnv is the variable that the key came from, for errors. Defaults to GEMINI_API_KEY.
	KeyEnv string
	// HTTPClient is copied, and extended by the recording of answers and a redirect policy. Defaults to a client with
	// the default transport. Leave its Timeout zero: attempts are bounded by their context.
	HTTPClient *http.Client
	// Logger defaults to none.
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	o.BaseURL = cmp.Or(o.BaseURL, baseURL)
	o.KeyEnv = cmp.Or(o.KeyEnv, keyEnv[0])
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Sources gives the source for a registry: "google", with GEMINI_API_KEY or else GOOGLE_API_KEY and, if opts names no
// address, GOOGLE_GEMINI_BASE_URL. Nothing else that the SDK would read from the environment counts.
func Sources(getenv func(string) string, opts Options) []providers.Source {
	opts.BaseURL = cmp.Or(opts.BaseURL, getenv("GOOGLE_GEMINI_BASE_URL"))
	return []providers.Source{{
		Name:         name,
		KeyEnv:       keyEnv,
		DefaultModel: DefaultModel,
		Open: func(key providers.Key) (providers.Completer, error) {
			opts := opts
			for _, variable := range keyEnv {
				if opts.KeyEnv == "" && !providers.NewKey(getenv(variable)).IsZero() {
					opts.KeyEnv = variable
				}
			}
			return New(key, opts)
		},
	}}
}
