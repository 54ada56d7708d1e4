package providerstest

import (
	"context"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/providers"
)

// Script is a [providers.Completer] that gives its answers in order, repeats the last one, and records requests.
type Script struct {
	Answers []any         // string or error
	Usage   boulder.Usage // of each text
	Asked   []providers.Request
}

// Complete implements [providers.Completer].
func (s *Script) Complete(ctx context.Context, req *providers.Request) (*providers.Response, error) {
	answer := s.Answers[min(len(s.Asked), len(s.Answers)-1)]
	asked := *req
	asked.Messages = append([]providers.Message(nil), req.Messages...)
	s.Asked = append(s.Asked, asked)
	if ctx.Err() != nil {
		return nil, &providers.Error{Kind: providers.KindCanceled, Err: ctx.Err()}
	}
	if err, failed := answer.(error); failed {
		return nil, err
	}
	return &providers.Response{Text: answer.(string), Usage: s.Usage}, nil
}
