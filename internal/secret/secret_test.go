package secret_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/bouldermgr/manager/internal/secret"
)

// planted joins the parts of a fake key. In one piece in the sources, secret scanners would report it.
func planted(parts ...string) string { return strings.Join(parts, "") }

var (
	anthropicKey = planted("sk-ant-", "api03-", "Zx9Kq2Lw8Rt5Yp1Nv7Bm3Cd6Fg4Hj0Ks_QwErTy-AA")
	openaiKey    = planted("sk-", "proj-", "T3blbkFJa9Bc2De4Fg6Hi8Jk0Lm1No3Pq5Rs7")
	githubToken  = planted("ghp_", "16C7e42F292c6912E7710c838347Ae178B4a")
	jwt          = planted("eyJhbGciOiJIUzI1NiJ9.", "eyJzdWIiOiIxMjM0NTY3ODkwIn0.",
		"dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U")
	pem = planted("-----BEGIN RSA PRIVATE", " KEY-----\n"+
		"MIIEowIBAAKCAQEAx1y2z3a4b5c6d7e8f9g0h1i2j3k4l5m6n7o8p9q0\n",
		"r1s2t3u4v5w6x7y8z9\n-----END RSA PRIVATE", " KEY-----")
)

// become checks what each text becomes, and that a second pass changes nothing.
func become(t *testing.T, clean func(string) string, all [][2]string) {
	t.Helper()
	for _, one := range all {
		for _, text := range one {
			if got := clean(text); got != one[1] {
				t.Errorf("%q became\n%q, want\n%q", text, got, one[1])
			}
		}
	}
}

// Each text has one secret, in a form that the redactor knows without being told its value.
func TestForms(t *testing.T) {
	t.Parallel()
	var r *secret.Redactor
	become(t, r.Text, [][2]string{
		{"Incorrect API key provided: " + openaiKey + ".", "Incorrect API key provided: [redacted]."},
		{"x-api-key " + anthropicKey, "x-api-key [redacted]"},
		{"a\\n" + anthropicKey + "\\nb", "a\\n[redacted]\\nb"},
		{planted("xai-", "0123456789abcdef0123456789"), "[redacted]"},
		{planted("gsk_", "0123456789abcdefABCD0123456789"), "[redacted]"},
		{planted("AIza", "SyD-0123456789abcdefABCDEF0123456") + ", and", "[redacted], and"},
		{"remote: " + githubToken + "\n", "remote: [redacted]\n"},
		{"https://" + githubToken + "@github.com/a/b", "https://[redacted]@github.com/a/b"},
		{planted("github_", "pat_", "11ABCDEFG0abcdefghijkl_mnopqrstuvwxyz0123456789"), "[redacted]"},
		{planted("glpat-", "aB3dE5fG7hI9jK1lM3nO"), "[redacted]"},
		{"id=" + planted("AKIA", "IOSFODNN7EXAMPLE") + " ", "id=[redacted] "},
		{planted("xoxb-", "123456789012-abcdefABCDEF"), "[redacted]"},
		{planted("npm_", "abcdefghijklmnopqrstuvwxyz0123456789"), "[redacted]"},
		{planted("hf_", "abcdefghijklmnopqrstuvwxyzABCDEFGH"), "[redacted]"},
		{"cookie: s=" + jwt + ";", "cookie: s=[redacted];"},
		{"long claims: " + strings.Replace(jwt, ".eyJ", ".eyJ"+strings.Repeat("zdWIi", 600), 1) + ".", "long claims: [redacted]."},
		{"long key: " + githubToken + strings.Repeat("a1", 1000) + " end", "long key: [redacted] end"},
		{"before\n" + pem + "\nafter", "before\n[redacted]\nafter"},
		{"cut off: " + pem[:70], "cut off: [redacted]"},
		{"Authorization: Bearer abc.def-ghi_jkl", "Authorization: Bearer [redacted]"},
		{`{"authorization": "Basic dXNlcjpodW50ZXIy"}`, `{"authorization": "Basic [redacted]"}`},
		{`curl -H 'authorization: token abc123def456'`, `curl -H 'authorization: token [redacted]'`},
		{"bearer 0123456789abcdef0123", "bearer [redacted]"},
		{"postgres://app:hunter2hunter@db/x", "postgres://app:[redacted]@db/x"},
		{`a\u002Fb postgres:\/\/app:hunter2hunter@db/x`, `a\u002Fb postgres:\/\/app:[redacted]@db/x`},
		{"DB_PASSWORD=hunter2hunter\nPATH=/bin", "DB_PASSWORD=[redacted]\nPATH=/bin"},
		{"export STRIPE_SECRET='hunter2hunter'", "export STRIPE_SECRET='[redacted]'"},
		{"SESSION_TOKEN_2=hunter2hunter", "SESSION_TOKEN_2=[redacted]"},
		{`"apiKey": "a8f5f167f44f4964e6c998dee827110c"`, `"apiKey": "[redacted]"`},
		{`{\"client_secret\":\"a8f5f167f44f4964e6c998dee827110c\"}`, `{\"client_secret\":\"[redacted]\"}`},
		{"x-api-key: a8f5f167f44f4964e6c998dee827110c", "x-api-key: [redacted]"},
		{"password: 'q7Zp-2mXv9Lk4Tn8'", "password: '[redacted]'"},
		{"?alt=json&access_token=a8f5f167f44f4964e6c998dee827110c&b=c", "?alt=json&access_token=[redacted]&b=c"},
		{
			planted("https://hooks.slack", ".com/services/", "T00000000/B00000000/abcdefghijklmnop1234"),
			"https://[redacted]",
		},
	})
}

