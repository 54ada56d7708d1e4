//go:build chromium

package web_test

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"
)

// chromium is a real browser, driven by the DevTools protocol over a pipe.
type chromium struct {
	t       *testing.T
	to      *os.File
	answers chan answer
	n       int
	faults  []string // errors that its console reported
}

type answer struct {
	ID     int
	Method string
	Params json.RawMessage
	Result json.RawMessage
	Error  *struct{ Message string }
}

func start(t *testing.T) *chromium {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatalf("%v: install it, as with `apt-get install chromium`", err)
	}
	in, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	from, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), path, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
		"--remote-debugging-pipe", "--user-data-dir="+t.TempDir(), "about:blank")
	cmd.ExtraFiles = []*os.File{in, out}
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	in.Close()
	out.Close()
	c := &chromium{t: t, to: to, answers: make(chan answer, 1000)}
	go func() {
		defer close(c.answers)
		for r := bufio.NewReader(from); ; {
			line, err := r.ReadBytes(0)
			if err != nil {
				return
			}
			var a answer
			if json.Unmarshal(bytes.TrimSuffix(line, []byte{0}), &a) == nil {
				c.answers <- a
			}
		}
	}()
	t.Cleanup(func() {
		c.call("", "Browser.close", nil)
		_ = cmd.Wait()
	})
	return c
}

// call waits up to a minute for the answer, and collects the faults that arrive before it.
func (c *chromium) call(session, method string, params map[string]any) json.RawMessage {
	c.t.Helper()
	c.n++
	data, err := json.Marshal(map[string]any{"id": c.n, "method": method, "params": params, "sessionId": session})
	if session == "" {
		data, err = json.Marshal(map[string]any{"id": c.n, "method": method, "params": params})
	}
	if err == nil {
		_, err = c.to.Write(append(data, 0))
	}
	if err != nil {
		c.t.Fatal(err)
	}
	timeout := time.After(time.Minute)
	for {
		select {
		case a, ok := <-c.answers:
			switch {
			case !ok:
				c.t.Fatalf("%s: the browser ended", method)
			case a.Method == "Log.entryAdded", a.Method == "Runtime.exceptionThrown":
				c.faults = append(c.faults, string(a.Params))
			case a.ID == c.n && a.Error != nil:
				c.t.Fatalf("%s: %s", method, a.Error.Message)
			case a.ID == c.n:
				return a.Result
			}
		case <-timeout:
			c.t.Fatalf("%s: no answer within a minute", method)
		}
	}
}

type tab struct {
	*chromium
	session string
}

func (c *chromium) open() *tab {
	c.t.Helper()
	var target struct{ TargetID string }
	var session struct{ SessionID string }
	_ = json.Unmarshal(c.call("", "Target.createTarget", map[string]any{"url": "about:blank"}), &target)
	_ = json.Unmarshal(c.call("", "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}), &session)
	p := &tab{c, session.SessionID}
	for _, domain := range []string{"Page", "Log", "Runtime"} {
		p.do(domain+".enable", nil)
	}
	return p
}

func (p *tab) do(method string, params map[string]any) json.RawMessage {
	p.t.Helper()
	return p.call(p.session, method, params)
}

// eval returns the value of an expression, as JSON.
func (p *tab) eval(expression string) string {
	p.t.Helper()
	var got struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails json.RawMessage
	}
	_ = json.Unmarshal(p.do("Runtime.evaluate", map[string]any{
		"expression": expression, "awaitPromise": true, "returnByValue": true,
	}), &got)
	if got.ExceptionDetails != nil {
		p.t.Fatalf("%s: %s", expression, got.ExceptionDetails)
	}
	return string(got.Result.Value)
}

func (p *tab) until(expression string) {
	p.t.Helper()
	late := time.After(20 * time.Second)
	for tick := time.NewTicker(50 * time.Millisecond); ; {
		if p.eval("!!("+expression+")") == "true" {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			p.t.Fatalf("not within 20 seconds: %s", expression)
		}
	}
}

func (p *tab) load(address string) {
	p.t.Helper()
	p.do("Page.navigate", map[string]any{"url": address})
	p.until("document.readyState === 'complete' && document.querySelector('main')")
}

func (p *tab) look(width int, colours string) {
	p.t.Helper()
	p.do("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500})
	p.do("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": colours}}})
}

// picture writes a picture of the page, cut at a height.
func (p *tab) picture(file string, highest int) {
	p.t.Helper()
	var shot struct{ Data string }
	_ = json.Unmarshal(p.do("Page.captureScreenshot", map[string]any{"captureBeyondViewport": true, "clip": map[string]any{
		"x": 0, "y": 0, "scale": 1, "width": json.RawMessage(p.eval("innerWidth")),
		"height": json.RawMessage(p.eval(fmt.Sprintf("Math.min(%d, document.documentElement.scrollHeight)", highest))),
	}}), &shot)
	data, err := base64.StdEncoding.DecodeString(shot.Data)
	if err == nil {
		err = os.WriteFile(file, data, 0o644)
	}
	if err != nil {
		p.t.Error(err)
	}
}

// pale lists texts whose contrast with their background is below WCAG's AA.
const pale = `(() => {
  const lum = ([r, g, b]) => [r, g, b].map((v) => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
  const rgb = (s) => (s.match(/[\d.]+/g) || []).map(Number);
  const behind = (e) => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor);
    if (c.length === 3 || c[3] > 0) return c; } return matchMedia("(prefers-color-scheme: dark)").matches ? [13, 17, 23] : [255, 255, 255]; };
  const found = new Set();
  for (const e of document.querySelectorAll("body *:not(svg *)")) {
    if (![...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim()) || !e.checkVisibility()) continue;
    const [a, b] = [lum(rgb(getComputedStyle(e).color)), lum(behind(e))].sort((x, y) => y - x);
    if ((a + .05) / (b + .05) < 4.5) found.add(e.tagName + "." + e.className + " " + ((a + .05) / (b + .05)).toFixed(2));
  }
  return [...found].join(", ");
})()`
