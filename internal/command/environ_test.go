package command_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bouldermgr/manager/internal/command"
)

// With a proxy in any spelling, both spellings of NO_PROXY name this machine, besides what the user has there.
func TestEnvironKeepsProxiesAwayFromThisMachine(t *testing.T) {
	t.Parallel()
	const own = "localhost,127.0.0.1,::1"
	for _, proxy := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"} {
		for _, test := range []struct {
			has          []string
			lower, upper string
		}{
			{nil, own, own},
			{[]string{"NO_PROXY=.corp,10.0.0.0/8"}, ".corp,10.0.0.0/8," + own, ".corp,10.0.0.0/8," + own},
			{[]string{"no_proxy=a, b,"}, "a, b," + own, "a, b," + own},
			{[]string{"no_proxy=a", "NO_PROXY=b"}, "a," + own, "b," + own},
			{[]string{"no_proxy=old", "no_proxy=127.0.0.1 new", "NO_PROXY="}, "127.0.0.1 new,localhost,::1",
				"127.0.0.1 new,localhost,::1"},
			{[]string{"NO_PROXY=*"}, "*", "*"},
		} {
			in := slices.Concat([]string{"PATH=/bin", proxy + "=http://p:1"}, test.has, []string{"Z=1"})
			before := slices.Clone(in)
			want := []string{
				"PATH=/bin", proxy + "=http://p:1", "Z=1", "no_proxy=" + test.lower, "NO_PROXY=" + test.upper,
			}
			got := command.Environ(in)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%q (-want +got):\n%s", in, diff)
			}
			if diff := cmp.Diff(got, command.Environ(got)); diff != "" {
				t.Errorf("%q changes when repeated:\n%s", in, diff)
			}
			if diff := cmp.Diff(before, in); diff != "" {
				t.Errorf("the input changed:\n%s", diff)
			}
		}
	}
	for _, in := range [][]string{nil, {"PATH=/bin", "NO_PROXY=x"}, {"HTTP_PROXY=", "PATH=/bin"}} {
		if diff := cmp.Diff(in, command.Environ(in)); diff != "" {
			t.Errorf("without a proxy (-want +got):\n%s", diff)
		}
	}
}