// Texts that look a little like a secret stay unchanged.
func TestHarmless(t *testing.T) {
	t.Parallel()
	r := secret.New([]string{
		"A_TOKEN=1", "B_TOKEN=true", "POSTGRES_PASSWORD=postgres", "C_SECRET=changeme", "D_KEY=Password", "E_TOKEN=12345678",
		"SSH_KEY=/home/u/.ssh/id_rsa", "AWS_REGION=eu-central-1-x9", "KEYBOARD=qwertz123456", "PUBLIC_KEY=abc123def456",
		"GOOGLE_APPLICATION_CREDENTIALS=/etc/x/y.json", "F_TOKEN=$OTHER_TOKEN", "G_TOKEN=aaaaaaaaaaaaaaaaaaaaaaaa",
		"H_TOKEN=\xff\xfe456789",
		"HOME=/root/1234567890", "API_KEY=https://keys.example.org/v1",
	})
	for _, text := range []string{
		"", "k", "the task-list has 3 entries", "risk-averse planning", "disk-full-error", "key is missing",
		"token count: 12",
		"primary key in monkey=banana", "bearer of news", "sk-8 of the plan", "sk-learn-compatible-v2-estimators",
		"subtask-start", "password: at least 8 characters", "the password is postgres, true, 1, 12345678",
		"commit 3940ee9d0c5f0a2b8f7e6d5c4b3a29181706f5e4", "01K5ZJ8Q4M7V3X2N6T9R1B0C5D",
		"6ba7b810-9dad-11d1-80b4-00c04fd430c8",
		"data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
		"github.com/x/y v1.2.3 h1:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=",
		`"integrity": "sha512-z4PhNX7vuL3xVChQ1m2AB9Yg5AULVxXcg/SpIdNs6c5H0NE8XYXysP+DGNKHfuwvY7kxvUdBeoGlODJ6+SfaPg=="`,
		"API_KEY=$(cat key)", "TOKEN=${TOKEN}", "export API_KEY=your-api-key-here",
		"const apiKey = process.env.OPENAI_API_KEY2",
		"postgres://postgres:postgres@localhost/db", "http://[::1]:8080/a@b", "see https://example.org/a:b@c",
		"-----BEGIN CERTIFICATE-----\nMIIEowIBAAKCAQEAx1y2z3a4b5c6d7e8f9g0h1i2j3k4l5m6n7o8p9q0\n-----END CERTIFICATE-----",
		"it begins with -----BEGIN RSA PRIVATE KEY----- and so on", "Authorization: Bearer $TOKEN", "Authorization: required",
		"cacheKey = \"sub_task_id_1234567890\"", "Password", "aaaaaaaaaaaaaaaaaaaaaaaa", "/home/u/.ssh/id_rsa",
		"invalid \xff UTF-8",
		"ses_4f3b2a1908f7e6d5c4b3a29181", "msg_b7c6d5e4f3021abcdefABCDEF1", "tag manager:01k5zj8q4m7v3x2n6t9r1b0c5d/api#1",
	} {
		if got := r.Text(text); got != text {
			t.Errorf("%q became %q", text, got)
		}
		if kinds := r.Kinds(text); len(kinds) > 0 {
			t.Errorf("%q is said to hold %q", text, kinds)
		}
	}
}

