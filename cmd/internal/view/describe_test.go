package view

import (
	"reflect"
	"slices"
	"testing"

	"github.com/bouldermgr/manager/boulder"
)

func TestEveryEventIsDescribed(t *testing.T) {
	var described []string
	for body := range descriptions {
		described = append(described, boulder.TypeOf(reflect.Zero(body).Interface().(boulder.Body)))
	}
	slices.Sort(described)
	if all := boulder.EventTypes(); !slices.Equal(described, all) {
		t.Errorf("described: %q\nevents: %q", described, all)
	}
}
