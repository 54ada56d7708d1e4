package main
import ("testing";"os";"io";"github.com/bouldermgr/manager/internal/cli")
func TestZZSeed(t *testing.T) { p := os.Getenv("SEED_DIR"); if p == "" { t.Skip() }; if err := fillBlockers(t.Context(), p, 1000); err != nil { t.Fatal(err) } }
func BenchmarkZZ(b *testing.B) { for _, c := range []string{"list","status"} { b.Run(c, func(b *testing.B) { for b.Loop() {
 cli.Main(cli.Env{Args: []string{"blockers", c, "-C", os.Getenv("SEED_DIR")}, Stdout: io.Discard, Stderr: os.Stderr, Environ: os.Environ()}) } }) } }