// Values of the environment are redacted, whatever they look like, and in every form in which programs print them.
func TestValues(t *testing.T) {
	t.Parallel()
	const odd = `p<ss&w/rd "ü" 9\n`
	r := secret.New([]string{
		"MY_PASSWORD=" + odd, "PGPASSWORD=hunter2hunter", "X_API_KEY=short", "Y_API_KEY= correct horse battery staple ",
		"CACHE_URL=redis://u:s3cr3tpass@cache:6379/0", "AWS_ACCESS_KEY_ID=abcdefgh1234",
		"HEROKU_API_KEY=6ba7b810-9dad-11d1-80b4-00c04fd430c8",
		`OPENCODE_CONFIG_CONTENT={"provider":{"x":{"options":{"apiKey":"own.format-42"}}}}`, "SIGNING_KEY=" + pem,
	})
	r.Add("the key of endpoint mine", "tiny", " endpoint.key.7 ")
	shown := func(f func(string) string, v string) string { return "<<" + f(v) + ">>" }
	same := func(s string) string { return s }
	for _, v := range []string{
		odd, "hunter2hunter", "correct horse battery staple", "s3cr3tpass", "abcdefgh1234",
		"6ba7b810-9dad-11d1-80b4-00c04fd430c8",
		"own.format-42", "endpoint.key.7", pem,
	} {
		for name, form := range map[string]func(string) string{
			"raw": same, "query": url.QueryEscape, "path": url.PathEscape,
			"lower hex": func(s string) string { return lowerHex.Replace(url.QueryEscape(s)) },
			"json":      quoted, "json in json": func(s string) string { return quoted(quoted(s)) },
		} {
			got := r.Text(shown(form, v))
			if in := strings.HasPrefix(name, "json") && strings.Contains(got, "[redacted]"); !in && got != "<<[redacted]>>" {
				t.Errorf("%s of %q became %q", name, v, got)
			}
		}
		for shift := range 4 { // as a part of something longer
			text := strings.Repeat("x", shift) + v + "y"
			for _, alphabet := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding, base64.RawURLEncoding} {
				got := r.Text(alphabet.EncodeToString([]byte(text)))
				if !strings.Contains(got, "[redacted]") || len(got) > len("[redacted]")+9 {
					t.Errorf("%q in base64, shifted by %d, became %q", v, shift, got)
				}
			}
		}
	}
	got := r.Text("  key = " + strings.ReplaceAll(pem, "\n", "\n  | "))
	if strings.Contains(got, "r1s2t3") || strings.Contains(got, "MIIE") {
		t.Errorf("an indented key became %q", got)
	}
	if got := r.Text("tiny short"); got != "tiny short" {
		t.Errorf("short values: %q", got)
	}
}

var lowerHex = strings.NewReplacer("%3C", "%3c", "%2F", "%2f", "%C3%BC", "%c3%bc", "%5C", "%5c")

func quoted(s string) string {
	b, _ := json.Marshal(s)
	return string(b[1 : len(b)-1])
}

func TestOverlapsLeaveNothing(t *testing.T) {
	t.Parallel()
	r := secret.New([]string{
		"A_TOKEN=abcdef-123456", "B_TOKEN=123456-ghijkl", "C_TOKEN=abcdef-123456-ghi", "D_TOKEN=token.with$sign9",
	})
	become(t, r.Text, [][2]string{
		{"abcdef-123456-ghijkl", "[redacted]"},
		{"abcdef-123456abcdef-123456", "[redacted][redacted]"},
		{"abcdef-123456-ghi", "[redacted]"},
		{"Authorization: Bearer token.with$sign9", "Authorization: Bearer [redacted]"},
		{"MY_TOKEN=xx9-token.with$sign9", "MY_TOKEN=[redacted]"},
	})
}

func TestKinds(t *testing.T) {
	t.Parallel()
	r := secret.New([]string{"MY_API_KEY=" + openaiKey})
	got := r.Kinds("use " + openaiKey + " and " + githubToken + " and " + openaiKey)
	if diff := cmp.Diff([]string{"the value of MY_API_KEY", "a GitHub token"}, got); diff != "" {
		t.Errorf("kinds (-want +got):\n%s", diff)
	}
}

