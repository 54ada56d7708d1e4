package providers

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bouldermgr/manager/internal/retryafter"
)

// refusal is what a provider's error says, whatever its form: OpenAI's {"error":{"message","type","code"}}, a flat one
// (vLLM, xAI, DashScope), google.rpc.Status with details, {"detail":…} (FastAPI), MiniMax's base_resp, OpenRouter's
// upstream error inside of metadata.raw, each possibly in a list, or as text inside of another message.
type refusal struct {
	codes  []string // the innermost first: they are the most exact
	texts  []string // likewise
	status int      // claimed by the body; zero: none
	wait   time.Duration
	hint   string // a reset time whose form only [retryafter.Text] may know
}

const maxNested = 8 // levels of an error that are read

// readRefusal reads the JSON in text, and returns the zero value if there is none.
func readRefusal(text string) (r refusal) {
	r.embedded(text, 0)
	return r
}

// embedded reads the first JSON value in text, escaped or not, and returns what precedes it.
func (r *refusal) embedded(text string, depth int) (before string, found bool) {
	start := strings.IndexAny(text, "{[")
	if start < 0 || depth > maxNested {
		return text, false
	}
	for _, src := range []string{text[start:], strings.ReplaceAll(text[start:], `\"`, `"`)} {
		in := json.NewDecoder(strings.NewReader(src))
		in.UseNumber()
		var value any
		if in.Decode(&value) == nil {
			r.walk(value, depth+1)
			return strings.TrimRight(text[:start], ": \n"), true
		}
	}
	return text, false
}

func (r *refusal) walk(value any, depth int) {
	if depth > maxNested {
		return
	}
	switch value := value.(type) {
	case []any:
		for _, item := range value {
			r.walk(item, depth+1)
		}
	case map[string]any:
		names := make([]string, 0, len(value))
		for name := range value {
			names = append(names, name)
		}
		slices.SortFunc(names, func(a, b string) int { // the order of the body is lost; exact names come first
			if byRank := rank(a) - rank(b); byRank != 0 {
				return byRank
			}
			return strings.Compare(a, b)
		})
		for _, name := range names {
			switch value[name].(type) {
			case map[string]any, []any:
				r.nested(name, value[name], depth)
			}
		}
		for _, name := range names {
			r.field(strings.ToLower(name), value[name], depth)
		}
	}
}

func (r *refusal) nested(name string, value any, depth int) {
	if fields, ok := value.(map[string]any); ok && strings.EqualFold(name, "headers") { // those of the upstream
		header := http.Header{}
		for name, value := range fields {
			header.Set(name, scalar(value))
		}
		r.wait = max(r.wait, retryafter.Of(header, time.Now()))
		return
	}
	r.walk(value, depth+1)
}

// ranks are the fields with a code, the most exact first.
var ranks = []string{"code", "error_code", "errcode", "err_code", "status_code", "reason", "status", "type"}

func rank(name string) int {
	if i := slices.Index(ranks, strings.ToLower(name)); i >= 0 {
		return i
	}
	return len(ranks)
}

func (r *refusal) field(name string, value any, depth int) {
	said := strings.TrimSpace(scalar(value))
	if said == "" {
		return
	}
	switch name {
	case "code", "error_code", "errcode", "err_code", "reason", "status", "type":
		if n, err := strconv.Atoi(said); err == nil && n >= 100 && n < 600 {
			r.status = max(r.status, n)
			return
		}
		r.codes = append(r.codes, said)
	case "status_code":
		if n, err := strconv.Atoi(said); err == nil && n >= 1000 {
			r.codes = append(r.codes, name+" "+said) // MiniMax's numbers mean something else to others
		}
	case "message", "msg", "error_msg", "error_message", "errormessage", "errmsg", "status_msg", "detail", "error", "raw", "body":
		before, found := r.embedded(said, depth)
		switch {
		case !found:
			r.texts = append(r.texts, said)
		case name == "raw" && len(r.texts) == 0: // it names no more than a code: shown as it is
			r.texts = append(r.texts, said)
		case before != "":
			r.texts = append(r.texts, before)
		}
	case "quotaid":
		if strings.Contains(said, "PerDay") {
			r.codes = slices.Insert(r.codes, 0, perDay)
		}
	default:
		wait, timed := retryafter.Field(name, said, time.Now())
		if r.wait = max(r.wait, wait); timed && wait == 0 {
			r.hint += " resets at " + said
		}
	}
}

