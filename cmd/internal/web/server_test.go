package web_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bouldermgr/manager/testkit/golden/sample"
)

// paths has one path of each kind of page.
func paths() []string {
	return []string{
		"/", "/boulders", "/boulders?status=running&q=dark", "/b/01k3middle", "/b/01k3middle/t/toggle", "/b/01k3middle/report",
		"/b/01k3middle/changes", "/b/01k3middle/time", "/b/01k3middle/log", "/b/01k3middle/log?task=toggle&q=turn&decisions=1",
		"/b/01k3middle/report.html", "/b/" + sample.ID, "/b/" + sample.ID + "/t/theme", "/style.css", "/live.js",
		"/plan", "/b/01k3plan", "/b/01k3plan/plan", "/b/01k3replan", "/b/01k3middle/redo", "/b/01k3middle/redo?task=toggle",
	}
}

// Without the cookie, or with a forged one, every page and order is refused.
func TestNothingWithoutTheCookie(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	blocked(t, dir)
	asking(t, dir)
	s := site(t, dir, "")
	inside := enter(t, s)
	for _, cookie := range []*http.Cookie{nil, {Name: inside.cookie.Name, Value: "x"}, {Name: "manager-1", Value: inside.cookie.Value}} {
		outside := &browser{t: t, handler: s.Handler(), cookie: cookie}
		for _, path := range append(paths(), "/nothing") {
			if w := outside.do("GET", path, nil); w.Code != http.StatusForbidden || strings.Contains(w.Body.String(), "dark mode") {
				t.Errorf("GET %s with cookie %v: %d", path, cookie, w.Code)
			}
		}
		w := outside.do("GET", "/", nil, func(r *http.Request) { r.Header.Set("Accept", "text/event-stream") })
		if w.Code != http.StatusForbidden {
			t.Errorf("a stream with cookie %v: %d", cookie, w.Code)
		}
		for _, path := range []string{"/blockers/B1", "/b/" + sample.ID + "/order", "/b/" + sample.ID + "/land",
			"/b/" + sample.ID + "/redo", "/b/01k3plan/plan", "/plan"} {
			if w := outside.do("POST", path, url.Values{"do": {"pause"}, "answer": {"x"}}); w.Code != http.StatusForbidden {
				t.Errorf("POST %s with cookie %v: %d", path, cookie, w.Code)
			}
		}
	}
	for _, path := range paths() {
		inside.get(path)
	}
	if c := inside.cookie; !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Secure || len(c.Value) < 26 {
		t.Errorf("the cookie is %v", c)
	}
}

// A link works once. A prefetch does not use it up, and a forged link does not work.
func TestLinkOnce(t *testing.T) {
	t.Parallel()
	s := site(t, t.TempDir(), "")
	b := &browser{t: t, handler: s.Handler()}
	link := linkOf(t, s)
	lets := func(want bool, path string) {
		t.Helper()
		if w := b.do("GET", path, nil); (len(w.Result().Cookies()) == 1) != want || (w.Code == http.StatusOK) != want {
			t.Errorf("GET %s: %d, %v", path, w.Code, w.Result().Cookies())
		}
	}
	lets(false, "/link/AAAAAAAAAAAAAAAAAAAAAAAAAA")
	for _, w := range []int{
		b.do("HEAD", link, nil).Code, b.do("GET", link, nil, func(r *http.Request) { r.Header.Set("Sec-Purpose", "prefetch") }).Code,
	} {
		if w != http.StatusNoContent {
			t.Errorf("fetched ahead: %d", w)
		}
	}
	lets(true, link)
	lets(false, link)
	one, other := linkOf(t, s), linkOf(t, s) // one for each of two browsers
	lets(true, other)
	lets(true, one)
}

func TestLinkOfFiveMinutes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := site(t, dir, "")
		b := &browser{t: t, handler: s.Handler()}
		early, late := linkOf(t, s), linkOf(t, s)
		<-time.After(5*time.Minute - time.Second)
		if w := b.do("GET", early, nil); len(w.Result().Cookies()) != 1 {
			t.Errorf("within five minutes: %d", w.Code)
		}
		<-time.After(2 * time.Second)
		if w := b.do("GET", late, nil); w.Code != http.StatusForbidden {
			t.Errorf("after five minutes: %d", w.Code)
		}
	})
}

// A foreign host name that resolves to this machine (DNS rebinding) reaches nothing, even with the cookie.
func TestOtherHosts(t *testing.T) {
	t.Parallel()
	s := site(t, t.TempDir(), "https://box.tail1234.ts.net")
	b := enter(t, s)
	for name, want := range map[string]int{
		host: http.StatusOK, "localhost:": http.StatusOK, "box.tail1234.ts.net": http.StatusOK,
		"127.0.0.1": http.StatusMisdirectedRequest, "127.0.0.1:1": http.StatusMisdirectedRequest, "evil.example:": http.StatusMisdirectedRequest,
		"evil.example": http.StatusMisdirectedRequest, "127.0.0.1.evil.example:": http.StatusMisdirectedRequest, "": http.StatusMisdirectedRequest,
		"0.0.0.0:": http.StatusMisdirectedRequest, "[::1]:": http.StatusMisdirectedRequest, "box.tail1234.ts.net.": http.StatusMisdirectedRequest,
	} {
		if w := b.do("GET", "/", nil, func(r *http.Request) { r.Host = name }); w.Code != want {
			t.Errorf("Host %q: %d, want %d", name, w.Code, want)
		}
	}
	public := &browser{t: t, handler: s.Handler()}
	w := public.do("GET", linkOf(t, s), nil, func(r *http.Request) { r.Host = "box.tail1234.ts.net" })
	if c := w.Result().Cookies(); len(c) != 1 || !c[0].Secure {
		t.Errorf("through the tunnel: %v", c)
	}
}