func TestJSON(t *testing.T) {
	t.Parallel()
	r := secret.New([]string{"A_TOKEN=123456789012", `B_TOKEN=a","b":"c9`, "C_TOKEN=ends in \\9\\"})
	key := strings.Replace(githubToken, "ghp_", `gh\u0070_`, 1)
	become(t, func(s string) string { return string(r.JSON([]byte(s))) }, [][2]string{
		{`{"size":123456789012,"text":"123456789012"}`, `{"size":123456789012,"text":"[redacted]"}`},
		{`{"x":"a","b":"c9"}`, `{"x":"a","b":"c9"}`},
		{`{"x": "a\",\"b\":\"c9" }`, `{"x": "[redacted]" }`},
		{`["ends in \\9\\","n"]`, `["[redacted]","n"]`},
		{`{"t":"` + key + `"}`, `{"t":"[redacted]"}`},
		{`{"` + githubToken + `":["<&>",1e3,null,true]}`, `{"[redacted]":["<&>",1e3,null,true]}`},
		{`{"url":"postgres:\/\/app:hunter2hunter@db"}`, `{"url":"postgres://app:[redacted]@db"}`},
		{`{"out":"a\nDB_PASSWORD=hunter2hunter\n"}`, `{"out":"a\nDB_PASSWORD=[redacted]\n"}`},
		{
			`{"password": "q7Zp-2mXv9Lk4Tn8", "subject": "q7Zp-2mXv9Lk4Tn8"}`,
			`{"password": "[redacted]", "subject": "q7Zp-2mXv9Lk4Tn8"}`,
		},
		{
			`{"in":"{\"apiKey\":\"a8f5f167f44f4964e6c998dee827110c\"}"}` + "\n",
			`{"in":"{\"apiKey\":\"[redacted]\"}"}` + "\n",
		},
		{"not JSON " + githubToken, "not JSON [redacted]"},
	})
}

func TestEach(t *testing.T) {
	t.Parallel()
	type inner struct{ Text string }
	type sample struct {
		Text    string
		List    []inner
		Pointer *inner
		Any     any
		Map     map[string]inner
		Raw     json.RawMessage
		Bytes   []byte
		When    time.Time
		Number  int
		private string
	}
	r := &secret.Redactor{}
	sampleOf := func(s string) sample {
		return sample{
			Text: s, List: []inner{{s}, {"x"}}, Pointer: &inner{s}, Any: inner{s}, Map: map[string]inner{"k": {s}},
			Raw: json.RawMessage(`{"a":"` + s + `"}`), Bytes: []byte("raw"), When: time.Unix(1, 2), Number: 3, private: "p",
		}
	}
	in := sampleOf(githubToken)
	got := secret.Each(in, r)
	if diff := cmp.Diff(sampleOf("[redacted]"), got, cmp.AllowUnexported(sample{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(sampleOf(githubToken), in, cmp.AllowUnexported(sample{})); diff != "" {
		t.Errorf("the original changed (-want +got):\n%s", diff)
	}
	if got := secret.Each[any](nil, r); got != nil {
		t.Errorf("nil became %v", got)
	}
}

// The sources and documents of this repository stay unchanged, apart from the exceptions below.
func TestCorpusComesOutUnchanged(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	r := &secret.Redactor{}
	files := 0
	err = filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		switch rel, _ := filepath.Rel(root, path); {
		case errors.Is(err, fs.ErrNotExist): // removed by another test meanwhile
			return nil
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{"node_modules", ".git", ".manager", "bin"}, d.Name()):
			return filepath.SkipDir
		case d.IsDir(), !slices.Contains(strings.Fields(".go .md .sum .mod .yml .yaml .json .txtar .sh .js"), filepath.Ext(path)),
			strings.HasPrefix(rel, "internal/secret/"), // about keys
			strings.HasSuffix(rel, "_test.go") && strings.Contains(rel, "secret"):
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		files++
		for n, line := range strings.Split(string(data), "\n") {
			if strings.Contains(line, "sk-planted") || strings.Contains(line, "conformance.secret") {
				continue // fake keys in full
			}
			if got := r.Text(line); got != line {
				t.Errorf("%s:%d holds %q:\n%s\n%s", path, n+1, r.Kinds(line), line, got)
			}
		}
		return nil
	})
	if err != nil || files < 300 {
		t.Errorf("%d files: %v", files, err)
	}
}

// A secret anywhere in a text is redacted, and the rest stays.
func TestPlantedIsGone(t *testing.T) {
	t.Parallel()
	const value = "v4lue/of+my=token"
	r := secret.New([]string{"MY_TOKEN=" + value})
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.SampledFrom([]string{value, anthropicKey, githubToken, pem}).Draw(t, "key")
		before := rapid.StringMatching(`([a-zä ,.\n]{0,30}[ \n(])?`).Draw(t, "before")
		after := rapid.StringMatching(`([ \n)][a-zä ,.\n]{0,30})?`).Draw(t, "after")
		if got, want := r.Text(before+key+after), before+"[redacted]"+after; got != want {
			t.Fatalf("%q, want %q", got, want)
		}
	})
}