// text returns what is said, the outermost words first, each once.
func (r *refusal) text() string {
	var said []string
	for _, one := range slices.Backward(r.texts) {
		if !slices.ContainsFunc(said, func(other string) bool { return strings.Contains(other, one) }) {
			said = append(said, one)
		}
	}
	return strings.Join(said, ": ")
}

func scalar(value any) string {
	switch value := value.(type) {
	case string:
		return value
	case json.Number:
		return value.String()
	}
	return ""
}

// perDay stands for Gemini's quotas of a day, and for those of zero, which waiting does not help.
const perDay = "quota per day"

// codes are the providers' own words and numbers that leave no doubt, in lower case. Sources: their lists of errors,
// and what users report. A code that its provider uses for several things ("rate_limit_error", "authentication_error")
// is not here: then the text decides, and at last the status.
var codes = func() map[string]Kind {
	all := map[string]Kind{}
	for kind, words := range map[Kind]string{
		// Zhipu 1113, 1309; SiliconFlow 30001, 30011; MiniMax 1008; Volcengine; DashScope; Moonshot; Copilot; Codex
		KindQuota: `insufficient_quota credit_balance_exhausted billing_hard_limit_reached billing_not_active billing_error
			billing_disabled insufficient_credits insufficient_balance payment_required exceeded_current_quota_error
			quota_exceeded usage_not_included 1113 1309 30001 30011 accountoverdueerror setlimitexceeded arrearage
			allocationquota.freetieronly prepaidbilloverdue postpaidbilloverdue commoditynotpurchased spend_limit_reached
			spending_limit_reached monthly_spend_limit_reached no_credits out_of_credits creditserror`,
		KindAuth:      `invalid_api_key invalidapikey api_key_invalid api_key_expired 1112`,
		KindRateLimit: `1302 1303 1304 1308 1310 usage_limit_reached rate_limit_reached_error accountquotaexceeded throttling.ratequota`,
		KindOverloaded: `overloaded_error engine_overloaded_error engine_overloaded serveroverloaded server_overloaded
			1305 1312 50505`,
		KindContextLength: `context_length_exceeded request_too_large string_above_max_length 1261`,
		KindContentFilter: `content_filter content_policy_violation datainspectionfailed data_inspection_failed 1301`,
	} {
		for _, word := range strings.Fields(words) {
			all[word] = kind
		}
	}
	all[perDay] = KindQuota
	all["status_code 1002"], all["status_code 1039"], all["status_code 2056"] = KindRateLimit, KindRateLimit, KindRateLimit
	all["status_code 1004"], all["status_code 2049"] = KindAuth, KindAuth
	all["status_code 1008"] = KindQuota
	all["status_code 1026"], all["status_code 1027"] = KindContentFilter, KindContentFilter
	return all
}()

// statuses are those of Anthropic's types of errors (its API reference), which may also occur after a 200.
var statuses = map[string]int{
	"invalid_request_error": http.StatusBadRequest,
	"authentication_error":  http.StatusUnauthorized,
	"billing_error":         http.StatusPaymentRequired,
	"permission_error":      http.StatusForbidden,
	"not_found_error":       http.StatusNotFound,
	"request_too_large":     http.StatusRequestEntityTooLarge,
	"rate_limit_error":      http.StatusTooManyRequests,
	"api_error":             http.StatusInternalServerError,
	"timeout_error":         http.StatusGatewayTimeout,
	"overloaded_error":      529,
}

// ClassifyBody is [Classify] for an answer with a body. said is told if the body has no text of its own.
func ClassifyBody(status int, header http.Header, body []byte, said string, err error) *Error {
	r := readRefusal(string(bytes.TrimSpace(body)))
	if own := r.text(); own != "" {
		said = own
	}
	return r.classify(status, said, header, err)
}

// Classify returns the [*Error] for a failed call. status is as in [Error.Status]; code and said are the provider's;
// header is that of the answer; err is the local error. Each may be zero. No other place maps failures to kinds. The
// caller scrubs its key from the texts first, and adds Provider and Model.
//
// Statuses alone are ambiguous: vendors report missing credit as 400, 402, 403 and 429, a wrong key as 400, 401 and
// 403, and a too long request as 400, 413 and 429. So exact codes come first, then the text from the gravest meaning to
// the mildest, and nothing permanent passes as temporary.
func Classify(status int, code, said string, header http.Header, err error) *Error {
	r := readRefusal(said) // OpenCode's and proxies' messages have the upstream's answer in them
	if code != "" {
		r.codes = slices.Insert(r.codes, 0, code)
	}
	return r.classify(status, said, header, err)
}