// A form on another site does nothing, even with the cookie.
func TestOtherOrigins(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	blocked(t, dir)
	asking(t, dir)
	b := enter(t, site(t, dir, "https://box.tail1234.ts.net"))
	hash := hashOf(t, b.get("/"), "01k3plan")
	path, form := "", url.Values{}
	post := func(headers map[string]string) int {
		return b.do("POST", path, form, func(r *http.Request) {
			r.Header.Del("Sec-Fetch-Site")
			for name, value := range headers {
				r.Header.Set(name, value)
			}
		}).Code
	}
	for _, evil := range []struct {
		path string
		form url.Values
	}{
		{"/b/01k3plan/order", url.Values{"do": {"approve"}, "hash": {hash}}},
		{"/b/01k3plan/plan", url.Values{"do": {"approve"}, "hash": {hash}, "plan": {"sub_tasks: [{id: planted, description: X}]"}}},
		{"/plan", url.Values{"do": {"save"}, "plan": {"sub_tasks: [{id: planted, description: X}]"}}},
		{"/b/01k3middle/redo", url.Values{"task": {"toggle"}}},
		{"/b/" + sample.ID + "/order", url.Values{"do": {"note"}, "text": {"planted"}}},
	} {
		path, form = evil.path, evil.form
		for _, headers := range []map[string]string{
			{"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}, {"Origin": "https://evil.example"}, {"Origin": "null"},
			{"Origin": "http://127.0.0.1:1"}, {"Origin": "http://localhost:"},
		} {
			if code := post(headers); code != http.StatusForbidden {
				t.Errorf("%s: %v: %d", path, headers, code)
			}
		}
	}
	says(t, b.get("/"), "Run this plan?", "NOT planted")
	says(t, b.get("/plan"), "NOT planted")
	if strings.Contains(b.get("/b/"+sample.ID), "planted") {
		t.Error("a note was planted")
	}
	for _, headers := range []map[string]string{
		{"Sec-Fetch-Site": "same-origin"}, {"Origin": "http://" + host}, {"Origin": "https://box.tail1234.ts.net"},
	} {
		if code := post(headers); code != http.StatusSeeOther {
			t.Errorf("%v: %d", headers, code)
		}
	}
}

// What agents write is text on every page. If it were not, the content security policy would still not let it run.
func TestHostileText(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	blocked(t, dir)
	asking(t, dir)
	b := enter(t, site(t, dir, ""))
	element, handler := regexp.MustCompile(`<(script|img|iframe)\b[^>]*>`), regexp.MustCompile(`<[^>]*\son\w+=`)
	for _, path := range paths() {
		w := b.do("GET", path, nil)
		for _, found := range element.FindAllString(w.Body.String(), -1) {
			if found != `<script src="/live.js" defer>` {
				t.Errorf("%s has %s", path, found)
			}
		}
		if found := handler.FindString(w.Body.String()); found != "" && !strings.Contains(found, "&#34; onclick") {
			t.Errorf("%s has %s", path, found)
		}
		csp := w.Header().Get("Content-Security-Policy")
		if !strings.HasPrefix(csp, "default-src 'none'; ") || strings.Contains(csp, "unsafe") || strings.Contains(csp, "*") ||
			w.Header().Get("X-Content-Type-Options") != "nosniff" || w.Header().Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s has the headers %v", path, w.Header())
		}
		if path != "/b/01k3middle/report.html" && strings.Contains(w.Body.String(), "style=") {
			t.Errorf("%s styles something where the policy does not let it", path)
		}
	}
	if !strings.Contains(b.get("/"), "&lt;script&gt;alert(1)&lt;/script&gt;") {
		t.Error("the page does not show what was asked")
	}
}

// After a form, the browser returns to a page of this site and to nothing else.
func TestBack(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	blocked(t, dir)
	b := enter(t, site(t, dir, ""))
	for to, want := range map[string]string{
		"/b/" + sample.ID: "/b/" + sample.ID, "//evil.example": "/", "https://evil.example": "/", `/\evil.example`: "/", "": "/",
	} {
		w := b.do("POST", "/b/"+sample.ID+"/order", url.Values{"do": {"note"}, "text": {"x"}, "back": {to}})
		if got := w.Header().Get("Location"); got != want {
			t.Errorf("back to %q leads to %q", to, got)
		}
	}
}

func TestPublicURL(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"box", "ftp://box", "https://box/manager", "https://user@box", "https://", "https://box?x", "https://box#x"} {
		if _, err := newSite(t, t.TempDir(), address); err == nil {
			t.Errorf("%q is taken", address)
		}
	}
	if s := site(t, t.TempDir(), "https://box:8443/"); !strings.HasPrefix(s.Links()[1], "https://box:8443/link/") {
		t.Error(s.Links())
	}
}