func FuzzJSON(f *testing.F) {
	for _, s := range []string{
		`{"a":"` + githubToken + `","b":[1,2.5e3,"\ud83d\ude00"]}`, `"\\"`,
		`{"password":"q7Zp-2mXv9Lk4Tn8","n":123456789012}`,
		`["a\",\"b","c9\\"]`, `{"\u0070assword":"x\ty"}`, `null`, `"://u:hunter2hunter@"`, "\"\\n" + anthropicKey + "\"",
		`{"k":"-----BEGIN PRIVATE KEY-----\nMIIEowIBAAKCAQEAx1y2z3a4b5c6d7e8f9\n-----END PRIVATE KEY-----\n"}`,
	} {
		f.Add([]byte(s))
	}
	r := secret.New([]string{
		"A_TOKEN=123456789012", `B_TOKEN=a","b":"c9`, `C_TOKEN=9\ends\`, "D_TOKEN=\"quoted9\"", "E_TOKEN=täken-9ü",
	})
	f.Fuzz(func(t *testing.T, data []byte) {
		got := r.JSON(data)
		if !json.Valid(data) {
			return
		}
		if !json.Valid(got) {
			t.Fatalf("%q became %q, which is not valid", data, got)
		}
		var before, after any
		if err := json.Unmarshal(data, &before); err != nil {
			return // a number too large for encoding/json
		}
		if err := json.Unmarshal(got, &after); err != nil {
			t.Fatal(err)
		}
		compare(t, r, before, after)
		if utf8.Valid(data) && !utf8.Valid(got) {
			t.Fatalf("%q became %q, which is not UTF-8", data, got)
		}
	})
}

// compare checks that only strings differ, and that none contains a secret.
func compare(t *testing.T, r *secret.Redactor, before, after any) {
	t.Helper()
	switch b := before.(type) {
	case string:
		a, ok := after.(string)
		if !ok || r.Text(a) != a || a != b && !strings.Contains(a, secret.Redacted) {
			t.Fatalf("%q became %q", before, after)
		}
	case []any:
		a, ok := after.([]any)
		if !ok || len(a) != len(b) {
			t.Fatalf("%v became %v", before, after)
		}
		for i := range b {
			compare(t, r, b[i], a[i])
		}
	case map[string]any:
		a, ok := after.(map[string]any)
		if !ok {
			t.Fatalf("%v became %v", before, after)
		}
		for k, v := range b {
			if r.Text(k) == k && !strings.Contains(k, secret.Redacted) {
				compare(t, r, v, a[k])
			}
		}
	default:
		if before != after {
			t.Fatalf("%v became %v", before, after)
		}
	}
}

// Text keeps UTF-8 valid, and redacts a known value.
func FuzzText(f *testing.F) {
	for _, s := range []string{anthropicKey, "ü" + githubToken + "ü", pem, jwt, "://a:hunter2hunter@b", "sk-sk-sk-"} {
		f.Add(s)
	}
	r := secret.New([]string{"E_TOKEN=täken-9ü", "F_TOKEN=redacted][redact9", "G_TOKEN=acted]ab9"})
	f.Fuzz(func(t *testing.T, s string) {
		got := r.Text(s)
		if utf8.ValidString(s) && !utf8.ValidString(got) {
			t.Fatalf("%q became %q", s, got)
		}
		if strings.Contains(got, "täken-9ü") {
			t.Fatalf("%q became %q", s, got)
		}
	})
}
