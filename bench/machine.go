package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
)

// machine describes the machine, as far as it can be found out.
func (w *world) machine(ctx context.Context) string {
	processor := firstMatch("/proc/cpuinfo", `model name\s*: (.*)`, runtime.GOARCH)
	parts := []string{fmt.Sprintf("%d × %s", runtime.NumCPU(), processor)}
	if kB, err := strconv.ParseFloat(firstMatch("/proc/meminfo", `MemTotal:\s*(\d+)`, ""), 64); err == nil {
		parts = append(parts, fmt.Sprintf("%.0f GB", kB*1024/1e9))
	}
	parts = append(parts, runtime.GOOS+firstMatch("/proc/version", `version( \d+\.\d+)`, ""), runtime.Version())
	if out, err := exec.CommandContext(ctx, "git", "version").Output(); err == nil {
		parts = append(parts, strings.Replace(strings.TrimSpace(string(out)), "version ", "", 1))
	}
	if p := w.command(ctx, w.root, w.opencode, "--version"); !w.once && p.Run() == nil {
		parts = append(parts, "OpenCode "+strings.TrimSpace(p.output.String()))
	}
	if load := firstMatch("/proc/loadavg", `(\S+)`, ""); load != "" {
		parts = append(parts, "load before "+load)
	}
	return "Machine: " + strings.Join(parts, ", ")
}

// firstMatch returns the first group of the expression's first match in the file, or the fallback.
func firstMatch(path, expression, fallback string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return fallback
	}
	match := regexp.MustCompile(expression).FindSubmatch(data)
	if match == nil {
		return fallback
	}
	return string(match[1])
}
