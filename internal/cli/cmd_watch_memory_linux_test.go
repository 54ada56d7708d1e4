package cli

import (
	"os"
	"strings"
	"testing"
)

// What is given up comes back when it is used, and nothing that can be written to is given up.
func TestReleaseProgram(t *testing.T) {
	t.Parallel()
	const file = "/opt/my tools/manager"
	for line, want := range map[string]bool{
		"00400000-012ec000 r-xp 00000000 00:2a 1234                       /opt/my tools/manager\n":           true,
		"012ec000-02528000 r--p 00eec000 00:2a 1234 /opt/my tools/manager":                                   true,
		"02528000-02626000 rw-p 02128000 00:2a 1234                       /opt/my tools/manager\n":           false,
		"02528000-02626000 r--s 02128000 00:2a 1234                       /opt/my tools/manager\n":           false,
		"00400000-012ec000 r-xp 00000000 00:2a 1234                       /opt/my tools/manager (deleted)\n": false,
		"7ffc1000-7ffc2000 r-xp 00000000 00:00 0                          [vdso]\n":                          false,
		"7ffc1000-7ffc2000 r-xp 00000000 00:00 0 \n":                                                         false,
		"012ec000-00400000 r-xp 00000000 00:2a 1234 /opt/my tools/manager":                                   false,
		"": false,
	} {
		from, length, ours := mapping(line, file)
		if ours != want || ours && (length != 0xeec000 || from != 0x400000) && (length != 0x123c000 || from != 0x12ec000) {
			t.Errorf("mapping(%q) = %x, %x, %v", line, from, length, ours)
		}
	}
	const smaps = "00400000-00401000 r-xp 00000000 00:2a 1 /m\nSize: 4 kB\nAnonymous:             0 kB\nVmFlags: rd ex mr\n" +
		"00401000-00402000 r--p 00001000 00:2a 1 /m\nSize: 4 kB\nAnonymous:             4 kB\nVmFlags: rd mr\n" +
		"00402000-00403000 r--p 00002000 00:2a 1 /lib/c.so\nSize: 4 kB\nAnonymous:             0 kB\nVmFlags: rd mr\n"
	if got := releasable(smaps, "/m"); len(got) != 1 || got[0].from != 0x400000 {
		t.Errorf("given up: %x; the second mapping has pages that the file does not", got)
	}
	before := programPages(t)
	if err := releaseProgram(); err != nil {
		t.Fatal(err)
	}
	if after := programPages(t); after >= before {
		t.Errorf("%d pages of files before, %d after", before, after)
	}
}

// programPages are the resident pages of files.
func programPages(t *testing.T) int {
	t.Helper()
	data, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	shared := 0
	for _, c := range strings.Fields(string(data))[2] {
		shared = shared*10 + int(c-'0')
	}
	return shared
}
