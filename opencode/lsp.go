package opencode

import (
	"context"
	"slices"
)

// HasLanguageServer reports whether one works in the directory. OpenCode starts one with the first file of its kind
// that an agent edits, if it is installed; which kinds one is for is not told. Without any, editing tools report
// empty diagnostics, the same as for files without a fault.
func (d *Directory) HasLanguageServer(ctx context.Context) (bool, error) {
	type server struct{ Status string }
	all, err := get[[]server](ctx, d, "list language servers", "/lsp", nil)
	return slices.Contains(all, server{"connected"}), err
}
